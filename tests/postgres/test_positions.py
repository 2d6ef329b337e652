"""``at_least=pg:LSN``: a view reflects one's own write to the database, also through pipelines of others."""

from __future__ import annotations

from pathlib import Path

import pytest

import mainstem as ms
from mainstem.errors import DefinitionError, PositionError, PositionFormatError
from mainstem.model import Position, lsn_text, parse_lsn
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.postgres.captured_state import database_partition
from mainstem.views.feed.coverage import Coverage, Hop
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import GetQuery
from tests.postgres.conftest import Shop

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, item text)"


def test_a_position_of_a_database_as_text() -> None:
    assert Position.parse("pg:shop:0/16B3748") == Position({database_partition("shop"): 0x16B3748})
    assert Position.parse("orders/0:5,pg:1A/FF") == Position.of("orders", 0, 5) | Position(
        {database_partition(""): 0x1A000000FF}
    )
    assert parse_lsn(lsn_text(0x1A000000FF)) == 0x1A000000FF
    assert Position.parse(str(Position.parse("pg:shop:0/16B3748"))) == Position.parse("pg:shop:0/16B3748")
    for wrong in ("pg:", "pg:0", "pg:x/y", "pg:Shop:0/1", "pg:0/123456789"):
        with pytest.raises(PositionFormatError):
            Position.parse(wrong)


def test_a_database_that_is_not_named_is_the_only_one_upstream() -> None:
    hops = [
        Hop("shop", frozenset({database_partition("shop").topic}), frozenset(), frozenset({"shop.orders"})),
        Hop("bank", frozenset({database_partition("bank").topic}), frozenset(), frozenset({"bank.accounts"})),
        Hop("both", frozenset({"shop.orders", "bank.accounts"}), frozenset(), frozenset({"both"})),
    ]
    coverage = Coverage(hops)
    assert coverage.wait("shop.orders", Position.parse("pg:0/5")).at_least == Position.parse("pg:shop:0/5")
    assert coverage.wait("both", Position.parse("pg:bank:0/5")).at_least == Position.parse("pg:bank:0/5")
    with pytest.raises(PositionError, match="pg:bank:LSN, pg:shop:LSN"):
        coverage.wait("both", Position.parse("pg:0/5"))
    with pytest.raises(PositionError, match="derives from none"):
        coverage.wait("other", Position.parse("pg:0/5"))
    with pytest.raises(PositionError, match="not upstream"):
        coverage.wait("shop.orders", Position.parse("pg:bank:0/5"))
    assert coverage.upstream("both") == {"shop.orders", "bank.accounts"}


def test_a_view_reflects_ones_own_write_to_the_database(shop: Shop, tmp_path: Path) -> None:
    shop.execute(ORDERS)
    app = ms.App("reads")
    captured = app.postgres(shop.name, dsn=shop.database.dsn, tables=["public.orders", "public.lines"])
    app.view("orders", captured["orders"], ms.KeyValue())
    shop.execute("CREATE TABLE lines (id int PRIMARY KEY)")
    deploy(app, shop.log)
    with shop.capture("orders", "lines") as capture:
        capture.caught_up(shop.database)
        views, captures = tuple(app.views.values()), tuple(app.captures.values())
        with ViewHost(views, shop.log.bootstrap, tmp_path, captures=captures) as host:
            for number in range(50):
                shop.execute(
                    "INSERT INTO orders VALUES (1, %s) ON CONFLICT (id) DO UPDATE SET item = excluded.item",
                    (str(number),),
                )
                lsn = shop.execute("SELECT pg_current_wal_lsn()::text")[0][0]
                options = ReadOptions(Position.parse(f"pg:{lsn}"))
                answer = host.query("orders", GetQuery("1"), options)
                assert answer.rows[0]["item"] == str(number)
                assert answer.covers.covers(Position.parse(f"pg:{shop.name}:{lsn}"))
            shop.execute("INSERT INTO lines VALUES (1)")  # a transaction that the view's table has no part in
            lsn = shop.execute("SELECT pg_current_wal_lsn()::text")[0][0]
            assert host.query("orders", GetQuery("1"), ReadOptions(Position.parse(f"pg:{lsn}"))).rows


def test_a_pipeline_s_progress_carries_the_database_on() -> None:
    coverage = Coverage()
    source = database_partition("shop")
    for lsn, orders, daily in ((100, 5, 2), (200, 9, 4)):
        sink = Position.of("shop.orders", 0, orders)
        coverage.add(Progress("shop", 0, Position({source: lsn}), sink, Position(), (source.topic,), ("shop.orders",)))
        derived = Position.of("daily", 0, daily)
        coverage.add(Progress("daily", 0, sink, derived, Position(), ("shop.orders",), ("daily",)))
    wait = coverage.wait("daily", Position.parse("pg:0/C8"))
    assert not wait.is_reached(Position.of("daily", 0, 3))
    assert wait.is_reached(Position.of("daily", 0, 4))
    assert coverage.covers("daily", Position.of("daily", 0, 4))[source] == 200


def test_an_app_declares_captured_tables_once(shop: Shop) -> None:
    app = ms.App("declares")
    captured = app.postgres("shop", dsn="dbname=x", tables=["orders", "sales.lines"])
    assert [topic.name for topic in captured.values()] == ["shop.orders", "shop.sales.lines"]
    assert captured["public.orders"] is captured["orders"]
    with pytest.raises(DefinitionError, match=r"it has: public\.orders, sales\.lines"):
        captured["customers"]
    with pytest.raises(DefinitionError, match="capture shop is declared already"):
        app.postgres("shop", dsn="dbname=x", tables=["orders"])
    with pytest.raises(DefinitionError, match=r"test_positions.py:\d+: invalid name"):
        app.postgres("Shop", dsn="dbname=x", tables=["orders"])
    with pytest.raises(DefinitionError, match="written by a capture"):

        @app.pipeline(captured["orders"], into=captured["sales.lines"])
        def again(orders: object) -> object:
            return orders

    with pytest.raises(DefinitionError, match="capture shop is declared already"):

        @app.pipeline(captured["orders"], into="other", name="shop")
        def other(orders: object) -> object:
            return orders

    deploy(app, shop.log)
    assert "shop.orders" not in shop.log.topics()
    assert PROGRESS_TOPIC in shop.log.topics()
