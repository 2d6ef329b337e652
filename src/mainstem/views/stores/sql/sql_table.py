"""The table of a SQL view in its DuckDB file: it writes rows with a bookmark, and answers one user's SELECTs.

Layout: the table has the record's key as ``_key``, its primary key, and the schema's columns; the bookmark is the one
row of ``_mainstem.bookmark``. A write is one transaction. At most 50,000 rows go into one statement, because larger
replaces are erratic.

**Read-only by construction**: a query runs in a transaction that DuckDB itself holds read-only, on a cursor of its own,
in a database that may neither touch a file nor the network, load an extension, see a variable of this process, nor
change a setting. Before that, anything but one SELECT is refused with a clear word. A watchdog interrupts it in time.

The account is a seal (`views.stores.close_digest`): DuckDB lets no other process open its file, and digests a row in
0.25 µs, so what was there at closing is digested, and digested again at opening.

This module loads neither the reader of records nor its compiler: a process that only answers SQL stays small.

Concurrency: one connection writes; each snapshot has a cursor of its own.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import QueryError, StorageError
from mainstem.views.requests import Request
from mainstem.views.stores.close_digest import CloseDigest, Proof
from mainstem.views.stores.rows import plain
from mainstem.views.stores.sql.query_bounds import MEMORY_MAX
from mainstem.views.stores.sql.sql_queries import FETCH_ROWS, CursorSnapshot, digest_of, watched
from mainstem.views.stores.store import Answer, Bookmark, Bucket, Row

_FILE = "view.duckdb"
_WRITE_AHEAD_LOG = "view.duckdb.wal"
_SPILLED = "view.duckdb.tmp"
_STATEMENT_ROWS_MAX = 50_000
_PROOF_S_MAX = 5.0
SPILL_MAX = "1GB"
_CONFIG: dict[str, Any] = {
    "threads": 2,
    "memory_limit": MEMORY_MAX,
    "checkpoint_threshold": "128MB",
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "python_enable_replacements": False,
}


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """SQL text: the quoted name, the columns after the key as in CREATE TABLE, how they are selected from what the
    reader of records read, and how many they are.
    """

    name: str
    columns: str
    selection: str
    count: int


class SqlTable:
    """The table of a SQL view in its DuckDB file. Opening it raises StorageError."""

    def __init__(self, path: Path, definition: TableDefinition) -> None:
        self._name = definition.name
        self._insert = (
            f"INSERT OR REPLACE INTO {self._name} SELECT key, {definition.selection} FROM upserts "
            f"LIMIT {_STATEMENT_ROWS_MAX} OFFSET ?"
        )
        self._row = f"({', '.join('?' * (1 + definition.count))})"
        self._path = path
        path.mkdir(parents=True, exist_ok=True)
        file = path / _FILE
        is_new = not file.exists()
        try:
            self._connection = duckdb.connect(str(file), config=_CONFIG)
            shutil.rmtree(path / _SPILLED, ignore_errors=True)  # of a process that was killed: the file's lock is ours
            self._create(definition.columns)
        except duckdb.Error as error:
            raise StorageError(f"the SQL store in {path} cannot be opened: {error}") from error
        self._readers = self._connection.cursor()  # a connection that is at work cannot be asked for a cursor
        self._readers_lock = threading.Lock()
        self.bookmark = _read_bookmark(self._connection)
        self._close_digest = CloseDigest(path, self._proof, is_new=is_new)

    def write(self, table: pa.Table, bookmark: Bookmark) -> None:
        """Replace and delete rows, each key once, and move to ``bookmark``. Raises StorageError."""
        deletions = table.filter(table.column("tombstone"))
        upserts = table if len(deletions) == 0 else table.filter(pc.invert(table.column("tombstone")))
        with self._transaction(bookmark):
            self._replace(deletions, upserts)

    def write_few(self, keys: Sequence[str], rows: Sequence[tuple[Any, ...]], bookmark: Bookmark) -> None:
        """The same with rows as values: to replace few rows out of an Arrow table takes DuckDB twice as long.

        ``keys``: of all rows, those that are deleted too.
        """
        with self._transaction(bookmark):
            self._replace_few(keys, rows)

    def snapshot(self) -> SqlSnapshot:
        """The newest state."""
        with self._readers_lock:
            cursor = self._readers.cursor()
        return SqlSnapshot(cursor, self._name, self._close_digest)

    def answer(self, request: Request) -> Answer:
        """The newest state's. Raises QueryError."""
        with self.snapshot() as snapshot:
            return snapshot.answer(request)

    def copy_to(self, path: Path) -> int:
        """Copy the files into the new directory ``path``, for the writer's thread; the bytes it took."""
        # Only the applier writes, so the file and its write-ahead log are one consistent state during this copy. A
        # checkpoint is not needed; it would wait for readers.
        path.mkdir()
        size_bytes = 0
        for name in (_FILE, _WRITE_AHEAD_LOG):
            if (self._path / name).exists():
                shutil.copyfile(self._path / name, path / name)
                size_bytes += (path / name).stat().st_size
        return size_bytes

    def mark_verified(self) -> None:
        """A replay has shown that the content is correct."""
        self._close_digest.mark_verified()

    def close(self) -> None:
        """Seal and close the file."""
        self._close_digest.close()
        self._readers.close()
        self._connection.close()

    # ---- how

    @contextmanager
    def _transaction(self, bookmark: Bookmark) -> Iterator[None]:
        connection = self._connection
        try:
            connection.execute("BEGIN")
            try:
                yield
                connection.execute("UPDATE _mainstem.bookmark SET document = ?", [bookmark.to_text()])
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            finally:
                connection.unregister("deletions")
                connection.unregister("upserts")
        except duckdb.Error as error:
            raise StorageError(f"the SQL store cannot be written: {error}") from error
        self.bookmark = bookmark

    def _proof(self) -> Proof | None:
        """The digest of what is stored, unless it takes too long to open or close a view for it."""
        cursor = self._connection.cursor()
        try:
            with watched(cursor, "the digest of what is stored", _PROOF_S_MAX):
                digest = digest_of(cursor, self._name)
        except QueryError:
            return None
        finally:
            cursor.close()
        return f"duckdb {duckdb.__version__}", f"{digest.entries} {digest.checksum}"

    def _create(self, columns: str) -> None:
        connection = self._connection
        connection.execute("SET GLOBAL TimeZone = 'UTC'")  # a TIMESTAMP is an instant: shown in UTC on any machine
        # DuckDB 2.0.0 shows this setting but does not apply it when `connect` gets it.
        connection.execute(f"SET GLOBAL max_temp_directory_size = '{SPILL_MAX}'")
        connection.execute("SET lock_configuration = true")
        connection.execute("BEGIN")
        connection.execute("CREATE SCHEMA IF NOT EXISTS _mainstem")
        connection.execute("CREATE TABLE IF NOT EXISTS _mainstem.bookmark (document VARCHAR NOT NULL)")
        connection.execute(f"CREATE TABLE IF NOT EXISTS {self._name} (_key VARCHAR PRIMARY KEY, {columns})")
        connection.execute(
            "INSERT INTO _mainstem.bookmark SELECT ? WHERE NOT EXISTS (FROM _mainstem.bookmark)", [Bookmark().to_text()]
        )
        connection.execute("COMMIT")

    def _replace(self, deletions: pa.Table, upserts: pa.Table) -> None:
        connection = self._connection
        if len(deletions):
            connection.register("deletions", deletions.select(["key"]))
            connection.execute(f"DELETE FROM {self._name} WHERE _key IN (SELECT key FROM deletions)")
        if len(upserts):
            connection.register("upserts", upserts)
            for first_row in range(0, len(upserts), _STATEMENT_ROWS_MAX):
                connection.execute(self._insert, [first_row])

    def _replace_few(self, keys: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """DuckDB deletes and inserts a key in one transaction."""
        if keys:
            marks = ", ".join("?" * len(keys))
            self._connection.execute(f"DELETE FROM {self._name} WHERE _key IN ({marks})", keys)
        if rows:
            insert = f"INSERT INTO {self._name} VALUES {', '.join([self._row] * len(rows))}"
            self._connection.execute(insert, [value for row in rows for value in row])


class SqlSnapshot(CursorSnapshot):
    """One state of a SqlTable."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, table: str, seal: CloseDigest) -> None:
        super().__init__(cursor, table, "SQL")
        self._close_digest = seal
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        self.bookmark = _read_bookmark(cursor)  # the first read fixes what the transaction sees

    def intact(self) -> bool | None:
        return self._close_digest.is_whole

    def count(self) -> int:
        return int(_one(self._cursor, f"SELECT count(*) FROM {self._table}")[0])

    def entries(self) -> Iterator[tuple[str, Row]]:
        return self.entries_after(None)

    def entries_after(self, name: str | None) -> Iterator[tuple[str, Row]]:
        after = "" if name is None else "WHERE _key > ?"
        arguments = [] if name is None else [name]
        result = self._cursor.execute(f"SELECT * FROM {self._table} {after} ORDER BY _key", arguments)
        names = [entry[0] for entry in result.description]
        while rows := result.fetchmany(FETCH_ROWS):
            for row in rows:
                yield row[0], dict(zip(names, map(plain, row), strict=True))

    def sample(self, bucket: Bucket) -> Iterator[tuple[str, Row]]:
        return (entry for entry in self.entries() if bucket.has(entry[0].encode()))


def _one(cursor: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    row = cursor.execute(query).fetchone()
    assert row is not None
    return row


def _read_bookmark(cursor: duckdb.DuckDBPyConnection) -> Bookmark:
    return Bookmark.from_text(str(_one(cursor, "SELECT document FROM _mainstem.bookmark")[0]))
