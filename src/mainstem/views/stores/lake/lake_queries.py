"""A lake as a SQL table of one moment: its files of one commit, and the records that are not in a file yet.

Each list of files has a DuckDB database of its own in memory, which may read exactly these files and nothing else: no
other file, not the network, no extension, no setting. A snapshot is a cursor in it with a view over the files and the
gathered records; the files are never changed, so what it sees cannot change.

Concurrency: a database may be used by any thread, a snapshot by one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa

from mainstem.errors import StorageError, UnavailableError
from mainstem.lake.columns import OFFSET, PARTITION, RECORD
from mainstem.lake.table import LakeFile
from mainstem.views.requests import Request, Sql, wrong_kind
from mainstem.views.stores.rows import plain
from mainstem.views.stores.sql.sql_queries import FETCH_ROWS, answer
from mainstem.views.stores.sql.sql_types import SqlColumns, duckdb_type, identifier
from mainstem.views.stores.store import Bookmark, Digest, Row, Snapshot

_CONFIG: Final[dict[str, Any]] = {
    "threads": 2,
    "memory_limit": "1GB",
    "temp_directory": "",
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "python_enable_replacements": False,
}
_GATHERED: Final = "_mainstem_gathered"


class LakeDatabase:
    """The DuckDB database of one list of files. ``is_stale``: some files lack columns that the schema has gained."""

    def __init__(
        self, view: str, files: tuple[LakeFile, ...], schema: pa.Schema, columns: SqlColumns, *, is_stale: bool
    ) -> None:
        self.files = files
        self._is_stale = is_stale
        self._table = identifier(view)
        self._schema = schema
        self._select = _select(files, columns, is_stale=is_stale)
        self._connection = duckdb.connect(config=_CONFIG)
        self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        self._connection.execute(f"SET GLOBAL allowed_paths = [{_paths(files)}]")
        self._connection.execute("SET GLOBAL enable_external_access = false")
        self._connection.execute("SET GLOBAL lock_configuration = true")

    def snapshot(self, gathered: Sequence[pa.Table], bookmark: Bookmark) -> LakeSnapshot:
        """The files' records and the gathered ones. Raises StorageError when a file cannot be read."""
        table = pa.concat_tables(gathered) if gathered else self._schema.empty_table()
        cursor = self._connection.cursor()
        try:
            cursor.register(_GATHERED, table)
            cursor.execute(f"CREATE TEMP VIEW {self._table} AS {self._select}")
            cursor.execute("BEGIN TRANSACTION READ ONLY")
        except duckdb.Error as error:
            cursor.close()
            raise StorageError(f"the lake's files cannot be read: {error}") from error
        rows = sum(file.rows for file in self.files) + len(table)
        return LakeSnapshot(cursor, self._table, bookmark, rows, is_stale=self._is_stale)


class LakeSnapshot(Snapshot):
    """One state of a lake."""

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, table: str, bookmark: Bookmark, rows: int, *, is_stale: bool
    ) -> None:
        self.bookmark = bookmark
        self._cursor = cursor
        self._table = table
        self._rows = rows
        self._is_stale = is_stale

    def query(self, request: Request) -> list[Row]:
        if not isinstance(request, Sql):
            raise wrong_kind(request, "Lake")
        return answer(self._cursor, request)

    def digest(self) -> Digest:
        """Raises UnavailableError while older files are being read again by a schema that has changed."""
        if self._is_stale:
            raise UnavailableError("the lake reads its files again, because the schema has gained columns: try later")
        query = f"SELECT count(*), coalesce(sum(hash(entry)), 0) FROM {self._table} AS entry"
        row = self._cursor.execute(query).fetchone()
        assert row is not None
        return Digest(int(row[0]), int(row[1]))

    def count(self) -> int:
        """How many records there are, tombstones included."""
        return self._rows

    def entries(self) -> Iterator[tuple[str, Row]]:
        """Every record, named by its partition and offset, in their order."""
        numbers = self._cursor.execute(f"SELECT DISTINCT {PARTITION} FROM {self._table} ORDER BY ALL").fetchall()
        for [partition] in numbers:
            yield from self._of_partition(partition)

    def close(self) -> None:
        self._cursor.close()

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


def _select(files: Sequence[LakeFile], columns: SqlColumns, *, is_stale: bool) -> str:
    """The table's definition: the record's columns, and the typed ones in the types of a SQL view."""
    typed = [
        f"CAST({identifier(field.name)} AS {duckdb_type(field.type)}) AS {identifier(field.name)}"
        for field in columns.fields
    ]
    names = ", ".join([*RECORD.names, *typed])
    gathered = f"SELECT {names} FROM {_GATHERED}"
    if not files:
        return gathered
    if is_stale:
        rows = f"SELECT * FROM read_parquet([{_paths(files)}], union_by_name = true)"
        return f"SELECT {names} FROM (FROM {_GATHERED} UNION ALL BY NAME {rows})"
    return f"SELECT {names} FROM read_parquet([{_paths(files)}]) UNION ALL {gathered}"


def _paths(files: Sequence[LakeFile]) -> str:
    return ", ".join("'" + str(file.path).replace("'", "''") + "'" for file in files)
