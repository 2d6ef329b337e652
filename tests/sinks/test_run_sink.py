"""``mainstem run`` with an App that has a sink: the commands and HTTP treat it as every view."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.http.views import views
from mainstem.client.log import Log
from tests.support.postgres import PostgresCluster, PostgresDatabase

APP = """
import mainstem as ms
app = ms.App("shop")
orders = app.topic("orders", schema="id BIGINT, name STRING", key="id")
app.sink(orders, ms.Postgres(table="orders"))
"""


@pytest.fixture
def running(tmp_path: Path, postgres_cluster: PostgresCluster) -> Iterator[dict[str, str]]:
    """The addresses of a running App whose sink is in the database ``run_sink``, and its log's output."""
    postgres_cluster.execute("DROP ROLE IF EXISTS shop")
    postgres_cluster.execute("CREATE ROLE shop LOGIN PASSWORD 'hidden-word'")
    postgres_cluster.execute("CREATE DATABASE run_sink OWNER shop")
    (tmp_path / "app.py").write_text(APP)
    argv = [sys.executable, "-m", "mainstem.cli.main", "run", str(tmp_path / "app.py"), "--json"]
    argv += ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--no-console"]
    dsn = postgres_cluster.tcp_dsn("run_sink", "shop", "hidden-word")
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "MAINSTEM_POSTGRES_DSN": dsn}
    )
    try:
        assert process.stdout is not None
        ready: dict[str, str] = json.loads(process.stdout.readline())["ready"]
        yield ready
    finally:
        process.terminate()
        process.communicate(timeout=60)
        postgres_cluster.execute("DROP DATABASE run_sink WITH (FORCE)")
        postgres_cluster.execute("DROP ROLE shop")


def test_a_sink_is_served_as_a_view(running: dict[str, str], postgres_cluster: PostgresCluster, tmp_path: Path) -> None:
    database = PostgresDatabase(postgres_cluster, "run_sink")
    asked = views(f"http://{running['http']}")["orders"]
    with Log(running["kafka"], timeout_s=30) as log:
        position = log.append_many("orders", [(str(n), {"id": n, "name": f"n{n}"}) for n in range(5)])
    assert asked.get("3", at_least=position).rows == [{"_key": "3", "id": 3, "name": "n3"}]
    assert database.execute("SELECT count(*) FROM orders") == [(5,)]
    assert [row["_key"] for row in asked.range(prefix="4").rows] == ["4"]
    database.execute("UPDATE orders SET name = 'by hand' WHERE id = 3")
    assert [difference["key"] for difference in asked.verify()["differences"]] == ["3"]
    asked.rebuild()
    assert asked.verify()["equal"]
    status = asked.status()
    assert (status["kind"], status["state"], status["position"]) == ("postgres", "live", str(position))
    with urllib.request.urlopen(f"http://{running['http']}/metrics", timeout=30) as answer:
        assert 'view="orders"' in answer.read().decode()
    written = [
        path for path in (tmp_path / "data").rglob("*") if path.is_file() and b"hidden-word" in path.read_bytes()
    ]
    assert written == []
