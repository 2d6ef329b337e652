"""The loop closes: a table of PostgreSQL, captured as a topic, comes back as a sink, and that one is captured again."""

from __future__ import annotations

from pathlib import Path

import mainstem as ms
from mainstem.client.log import Log
from mainstem.pipelines.deploy import deploy
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import RangeQuery
from tests.postgres.conftest import Shop
from tests.support.postgres import PostgresDatabase

_ORDERS = (
    "CREATE TABLE orders (id bigint, part text, amount numeric(12,2), seen timestamptz, local timestamp, day date, "
    "is_paid boolean, weight float8, small float4, data bytea, tags int[], PRIMARY KEY (id, part))"
)
_ROWS = (
    "INSERT INTO orders SELECT n, 'p\"' || n % 3, n / 7.0, '2024-01-01Z'::timestamptz + n * '1 s'::interval, "
    "'2024-01-01'::timestamp + n * '1 us'::interval, '2024-01-01'::date + n, n % 2 = 0, n / 3.0, n / 3.0, "
    "decode(lpad(to_hex(n), 4, '0'), 'hex'), ARRAY[n, NULL] FROM generate_series(1, 200) n"
)


def test_a_captured_table_comes_back_as_it_was(
    mainstem_log: Log, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    shop = Shop(mainstem_log, postgres_database, "loop-" + postgres_database.name.replace("_", "-"))
    shop.execute(_ORDERS)
    app = ms.App("loop")
    captured = app.postgres(shop.name, dsn=shop.database.dsn, tables=["public.orders"])
    app.sink(captured["orders"], ms.Postgres(shop.database.dsn, table="copies"))
    deploy(app, shop.log)
    with ViewHost(tuple(app.views.values()), shop.log.bootstrap, tmp_path, captures=app.captures.values()) as host:
        host.wait("copies", lambda status: status.state == "waiting")
        with shop.capture() as running:
            running.ready.wait(60)
            shop.execute(_ROWS)
            shop.execute("UPDATE orders SET part = 'moved', amount = NULL WHERE id % 5 = 0")
            shop.execute("DELETE FROM orders WHERE id % 7 = 0")
            running.caught_up(postgres_database)
            end = shop.log.end(f"{shop.name}.orders")
            host.query("copies", RangeQuery(limit=1), ReadOptions(at_least=end))
            assert host.status("copies")[0].dead_letters == 0
            columns = "id, part, amount, seen, local, day, is_paid, weight, small, data"
            wanted = shop.execute(f"SELECT {columns}, to_jsonb(tags) FROM orders ORDER BY id")
            assert shop.execute(f"SELECT {columns}, tags FROM copies ORDER BY id") == wanted
            assert host.verify("copies").equal
