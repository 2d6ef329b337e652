"""Sinks: a table of a foreign database, kept in step with a topic, under the contract of every view.

``apply`` is one transaction of the database: the position is written first, which locks the sink's row and fails when
another process has taken the sink over; then the batch goes into the table, in the order of its keys. A kill of either
side leaves both or neither. When a commit's answer is lost, the next ``apply`` reads the bookmark first and does not
repeat what is there. Each ``apply`` goes from the very position that the one before left. So a database that has lost
a commit (a failover, a restored copy) makes the view open again at the position it has.

The table and its bookmark are in the database alone (`views.stores.table.sink_table`). The store's directory holds the
id of its generation, so that a new directory, on another machine, goes on with the table that serves. A store that does
not serve, of a rebuild or a verification, fills a shadow table beside it.

A value that the database refuses and that was not found before (`views.stores.table.table_rows`) is poison too: the
rows of the batch are then tried by halves. While the database is away every call raises StoreUnavailableError; dead
letters that were sent before are not sent again by the repeat.

Concurrency: as `views.stores.store` says. The applier has one connection; readers share a few others.
"""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from mainstem.durable_files import LOCAL_FILES, replace_file
from mainstem.errors import MainstemError
from mainstem.pipelines.kinds import SinkKind
from mainstem.views.stores.store import (
    Bookmark,
    DeadLetters,
    Poison,
    ReadRecords,
    Snapshot,
    StoreDefinition,
    ViewStore,
)
from mainstem.views.stores.table.database import Database, Session
from mainstem.views.stores.table.dialect import ValueRefusedError
from mainstem.views.stores.table.sink_table import SinkTable
from mainstem.views.stores.table.statements import Cursor, Sql
from mainstem.views.stores.table.table_columns import SinkColumns
from mainstem.views.stores.table.table_rows import RowReader, latest, poison_of
from mainstem.views.stores.table.table_snapshot import TableSnapshot

_DATABASES: Final = {
    "postgres": ("postgres_database", "PostgresServer"),
    "mariadb": ("mariadb_database", "MariaDBServer"),
    "sqlite": ("sqlite_database", "SQLiteFile"),
}
"""Each kind's module and class; its driver is loaded when the first sink of the kind is opened."""
_GENERATION: Final = "generation"


class TableStore(ViewStore):
    """The store of a sink. Opening it touches no database; ``serve``, or the first use, does."""

    makes_itself = True

    def __init__(self, path: Path, definition: StoreDefinition, *, is_scratch: bool = True) -> None:
        """Raises MissingDependencyError, and DefinitionError for what cannot be a table or a DSN."""
        kind = definition.kind
        assert isinstance(kind, SinkKind)
        self._database = _database_of(kind)
        columns = SinkColumns.of(definition.schema, definition.key, self._database.dialect)
        self._sink = SinkTable(definition.view, definition.topic, kind.table, columns)
        self._reader = RowReader(columns)
        self._path = path
        self._generation = _generation_in(path)
        self._is_scratch = is_scratch
        self._table = f"{kind.table} in {self._database.address}"
        self._owner = ""
        self._session: Session | None = None
        self._is_open = self._serves = False
        self._bookmark = Bookmark()
        self._sent: str | None = None
        self._is_in_doubt = False

    @classmethod
    def isolated(cls, path: Path, definition: StoreDefinition) -> TableStore:
        """A store whose table may come to serve."""
        return cls(path, definition, is_scratch=False)

    def serve(self) -> None:
        with self._transaction() as cursor:
            sink = self._sink
            sink.begin(cursor)
            found = sink.generations(cursor)
            serving = next((each for each in found if each.is_serving), None)
            mine = next((each for each in found if each.id == self._generation), None)
            if mine is None and self._is_open:
                sink.read_bookmark(cursor, self._generation)  # another process dropped it: the error says so
            if mine is not None and not mine.is_serving:
                sink.promote(cursor, mine.id)
            elif serving is None:
                sink.create_serving(cursor, self._generation)
            else:
                self._generation = serving.id  # this directory is new, or of before another process's rebuild
                sink.check_serving(cursor, serving)
            for other in found:
                if not other.is_serving and other is not mine:
                    sink.drop(cursor, other)
            self._owner, bookmark = sink.take(cursor, self._generation)
        _write_generation(self._path, self._generation)
        if not self._is_open:  # otherwise the feed goes on from the position that this store knows
            self._bookmark = bookmark
        self._serves = self._is_open = True

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        return self._reader.read(arrow_batch)

    def write(self, read: ReadRecords, bookmark: Bookmark, dead_letters: DeadLetters) -> None:
        self._open()
        session = self._live()
        if self._is_in_doubt and self._was_committed(session, bookmark):
            return
        with self._committing(session) as cursor:
            staged, refused = self._stage(cursor, read.table)
            poisons = [*read.poisons, *refused]
            if poisons and self._sent != bookmark.to_text():
                dead_letters(poisons)
                self._sent = bookmark.to_text()
            wanted = bookmark.after(self._bookmark, poisons)
            self._sink.move(cursor, self._generation, self._owner, self._bookmark, wanted)
            if len(staged):
                table = self._sink.table if self._serves else self._sink.shadow(self._generation)
                self._sink.columns.dialect.merge(cursor, table, staged, self._sink.columns)
        self._bookmark, self._is_in_doubt = wanted, False

    def interrupt(self) -> None:
        session = self._session
        if session is not None:
            self._database.cancel(session)

    def snapshot(self) -> Snapshot:
        self._open()
        generation = None if self._serves else self._generation
        return TableSnapshot(self._database, self._sink, generation, self._reader)

    @property
    def table(self) -> str:
        return self._table

    @property
    def bookmark(self) -> Bookmark:
        self._open()
        return self._bookmark

    def close(self) -> None:
        if self._session is not None:
            self._database.close_session(self._session)
        self._session = None
        self._database.close()

    def discard(self) -> None:
        with suppress(MainstemError):  # what stays is dropped when the sink is opened again
            self._database.close()
            with self._transaction() as cursor:
                self._sink.begin(cursor)
                for each in self._sink.generations(cursor):
                    if each.id == self._generation and not each.is_serving:
                        self._sink.drop(cursor, each)
        self.close()

    # ---- how

    def _open(self) -> None:
        """Take the generation, unless it was taken; make a shadow if it is missing."""
        if self._is_open:
            return
        with self._transaction() as cursor:
            self._sink.begin(cursor)
            found = self._sink.generations(cursor)
            mine = next((each for each in found if each.id == self._generation), None)
            if mine is None or not self._sink.has_table(cursor, mine):
                for each in found:
                    if not each.is_serving:
                        self._sink.drop(cursor, each)
                self._sink.create_shadow(cursor, self._generation, is_scratch=self._is_scratch)
            self._owner, self._bookmark = self._sink.take(cursor, self._generation)
        self._is_open = True

    def _live(self) -> Session:
        """The applier's connection."""
        if self._session is None:
            session = self._database.connect()
            try:
                with self._database.writing(session) as cursor:
                    self._sink.columns.dialect.prepare(cursor, self._sink.columns)
            except BaseException:
                self._database.close_session(session)
                raise
            self._session = session
        return self._session

    def _was_committed(self, session: Session, bookmark: Bookmark) -> bool:
        """Whether the ``apply`` that failed last went through, and only its answer was lost."""
        with self._committing(session) as cursor:
            stored = self._sink.read_bookmark(cursor, self._generation)
        self._is_in_doubt = False
        if stored.position != bookmark.position or stored.topic_ids != bookmark.topic_ids:
            return False
        self._bookmark = stored
        return True

    @contextmanager
    def _committing(self, session: Session) -> Iterator[Cursor]:
        """A transaction of the applier's connection, which is given up after an error."""
        try:
            with self._database.writing(session) as cursor:
                yield cursor
        except BaseException:
            self._is_in_doubt, self._session = True, None
            self._database.close_session(session)
            raise

    @contextmanager
    def _transaction(self) -> Iterator[Cursor]:
        """A transaction in a new connection."""
        session = self._database.connect()
        try:
            with self._database.writing(session) as cursor:
                yield cursor
        finally:
            self._database.close_session(session)

    def _stage(self, cursor: Cursor, rows: pa.Table) -> tuple[pa.Table, list[Poison]]:
        """Bring the last row of each key to the database; these, and the records that it refused."""
        poisons: list[Poison] = []
        while len(rows):
            staged = latest(rows)
            refused = self._refused(cursor, staged)
            if not refused:
                return staged, sorted(poisons, key=lambda poison: (poison.partition, poison.offset))
            poisons += [poison_of(staged, index, error) for index, error in refused.items()]
            places = {(poison.partition, poison.offset) for poison in poisons}
            origin = zip(rows.column("partition").to_pylist(), rows.column("offset").to_pylist(), strict=True)
            rows = rows.filter(pa.array([place not in places for place in origin], pa.bool_()))
        return rows, poisons

    def _refused(self, cursor: Cursor, rows: pa.Table) -> dict[int, str]:
        """Stage the rows; which of them the database refuses, and why. Where it refuses some, none are staged."""
        columns = self._sink.columns
        # Its halves have savepoints of their own: MariaDB forgets one when another gets its name.
        savepoint = Sql(f"staged_{len(rows)}")
        cursor.run("SAVEPOINT {}", savepoint)
        found: dict[int, str] = {}
        try:
            columns.dialect.stage(cursor, rows, columns)
        except ValueRefusedError as error:
            found = error.rows
        except self._database.errors as error:
            why = self._database.refusal(error)
            if why is None:
                raise
            cursor.run("ROLLBACK TO SAVEPOINT {}", savepoint)
            found = {0: f"{columns.dialect.product} refused the row: {why}"}
            if len(rows) > 1:
                half = len(rows) // 2
                behind = self._refused(cursor, rows.slice(half))
                found = self._refused(cursor, rows.slice(0, half)) | {half + at: why for at, why in behind.items()}
                cursor.run("ROLLBACK TO SAVEPOINT {}", savepoint)
        cursor.run("RELEASE SAVEPOINT {}", savepoint)
        return found


def _database_of(kind: SinkKind) -> Database:
    module, name = _DATABASES[kind.kind]
    database: Database = getattr(importlib.import_module(f"mainstem.views.stores.table.{module}"), name)(kind)
    return database


def _generation_in(path: Path) -> str:
    try:
        return (path / _GENERATION).read_text().strip()
    except FileNotFoundError:
        generation = uuid.uuid4().hex
        _write_generation(path, generation)
        return generation


def _write_generation(path: Path, generation: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    replace_file(LOCAL_FILES, path / _GENERATION, f"{generation}\n".encode())
