"""Sinks in PostgreSQL: a table of a foreign database, kept in step with a topic, under the contract of every view.

``apply`` is one transaction of the database: the position is written first, which locks the sink's row and fails when
another process has taken the sink over; the batch goes by COPY into a temporary table, and from there, in the order of
its keys, by ``INSERT … ON CONFLICT DO UPDATE`` and ``DELETE`` into the table. A kill of either side leaves both or
neither. When a commit's answer is lost, the next ``apply`` reads the bookmark first and does not repeat what is there.
A database that has lost a commit (a failover, a restored copy) makes the view open again at the position it has.

The table and its bookmark are in the database alone (`views.stores.postgres.sink_table`). The store's directory holds
the id of its generation, so that a new directory, on another machine, goes on with the table that serves. A store that
does not serve, of a rebuild or a verification, fills a shadow table beside it.

A value that PostgreSQL refuses and that was not found before (`views.stores.postgres.table_rows`) is poison too: the
rows of the batch are then tried by halves. While the database is away every call raises StoreUnavailableError; dead
letters that were sent before are not sent again by the repeat.

Concurrency: as `views.stores.store` says. The applier has one connection; readers share a few others.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.durable_files import LOCAL_FILES, replace_file
from mainstem.errors import MainstemError
from mainstem.pipelines.kinds import Postgres
from mainstem.views.stores.postgres.database import Database, Session, cancel, close, is_data_error, run
from mainstem.views.stores.postgres.postgres_snapshot import PostgresSnapshot
from mainstem.views.stores.postgres.sink_table import SinkTable
from mainstem.views.stores.postgres.table_columns import SinkColumns
from mainstem.views.stores.postgres.table_rows import DELETED, RowReader, as_csv, cell, latest, poison_of
from mainstem.views.stores.store import (
    Bookmark,
    DeadLetters,
    Poison,
    Snapshot,
    StoreDefinition,
    StoreRewoundError,
    ViewStore,
)

try:
    import psycopg2
    from psycopg2 import sql
except ImportError:  # `database` says so
    psycopg2 = sql = None

_GENERATION: Final = "generation"
_STAGED: Final = "mainstem_batch"


class PostgresStore(ViewStore):
    """The store of a sink. Opening it touches no database; ``serve``, or the first use, does."""

    makes_itself = True

    def __init__(self, path: Path, definition: StoreDefinition, *, is_scratch: bool = True) -> None:
        """Raises MissingDependencyError, and DefinitionError for what cannot be a table or a DSN."""
        kind = definition.kind
        assert isinstance(kind, Postgres)
        self._database = Database(kind.dsn)
        columns = SinkColumns.of(definition.schema, definition.key)
        self._sink = SinkTable(definition.view, definition.topic, kind.table, columns)
        self._reader = RowReader(columns)
        self._statements = _Statements(self._sink)
        self._path = path
        self._generation = _generation_in(path)
        self._is_scratch = is_scratch
        self._owner = uuid.uuid4().hex
        self._session: Session | None = None
        self._is_open = self._serves = False
        self._bookmark = Bookmark()
        self._sent: str | None = None
        self._is_in_doubt = False

    @classmethod
    def isolated(cls, path: Path, definition: StoreDefinition) -> PostgresStore:
        """A store whose table may come to serve."""
        return cls(path, definition, is_scratch=False)

    def serve(self) -> None:
        with self._transaction() as cursor:
            sink = self._sink
            sink.begin(cursor)
            found = sink.generations(cursor)
            serving = next((each for each in found if each.is_serving), None)
            mine = next((each for each in found if each.id == self._generation), None)
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
            bookmark = sink.take(cursor, self._generation, self._owner)
        _write_generation(self._path, self._generation)
        self._serves = self._is_open = True
        self._bookmark = bookmark

    def apply(self, arrow_batch: pa.RecordBatch, bookmark: Bookmark, dead_letters: DeadLetters) -> None:
        self._open()
        session = self._live()
        if self._is_in_doubt and self._was_committed(session, bookmark):
            return
        read = self._reader.read(arrow_batch)
        with self._committing(session) as cursor:
            staged, refused = self._stage(cursor, read.rows)
            poisons = [*read.poisons, *refused]
            if poisons and self._sent != bookmark.to_text():
                dead_letters(poisons)
                self._sent = bookmark.to_text()
            wanted = bookmark.after(self._bookmark, poisons)
            table = self._sink.identifier(self._sink.move(cursor, self._generation, self._owner, wanted))
            for statement in self._statements.merging(table, staged):
                cursor.execute(statement)
        self._bookmark, self._is_in_doubt = wanted, False

    def interrupt(self) -> None:
        session = self._session
        if session is not None:
            cancel(session)

    def snapshot(self) -> Snapshot:
        self._open()
        generation = None if self._serves else self._generation
        return PostgresSnapshot(self._database, self._sink, generation, self._reader)

    @property
    def bookmark(self) -> Bookmark:
        self._open()
        return self._bookmark

    def close(self) -> None:
        if self._session is not None:
            close(self._session)
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
            if not any(each.id == self._generation for each in found):
                for each in found:
                    if not each.is_serving:
                        self._sink.drop(cursor, each)
                self._sink.create_shadow(cursor, self._generation, is_scratch=self._is_scratch)
            bookmark = self._sink.take(cursor, self._generation, self._owner)
        self._is_open, self._bookmark = True, bookmark

    def _live(self) -> Session:
        """The applier's connection."""
        if self._session is None or self._session.closed:
            session = self._database.connect()
            try:
                with self._database.translated(), session.cursor() as cursor:
                    cursor.execute(self._statements.staging)
                    session.commit()
            except BaseException:
                close(session)
                raise
            self._session = session
        return self._session

    def _was_committed(self, session: Session, bookmark: Bookmark) -> bool:
        """Whether the ``apply`` that failed last went through, and only its answer was lost.

        Raises StoreRewoundError when the database has another position: it has lost a commit.
        """
        with self._committing(session) as cursor:
            _, stored = self._sink.read_table(cursor, self._generation)
        self._is_in_doubt = False
        if _is_at(stored, bookmark):
            self._bookmark = stored
            return True
        if not _is_at(stored, self._bookmark):
            raise StoreRewoundError(
                f"the database at {self._database.address} went back from {self._bookmark.position} to "
                f"{stored.position}: the sink goes on from there"
            )
        return False

    @contextmanager
    def _committing(self, session: Session) -> Iterator[Any]:
        """A transaction of the applier's connection, which is given up after an error."""
        try:
            with self._database.translated(), session.cursor() as cursor:
                yield cursor
                session.commit()
        except BaseException:
            self._is_in_doubt = True
            close(session)
            raise

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A transaction in a new connection."""
        session = self._database.connect()
        try:
            with self._database.translated(), session.cursor() as cursor:
                yield cursor
                session.commit()
        finally:
            close(session)

    def _stage(self, cursor: Any, rows: pa.Table) -> tuple[pa.Table, list[Poison]]:
        """Put the last row of each key into the temporary table; these, and the records that PostgreSQL refused."""
        poisons: list[Poison] = []
        while len(rows):
            staged = latest(rows)
            refused = _refused(cursor, staged, self._copy)
            if not refused:
                return staged, sorted(poisons, key=lambda poison: (poison.partition, poison.offset))
            poisons += [poison_of(staged, index, error) for index, error in refused.items()]
            places = {(poison.partition, poison.offset) for poison in poisons}
            origin = zip(rows.column("partition").to_pylist(), rows.column("offset").to_pylist(), strict=True)
            rows = rows.filter(pa.array([place not in places for place in origin], pa.bool_()))
        return rows, poisons

    def _copy(self, cursor: Any, rows: pa.Table) -> None:
        cursor.copy_expert(self._statements.copy, io.BytesIO(as_csv(rows, self._sink.columns)), 1 << 20)


class _Statements:
    """The statements of ``apply``, composed once. Without a literal, so that ``%`` in a name has no meaning."""

    def __init__(self, sink: SinkTable) -> None:
        self._columns = columns = sink.columns
        typed = [f"{cell(number)} {column.sql_type}" for number, column in enumerate(columns.columns)]
        self.staging = (
            f"CREATE TEMPORARY TABLE {_STAGED} ({', '.join([f'{DELETED} boolean', *typed])}) ON COMMIT DELETE ROWS"
        )
        self.copy = f"COPY pg_temp.{_STAGED} FROM STDIN WITH (FORMAT csv)"

    def merging(self, table: Any, rows: pa.Table) -> Iterator[Any]:
        """Delete and upsert what was staged; both lock rows in the order of their keys."""
        deleted = rows.column(DELETED) if len(rows) else pa.array([], pa.bool_())
        if pc.any(deleted).as_py():
            yield from self._deletions(table)
        if not pc.all(deleted).as_py():
            yield self._upsert(table)

    def _deletions(self, table: Any) -> Iterator[Any]:
        """Lock the rows in order, then delete them: a DELETE alone may take them in another order."""
        numbers = [sql.Identifier(cell(number)) for number in self._columns.key_numbers]
        names = [sql.Identifier(name) for name in self._columns.key]
        same = [sql.SQL("t.{} = b.{}").format(*each) for each in zip(names, numbers, strict=True)]
        staged = sql.Identifier("pg_temp", _STAGED)
        condition = sql.SQL("{} AND b.{}").format(sql.SQL(" AND ").join(same), sql.Identifier(DELETED))
        order = sql.SQL(", ").join([sql.SQL("b.{}").format(number) for number in numbers])
        yield sql.SQL(
            "SELECT count(*) FROM (SELECT FROM {} t JOIN {} b ON {} ORDER BY {} FOR UPDATE OF t) locked"
        ).format(table, staged, condition, order)
        yield sql.SQL("DELETE FROM {} t USING {} b WHERE {}").format(table, staged, condition)

    def _upsert(self, table: Any) -> Any:
        names = self._columns.names
        others = [sql.Identifier(name) for name in names if name not in self._columns.key]
        sets = sql.SQL(", ").join([sql.SQL("{0} = excluded.{0}").format(name) for name in others])
        # The rows were copied in the order of their keys, and a temporary table is read in the order of its rows.
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE NOT {} ON CONFLICT ({}) DO {}").format(
            table,
            sql.SQL(", ").join(map(sql.Identifier, names)),
            sql.SQL(", ").join([sql.Identifier(cell(number)) for number in range(len(names))]),
            sql.Identifier("pg_temp", _STAGED),
            sql.Identifier(DELETED),
            sql.SQL(", ").join(map(sql.Identifier, self._columns.key)),
            sql.SQL("UPDATE SET {}").format(sets) if others else sql.SQL("NOTHING"),
        )


def _is_at(stored: Bookmark, wanted: Bookmark) -> bool:
    return stored.position == wanted.position and stored.topic_ids == wanted.topic_ids


def _refused(cursor: Any, rows: pa.Table, copy: Callable[[Any, pa.Table], None]) -> dict[int, str]:
    """Copy the rows; which of them PostgreSQL refuses, and why. Where it refuses some, none are copied."""
    run(cursor, "SAVEPOINT staged")
    found: dict[int, str] = {}
    try:
        copy(cursor, rows)
    except psycopg2.Error as error:
        if not is_data_error(error):
            raise
        run(cursor, "ROLLBACK TO SAVEPOINT staged")
        found = {0: f"PostgreSQL refused the row: {error.diag.message_primary}"}
        if len(rows) > 1:
            half = len(rows) // 2
            behind = _refused(cursor, rows.slice(half), copy)
            found = _refused(cursor, rows.slice(0, half), copy) | {half + at: why for at, why in behind.items()}
            run(cursor, "ROLLBACK TO SAVEPOINT staged")
    run(cursor, "RELEASE SAVEPOINT staged")
    return found


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
