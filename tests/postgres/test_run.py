"""``mainstem run`` with a captured database: one command, and a view that reflects one's own write to the database."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx

from tests.broker.harness import child_environment
from tests.postgres.conftest import Shop
from tests.support.ports import free_port

TIMEOUT_S = 120
APP = """
import mainstem as ms
app = ms.App("shop")
shop = app.postgres("shop", dsn={dsn!r}, tables=("public.orders",))
app.view("orders", shop["public.orders"], ms.KeyValue())
app.view("table", shop["public.orders"], ms.SQL())
"""


def test_an_app_with_a_captured_database_runs_and_goes_on(shop: Shop, tmp_path: Path) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, item text, price numeric(10,2), until timestamptz)")
    shop.execute("INSERT INTO orders SELECT n, 'item ' || n, n / 4.0, 'infinity' FROM generate_series(1, 100) n")
    (tmp_path / "app.py").write_text(APP.format(dsn=shop.database.dsn))
    listen, http = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    code = "from mainstem.cli.main import main; main()"
    argv = [sys.executable, "-c", code, "run", str(tmp_path / "app.py"), "--data", str(tmp_path / "data")]
    argv += ["--listen", listen, "--http", http, "--no-console", "--json"]
    for item in ("first", "second"):
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=child_environment())
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["ready"]["http"] == http
            with httpx.Client(base_url=f"http://{http}", timeout=TIMEOUT_S) as client:
                shop.execute("UPDATE orders SET item = %s WHERE id = 7", (item,))
                lsn = shop.execute("SELECT pg_current_wal_lsn()::text")[0][0]
                row = client.get("/views/orders/keys/7", params={"at_least": f"pg:{lsn}", "timeout": 60}).json()
                assert row["rows"][0]["item"] == item
                select = {"query": 'SELECT count(*) AS n, sum(price) AS total, count("until") AS u FROM "table"'}
                answer = client.post("/views/table/sql", params={"at_least": f"pg:{lsn}", "timeout": 60}, json=select)
                assert answer.json()["rows"] == [{"n": 100, "total": "1262.50", "u": 0}]
                (state,) = client.get("/pipelines").json()["pipelines"]
                assert (state["name"], state["outputs"]) == ("shop", ["shop.orders"])
                assert 'mainstem_capture_snapshots_pending{capture="shop"} 0' in client.get("/metrics").text
                refused = client.get("/views/orders/keys/7", params={"at_least": "pg:bank:0/1"})
                assert refused.status_code == 400
        finally:
            process.terminate()
            assert process.wait(TIMEOUT_S) == 0
