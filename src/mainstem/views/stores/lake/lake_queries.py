"""A lake as a SQL table of one moment: its files of one commit, and the records that are not in a file yet.

Each list of files has a DuckDB database of its own in memory, which may read exactly these files and nothing else: no
other file, not the network, no extension, no setting. A snapshot is a cursor in it with a view over the files and the
gathered records; the files never change, so its content cannot change.

This module loads neither Iceberg nor the reader of records: a process that only answers SQL stays small.

Concurrency: a database may be used by any thread, a snapshot by one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa

from mainstem.errors import StorageError, UnavailableError
from mainstem.lake.columns import OFFSET, PARTITION
from mainstem.views.requests import Request
from mainstem.views.stores.rows import plain
from mainstem.views.stores.sql.query_bounds import MEMORY_MAX
from mainstem.views.stores.sql.sql_queries import FETCH_ROWS, CursorSnapshot
from mainstem.views.stores.store import Answer, Bookmark, Digest, Row

_CONFIG: Final[dict[str, Any]] = {
    "threads": 2,
    "memory_limit": MEMORY_MAX,
    "temp_directory": "",
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "python_enable_replacements": False,
}
_GATHERED: Final = "_mainstem_gathered"


@dataclass(frozen=True, slots=True)
class LakeTableDefinition:
    """The lake's table as SQL text: its quoted name, and its columns as they are selected.

    ``schema``: of the gathered records.
    """

    name: str
    columns: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class LakeFileList:
    """The files of one commit, and how many records they have. ``is_stale``: some lack columns that the schema has
    gained.
    """

    paths: tuple[str, ...] = ()
    rows: int = 0
    is_stale: bool = False


@dataclass(frozen=True, slots=True)
class GatheredRows:
    """Records that are not in a file yet, in the order of their arrival.

    ``run`` counts commits: of two values with the same run, the longer one begins with the other.
    """

    run: int = 0
    parts: tuple[pa.Table, ...] = ()

    @property
    def rows(self) -> int:
        """The number of records."""
        return sum(map(len, self.parts))

    @property
    def size_bytes(self) -> int:
        """Their size in memory."""
        return sum(part.nbytes for part in self.parts)

    def and_then(self, part: pa.Table) -> GatheredRows:
        """These records, followed by ``part``."""
        return GatheredRows(self.run, (*self.parts, part))

    def next_run(self) -> GatheredRows:
        """The empty value after these records were committed."""
        return GatheredRows(self.run + 1)

    def from_row(self, row: int) -> list[pa.Table]:
        """The records from number ``row`` on."""
        parts: list[pa.Table] = []
        first = self.rows
        for part in reversed(self.parts):
            if first <= row:
                break
            first -= len(part)
            parts.insert(0, part.slice(max(0, row - first)))
        return parts


class LakeDatabase:
    """The lake as a DuckDB table: keeps the database of the newest list of files."""

    def __init__(self, definition: LakeTableDefinition) -> None:
        self._definition = definition
        self._files: _FilesDatabase | None = None

    def snapshot(self, files: LakeFileList, gathered: GatheredRows, bookmark: Bookmark) -> LakeSnapshot:
        """The files' records and the gathered ones. Raises StorageError when a file cannot be read."""
        database = self._files
        if database is None or database.files != files:
            database = self._files = _FilesDatabase(self._definition, files)
        return database.snapshot(gathered, bookmark)

    def answer(self, request: Request, files: LakeFileList, gathered: GatheredRows, bookmark: Bookmark) -> Answer:
        """The answer of that snapshot."""
        with self.snapshot(files, gathered, bookmark) as snapshot:
            return snapshot.answer(request)

    def close(self) -> None:
        """Does nothing: the memory is freed with the last snapshot."""


class _FilesDatabase:
    """A database over one list of files."""

    def __init__(self, definition: LakeTableDefinition, files: LakeFileList) -> None:
        self.files = files
        self._definition = definition
        self._select = _select(definition.columns, files)
        self._connection = duckdb.connect(config=_CONFIG)
        self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        self._connection.execute(f"SET GLOBAL allowed_paths = [{_texts(files.paths)}]")
        self._connection.execute("SET GLOBAL enable_external_access = false")
        self._connection.execute("SET GLOBAL lock_configuration = true")

    def snapshot(self, gathered: GatheredRows, bookmark: Bookmark) -> LakeSnapshot:
        name = self._definition.name
        table = pa.concat_tables(gathered.parts) if gathered.parts else self._definition.schema.empty_table()
        cursor = self._connection.cursor()
        try:
            cursor.register(_GATHERED, table)
            cursor.execute(f"CREATE TEMP VIEW {name} AS {self._select}")
            cursor.execute("BEGIN TRANSACTION READ ONLY")
        except duckdb.Error as error:
            cursor.close()
            raise StorageError(f"the lake's files cannot be read: {error}") from error
        return LakeSnapshot(cursor, name, bookmark, self.files.rows + len(table), is_stale=self.files.is_stale)


class LakeSnapshot(CursorSnapshot):
    """One state of a lake."""

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, table: str, bookmark: Bookmark, rows: int, *, is_stale: bool
    ) -> None:
        super().__init__(cursor, table, "Lake")
        self.bookmark = bookmark
        self._rows = rows
        self._is_stale = is_stale

    def digest(self) -> Digest:
        """Raises UnavailableError while older files are being read again by a schema that has changed."""
        if self._is_stale:
            raise UnavailableError("the lake reads its files again, because the schema has gained columns: try later")
        return super().digest()

    def count(self) -> int:
        """The number of records, tombstones included."""
        return self._rows

    def entries(self) -> Iterator[tuple[str, Row]]:
        """Every record, named by its partition and offset, in their order."""
        numbers = self._cursor.execute(f"SELECT DISTINCT {PARTITION} FROM {self._table} ORDER BY ALL").fetchall()
        for [partition] in numbers:
            yield from self._of_partition(partition)

    def _of_partition(self, partition: int) -> Iterator[tuple[str, Row]]:
        query = (
            f"SELECT * FROM {self._table} WHERE {PARTITION} = ? AND {OFFSET} >= ? ORDER BY {OFFSET} LIMIT {FETCH_ROWS}"
        )
        first = 0
        while rows := (result := self._cursor.execute(query, [partition, first])).fetchall():
            names = [entry[0] for entry in result.description]
            for values in rows:
                row = dict(zip(names, map(plain, values), strict=True))
                yield f"{partition:010d}/{row[OFFSET]:020d}", row
            first = row[OFFSET] + 1


def _select(columns: str, files: LakeFileList) -> str:
    """The table's definition over the files and the gathered records."""
    gathered = f"SELECT {columns} FROM {_GATHERED}"
    if not files.paths:
        return gathered
    if files.is_stale:
        rows = f"SELECT * FROM read_parquet([{_texts(files.paths)}], union_by_name = true)"
        return f"SELECT {columns} FROM (FROM {_GATHERED} UNION ALL BY NAME {rows})"
    return f"SELECT {columns} FROM read_parquet([{_texts(files.paths)}]) UNION ALL {gathered}"


def _texts(paths: tuple[str, ...]) -> str:
    return ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
