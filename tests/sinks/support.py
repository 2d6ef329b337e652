"""What the tests of sinks share: stores over a private PostgreSQL, and rows as the table has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mainstem.pipelines.kinds import Postgres
from mainstem.schema.infer import schema_of
from mainstem.schema.types import TopicSchema
from mainstem.views.stores.store import StoreDefinition, ViewStore
from mainstem.views.stores.store_kinds import open_store
from tests.support.postgres import PostgresDatabase
from tests.views.support import TOPIC

SCHEMA = schema_of("id BIGINT, name STRING, price DECIMAL(10,2)")


def definition(
    dsn: str, schema: TopicSchema | None = SCHEMA, key: tuple[str, ...] = ("id",), table: str = "orders"
) -> StoreDefinition:
    """A sink of the tests' topic."""
    return StoreDefinition("orders", Postgres(dsn, table=table), schema, topic=TOPIC, key=key)


@contextmanager
def serving(path: Path, of: StoreDefinition) -> Iterator[ViewStore]:
    """A store that serves."""
    store = open_store(path, of, for_users=True)
    try:
        store.serve()
        yield store
    finally:
        store.close()


def table(database: PostgresDatabase, name: str = "orders") -> list[tuple[Any, ...]]:
    """The rows of a table, in order."""
    return database.execute(f'SELECT * FROM "{name}" ORDER BY 1')
