"""Random changes of every kind beside snapshots in tiny chunks: the topic is always the table in the end.

``MAINSTEM_POSTGRES_SEEDS`` is how many histories are played (3).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import psycopg2
import pytest

from mainstem.postgres.server import chunks
from tests.postgres.conftest import Shop

SEEDS = int(os.environ.get("MAINSTEM_POSTGRES_SEEDS", "3"))
STEPS = 150
TABLE = """
CREATE TABLE orders (
  a text COLLATE "en-x-icu", b numeric, note text, tags jsonb, data bytea, at timestamptz, PRIMARY KEY (a, b)
);
ALTER TABLE orders ALTER note SET STORAGE EXTERNAL, ALTER data SET STORAGE EXTERNAL;
"""
IDENTITY = "CREATE UNIQUE INDEX by_key ON orders (a, b); ALTER TABLE orders REPLICA IDENTITY USING INDEX by_key"
KEYS = [
    (text, str(number))
    for text in ("", "A", "a", "b ", "b", "é", '"', "\\N", "z\t")
    for number in ("1", "-0.50", "1e3", "NaN")
]
LARGE = "x" * 5_000


class History:
    """Random statements, in transactions that commit or do not."""

    def __init__(self, connection: Any, seed: int, slot: str = "") -> None:
        """``slot``: of the capture, which is asked now and then to read the table again."""
        self.random = random.Random(seed)
        self.connection = connection
        self.slot = slot
        self.columns = 0
        self.changes_tables = True

    def play(self, steps: int, may_change_tables: Callable[[], bool] = lambda: True) -> None:
        """``may_change_tables``: PostgreSQL 15 cannot decode a table that is rewritten while a slot is being made."""
        for _ in range(steps):
            self.changes_tables = may_change_tables()
            with self.connection.cursor() as cursor:
                for _ in range(self.random.choice((1, 1, 3, 20))):
                    self.change(cursor)
                if self.random.random() < 0.9:
                    self.connection.commit()
                else:
                    self.connection.rollback()

    def change(self, cursor: Any) -> None:
        key, other = self.random.choice(KEYS), self.random.choice(KEYS)
        kind = self.random.random()
        if kind < 0.35:
            values = (
                *key,
                self.text(),
                f'{{"n": {self.random.random()}}}',
                self.random.randbytes(self.random.choice((3, 4_000))),
            )
            put = "ON CONFLICT DO NOTHING"
            self.execute(
                cursor,
                f"INSERT INTO orders (a, b, note, tags, data, at) VALUES (%s, %s, %s, %s, %s, now()) {put}",
                values,
            )
        elif kind < 0.6:  # leaves large values out
            column = self.random.choice(("tags = '[1.50]'", "at = 'infinity'", "note = note || 'y'", "tags = NULL"))
            self.execute(cursor, f"UPDATE orders SET {column} WHERE a = %s", (key[0],))
        elif kind < 0.75:
            self.execute(cursor, "DELETE FROM orders WHERE a = %s AND b = %s", key)
        elif kind < 0.88:
            self.execute(cursor, "UPDATE orders SET a = %s, b = %s WHERE a = %s AND b = %s", (*other, *key))
        elif kind < 0.896:
            if self.changes_tables:
                self.execute(cursor, "TRUNCATE orders")
        elif kind < 0.9:
            message = (self.random.random() < 0.5, f"{self.slot}.snapshot", "orders")
            cursor.execute("SELECT pg_logical_emit_message(%s, %s, %s)", message)
        elif kind < 0.93:
            cursor.execute("SAVEPOINT s")
            self.execute(cursor, "UPDATE orders SET note = 'undone', b = b + 7")
            cursor.execute("ROLLBACK TO s")
        elif kind < 0.96 and self.columns < 20 and self.changes_tables:
            self.columns += 1
            self.execute(cursor, f"ALTER TABLE orders ADD COLUMN extra_{self.columns} int")
        elif self.columns:
            self.execute(cursor, f"UPDATE orders SET extra_{self.random.randint(1, self.columns)} = 5")

    def text(self) -> str | None:
        return self.random.choice((None, "", "short", LARGE, LARGE + "é"))

    def execute(self, cursor: Any, statement: str, values: Any = None) -> None:
        """A statement that may be refused: then as if it had not been."""
        cursor.execute("SAVEPOINT one")
        try:
            cursor.execute(statement, values)
        except psycopg2.Error:
            cursor.execute("ROLLBACK TO one")


def normal(row: dict[str, Any]) -> dict[str, Any]:
    """A row as both tell it: PostgreSQL's JSON has no base64, no NaN in quotes, and other times."""
    return {
        name: value for name, value in row.items() if name not in ("b", "data", "at", "_postgres") and value is not None
    }


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_topic_is_the_table_whatever_happened(shop: Shop, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_ROWS_FIRST", 2)
    monkeypatch.setattr(chunks, "_ROWS_MAX", 3)
    shop.execute(TABLE)
    shop.execute("ALTER TABLE orders REPLICA IDENTITY FULL" if seed % 3 == 2 else IDENTITY)
    connection = psycopg2.connect(shop.database.dsn)
    history = History(connection, seed, shop.settings().slot)
    history.play(40)
    for _ in range(3):  # goes on where it was; the second time everything is read again
        with shop.capture(again=_ == 1, partitions=1 + seed % 3) as capture:
            history.play(STEPS, capture.ready.is_set)
            capture.caught_up(shop.database)
        history.play(10)
    with shop.capture(partitions=1 + seed % 3) as capture:
        capture.caught_up(shop.database)
    connection.close()
    rows = {
        (row["a"], str(b)): (normal(row), data, at)
        for row, b, data, at in shop.execute(
            "SELECT to_jsonb(t), b::text, encode(data, 'base64'), at::text FROM orders t"
        )
    }
    found = {(value["a"], value["b"]): (normal(value), value["data"], value["at"]) for value in shop.fold().values()}
    assert found.keys() == rows.keys()
    for key, (row, data, at) in rows.items():
        assert found[key][0] == row, key
        assert found[key][1] == (None if data is None else data.replace("\n", "")), key
        assert (found[key][2] is None) == (at in (None, "infinity")), key
