"""Requests to a capture to read a table again: served once, beside the changes, and refused with what is wrong."""

from __future__ import annotations

import json

import pytest

from mainstem.cli.main import execute
from mainstem.postgres.captured_state import read_state
from tests.postgres.conftest import Shop
from tests.support.postgres import PostgresDatabase

TABLES = """
CREATE TABLE orders (id int PRIMARY KEY, item text);
CREATE TABLE lines (id int PRIMARY KEY);
INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 1200) n;
INSERT INTO lines VALUES (1);
"""


def ask(shop: Shop, *words: str, name: str = "", dsn: str = "") -> int:
    """The exit code of ``mainstem connect snapshot``."""
    named = ["connect", "snapshot", name or shop.name, dsn or shop.database.dsn]
    return execute([*named, "--bootstrap", shop.log.bootstrap, *words])


def test_a_table_is_read_again_beside_the_changes(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.execute(TABLES)
    topic = f"{shop.name}.orders"
    with shop.capture("orders", "lines") as capture:
        capture.caught_up(shop.database)
        shop.log.append(topic, {"id": 5000, "item": "of another program"}, key="5000")
        shop.log.append(topic, {"id": 7, "item": "wrong"}, key="7")
        assert shop.fold() != shop.rows()
        assert ask(shop, "--tables", "orders") == 0
        assert capsys.readouterr().out == (
            f"asked capture {shop.name} to read public.orders again; see how far it is: mainstem connect status\n"
        )
        shop.execute("DELETE FROM orders WHERE id % 10 = 0; UPDATE orders SET item = 'y' WHERE id % 7 = 1")
        shop.execute("INSERT INTO orders VALUES (2000, 'new')")
        capture.caught_up(shop.database)
        assert shop.fold() == shop.rows()
        assert len(shop.records("lines")) == 1
        assert ask(shop, "--json") == 0
        document = json.loads(capsys.readouterr().out)
        assert document == {"capture": shop.name, "tables": ["public.orders", "public.lines"]}
        capture.caught_up(shop.database)
        assert [key for key, _ in shop.records("lines")] == ["1", "1"]
    assert "table public.lines is read again, as asked" in capture.notes


def test_a_request_waits_for_the_capture_and_is_served_once(shop: Shop) -> None:
    shop.execute(TABLES)
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    many = "SELECT pg_logical_emit_message(true, %s, 'orders') FROM generate_series(1, 500)"
    shop.execute(many, (f"{shop.settings().slot}.snapshot",))  # one transaction: the table is read once
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    count = len(shop.records())
    assert count == 2400
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    assert len(shop.records()) == count
    assert read_state(shop.log, shop.name).tables["public.orders"].rows == 1200


def test_a_request_that_cannot_be_served_is_refused(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.execute(TABLES)
    with shop.capture() as capture:
        capture.caught_up(shop.database)
        for words, name, text in (
            (["--tables", "lines"], "", "table public.lines is not of capture"),
            (["--tables", "a.b.c"], "", "'a.b.c' is not the name of a table"),
            ([], "none", "the log has no capture 'none': mainstem connect status lists them"),
        ):
            assert ask(shop, *words, name=name) == 1
            assert text in capsys.readouterr().err
        other = PostgresDatabase(shop.database.cluster, "postgres")
        assert ask(shop, dsn=other.dsn) == 1
        assert f"reads database {shop.database.name} of another server or database" in capsys.readouterr().err
        for message in ("lines", "a.b.c", "", "\u00e9" * 100_000):
            shop.execute("SELECT pg_logical_emit_message(false, %s, %s)", (f"{shop.settings().slot}.snapshot", message))
        shop.execute("SELECT pg_logical_emit_message(true, 'another.snapshot', 'orders')")
        shop.execute("INSERT INTO orders VALUES (2000, 'new')")
        capture.caught_up(shop.database)
    ignored = [note for note in capture.notes if note.startswith("a request for a snapshot is ignored: ")]
    assert len(ignored) == 4
    assert max(map(len, ignored)) < 1_000
    assert len(shop.records()) == 1201
