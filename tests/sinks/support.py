"""What the tests of sinks share: stores over a private PostgreSQL, and rows as the table has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from mainstem.pipelines.kinds import Postgres
from mainstem.schema.infer import schema_of
from mainstem.schema.types import TopicSchema
from mainstem.views.stores.store import StoreDefinition, ViewStore
from mainstem.views.stores.store_kinds import open_store
from tests.sinks.databases import SinkDatabase
from tests.support.postgres import PostgresDatabase
from tests.views.support import TOPIC, KeyAndValue

SCHEMA = schema_of("id BIGINT, name STRING, price DECIMAL(10,2)")


def definition(
    where: SinkDatabase | str,
    schema: TopicSchema | None = SCHEMA,
    key: tuple[str, ...] = ("id",),
    table: str = "orders",
) -> StoreDefinition:
    """A sink of the tests' topic, in a database or by a DSN of PostgreSQL."""
    kind = Postgres(where, table=table) if isinstance(where, str) else where.sink(table)
    return StoreDefinition("orders", kind, schema, topic=TOPIC, key=key)


def order(number: int, name: str | None = "a", price: str = "1.50") -> KeyAndValue:
    """A record with a row."""
    return str(number).encode(), json.dumps({"id": number, "name": name, "price": price}).encode()


def gone(number: int) -> KeyAndValue:
    """The tombstone of a row."""
    return str(number).encode(), None


@contextmanager
def serving(path: Path, of: StoreDefinition) -> Iterator[ViewStore]:
    """A store that serves."""
    store = open_store(path, of, for_users=True)
    try:
        store.serve()
        yield store
    finally:
        store.close()


def table(database: PostgresDatabase | SinkDatabase, name: str = "orders") -> list[tuple[Any, ...]]:
    """The rows of a table, in order; decimals as text."""
    rows = database.execute(f'SELECT * FROM "{name}" ORDER BY 1')
    return [tuple(str(cell) if isinstance(cell, Decimal) else cell for cell in row) for row in rows]
