"""SQL views: a table under the view's name, typed from the topic's schema, in DuckDB (`views.stores.sql.sql_table`).

The store reads records; the table holds rows and answers queries. ``SqlStore.isolated`` keeps the table in a process of
its own (`views.stores.sql.sql_process`), so that no query can end or block the process that opened the store.
``apply`` is one transaction: the last record of each key replaces its row, a tombstone deletes it.

Concurrency: as `views.stores.store` says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.views.requests import Request
from mainstem.views.stores.json_reader import JsonReader, last_of_each_key
from mainstem.views.stores.sql.sql_process import IsolatedTable
from mainstem.views.stores.sql.sql_table import SqlTable, TableDefinition
from mainstem.views.stores.sql.sql_types import SqlColumns, identifier
from mainstem.views.stores.store import Answer, Bookmark, DeadLetters, ReadRecords, Snapshot, StoreDefinition, ViewStore

_FEW_ROWS = 8


class SqlStore(ViewStore):
    """The store of a SQL view, in DuckDB. Opening it raises StorageError."""

    keeps_past = True

    def __init__(self, path: Path, definition: StoreDefinition, *, is_isolated: bool = False) -> None:
        columns = SqlColumns.of(definition.schema)
        table = TableDefinition(
            identifier(definition.view), columns.table_ddl(), columns.selection(), len(columns.fields) or 1
        )
        self._reader = JsonReader(columns.fields, text=not columns.fields)
        self._table: SqlTable | IsolatedTable = (IsolatedTable if is_isolated else SqlTable)(path, table)

    @classmethod
    def isolated(cls, path: Path, definition: StoreDefinition) -> SqlStore:
        """A store whose table is in a process of its own."""
        return cls(path, definition, is_isolated=True)

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        read = self._reader.read(arrow_batch)
        return ReadRecords(last_of_each_key(read.table), read.poisons)

    def write(self, read: ReadRecords, bookmark: Bookmark, dead_letters: DeadLetters) -> None:
        table = read.table
        if read.poisons:
            dead_letters(read.poisons)
        bookmark = bookmark.after(self._table.bookmark, read.poisons)
        rows = _rows(table) if len(table) <= _FEW_ROWS else None
        if rows is None:
            self._table.write(table, bookmark)
        else:
            self._table.write_few(table.column("key").to_pylist(), rows, bookmark)

    def snapshot(self) -> Snapshot:
        return self._table.snapshot()

    def query(self, request: Request) -> Answer:
        return self._table.answer(request)

    def copy_to(self, path: Path) -> int:
        return self._table.copy_to(path)

    @property
    def bookmark(self) -> Bookmark:
        return self._table.bookmark

    def mark_verified(self) -> None:
        self._table.mark_verified()

    def close(self) -> None:
        self._table.close()


def _rows(table: pa.Table) -> list[tuple[Any, ...]] | None:
    """Key and columns of each row that is not deleted; None where Python has no such value: times after 9999."""
    upserts = table.filter(pc.invert(table.column("tombstone")))
    keys = upserts.column("key").to_pylist()
    if "row" not in upserts.column_names:
        return list(zip(keys, upserts.column("text").to_pylist(), strict=True))
    try:
        rows = upserts.column("row").to_pylist()
    except (OverflowError, ValueError):
        return None
    return [(key, *row.values()) for key, row in zip(keys, rows, strict=True)]
