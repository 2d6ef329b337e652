"""Lake views: every record of a topic, for good, in Parquet files under an Iceberg table (`mainstem.lake`).

An archive, while the other kinds hold the current state: each record is a row, tombstones too, with key, value and
headers byte for byte, and the columns of the topic's schema. A value that does not fit the schema is kept unchanged,
with null in the columns that do not fit and the reason in ``_error``. It is not a dead letter, because nothing is lost.

Applied records are collected in memory, and committed as one file at 64 MB or after 10 seconds; queries see both, so an
answer is as fresh as that of other views. The steps of one commit are in `mainstem.lake.table`; the bookmark is in the
Iceberg snapshot's summary, so it changes with the data or not at all. After a crash the records that were only in
memory are read from the log again.

The content is a function of the position, as the contract requires: records that were applied already are skipped, and
when the schema gains columns, older files are read again from their values, one by one, in `settle`.

``LakeStore.isolated`` answers SQL in a process of its own (`views.stores.lake.lake_process`), so that no query can end
or block the process that opened the store.

Concurrency: as `views.stores.store` says: ``_state`` is an immutable value that the applier's thread replaces.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.lake.columns import ERROR, RECORD, UNREADABLE, VALUE, typed_columns
from mainstem.lake.compaction import choose, merged
from mainstem.lake.reading import BOOKMARK
from mainstem.lake.table import LakeFile, LakeTable
from mainstem.model import Position
from mainstem.views.requests import Request
from mainstem.views.stores.json_reader import JsonReader
from mainstem.views.stores.lake.lake_process import IsolatedLake
from mainstem.views.stores.lake.lake_queries import GatheredRows, LakeDatabase, LakeFileList, LakeTableDefinition
from mainstem.views.stores.sql.sql_types import SqlColumns, duckdb_type, identifier
from mainstem.views.stores.store import Answer, Bookmark, DeadLetters, ReadRecords, Snapshot, StoreDefinition, ViewStore

_SWEEP_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class LakeLimits:
    """Gathered records are committed at this many bytes in memory, or at this age."""

    commit_bytes: int = 64 << 20
    commit_s: float = 10.0


DEFAULT_LIMITS = LakeLimits()


@dataclass(frozen=True, slots=True)
class _State:
    """The state that a query sees: the files, the records that are not in a file yet, and the position of both."""

    files: tuple[LakeFile, ...]
    gathered: GatheredRows
    bookmark: Bookmark


@dataclass(frozen=True, slots=True)
class LakeStatistics:
    """The files, and the position up to which they have the records."""

    files: tuple[LakeFile, ...]
    committed: Position


class LakeStore(ViewStore):
    """The store of a lake view: files and the records in memory."""

    makes_itself = True  # its files name each other by their paths

    def __init__(
        self, path: Path, definition: StoreDefinition, limits: LakeLimits | None = None, *, is_isolated: bool = False
    ) -> None:
        columns = SqlColumns.of(definition.schema)
        self._typed = typed_columns(definition.schema)
        self._limits = limits or DEFAULT_LIMITS
        self._path = path.resolve()
        self._table = LakeTable(path, self._typed)
        self._reader = JsonReader(columns.fields, text=False) if columns.fields else None
        text = self._table.properties.get(BOOKMARK)
        bookmark = Bookmark() if text is None else Bookmark.from_text(text)
        self._state = _State(self._table.files, GatheredRows(), bookmark)
        table = LakeTableDefinition(identifier(definition.view), _selection(columns), self._schema)
        self._sql = IsolatedLake(path, table) if is_isolated else LakeDatabase(table)
        self._committed = bookmark
        self._gathered_since_s: float | None = None
        self._swept_s = time.monotonic()
        self._is_whole = True

    @classmethod
    def isolated(cls, path: Path, definition: StoreDefinition) -> LakeStore:
        """A store whose SQL runs in a process of its own."""
        return cls(path, definition, is_isolated=True)

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        return ReadRecords(self._rows(arrow_batch), [])

    def write(self, read: ReadRecords, bookmark: Bookmark, dead_letters: DeadLetters) -> None:
        if self._state.gathered.size_bytes >= self._limits.commit_bytes:
            self.commit()
        state = self._state
        new = _rows_after(read.table, state.bookmark)
        gathered = state.gathered.and_then(new) if len(new) else state.gathered
        if self._gathered_since_s is None:
            self._gathered_since_s = time.monotonic()
        self._state = replace(state, gathered=gathered, bookmark=bookmark.after(state.bookmark, ()))

    def settle(self) -> None:
        """Commit what has waited long enough; else do one piece of upkeep: read again, compact, or sweep."""
        since_s = self._gathered_since_s
        if since_s is not None and time.monotonic() - since_s >= self._limits.commit_s:
            self.commit()
        elif stale := [file for file in self._table.files if file.schema_id != self._table.schema_id]:
            self._replace([stale[0]], map(self._read_again, merged([stale[0]])))
        elif small := choose(self._table.files):
            self._replace(small, merged(small))
        elif time.monotonic() - self._swept_s >= _SWEEP_S:
            self._table.sweep()
            self._swept_s = time.monotonic()

    def commit(self) -> None:
        """Commit what was gathered. Raises StorageError, and then commits nothing more: the log has it."""
        state = self._state
        self._gathered_since_s = None
        if state.bookmark == self._committed or not self._is_whole:
            return
        self._is_whole = False
        rows = pa.concat_tables(state.gathered.parts) if state.gathered.parts else self._schema.empty_table()
        self._table.append(rows, {BOOKMARK: state.bookmark.to_text()})
        self._is_whole = True
        self._committed = state.bookmark
        self._state = _State(self._table.files, state.gathered.next_run(), state.bookmark)

    def snapshot(self) -> Snapshot:
        state = self._state
        return self._sql.snapshot(self._list(state.files), state.gathered, state.bookmark)

    def query(self, request: Request) -> Answer:
        state = self._state
        return self._sql.answer(request, self._list(state.files), state.gathered, state.bookmark)

    @property
    def location(self) -> str:
        return str(self._path)

    @property
    def bookmark(self) -> Bookmark:
        return self._state.bookmark

    def statistics(self) -> LakeStatistics:
        """How the lake is stored. From any thread."""
        state = self._state
        return LakeStatistics(state.files, self._committed.position)

    def close(self) -> None:
        try:
            self.commit()
        finally:
            self._sql.close()
            self._table.close()

    # ---- how

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([*RECORD, *self._typed])

    def _list(self, files: tuple[LakeFile, ...]) -> LakeFileList:
        is_stale = any(file.schema_id != self._table.schema_id for file in files)
        return LakeFileList(tuple(str(file.path) for file in files), sum(file.rows for file in files), is_stale)

    def _replace(self, old: Sequence[LakeFile], parts: Iterator[pa.Table]) -> None:
        self._table.replace(old, parts)
        self._state = replace(self._state, files=self._table.files)

    def _rows(self, arrow_batch: pa.RecordBatch) -> pa.Table:
        record = {f"_{name}": arrow_batch.column(name) for name in arrow_batch.schema.names}
        record[ERROR] = pa.nulls(len(arrow_batch), pa.string())
        table = pa.table({field.name: record[field.name].cast(field.type) for field in RECORD})
        return self._read_again(table)

    def _read_again(self, table: pa.Table) -> pa.Table:
        """The records of ``table`` with their values read by the schema as it is now."""
        table = table.select(RECORD.names)
        if self._reader is None:
            return table
        values = table.column(VALUE).combine_chunks()
        structs, errors = self._reader.read_values(values)
        reasons = [errors.get(index) for index in range(len(values))] if errors else [None] * len(values)
        error = pa.array(reasons, pa.string())
        unreadable = pc.fill_null(pc.starts_with(error, UNREADABLE), False)
        table = table.set_column(table.schema.get_field_index(ERROR), ERROR, error)
        for number, field in enumerate(self._typed):
            column = pc.struct_field(structs, [number]).cast(field.type)
            if errors:
                column = pc.if_else(unreadable, pa.scalar(None, field.type), column)
            table = table.append_column(field, column)
        return table


def _selection(columns: SqlColumns) -> str:
    """The record's columns, and the typed ones in the types of a SQL view."""
    typed = [
        f"CAST({identifier(field.name)} AS {duckdb_type(field.type)}) AS {identifier(field.name)}"
        for field in columns.fields
    ]
    return ", ".join([*RECORD.names, *typed])


def _rows_after(rows: pa.Table, bookmark: Bookmark) -> pa.Table:
    """The rows of records that the bookmark does not have yet."""
    if not len(rows) or not bookmark.position:
        return rows
    partition, offset = rows.column("_partition"), rows.column("_offset")
    known = None
    for tp, next_offset in bookmark.position.items():
        of_partition = pc.and_(pc.equal(partition, tp.partition), pc.less(offset, next_offset))
        known = of_partition if known is None else pc.or_(known, of_partition)
    return rows.filter(pc.invert(known)) if pc.any(known).as_py() else rows
