"""One state of a sink's table: a transaction that reads. For one thread at a time.

The digest is computed by the server, so a verification that finds nothing moves no rows. Rows are answered as in every
view (`views.stores.rows`), with their record's key as ``_key``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

from mainstem.errors import QueryError
from mainstem.views.requests import GetQuery, RangeQuery, Request, wrong_kind
from mainstem.views.stores.rows import plain
from mainstem.views.stores.store import Answer, Bucket, Digest, Row, Snapshot
from mainstem.views.stores.table.database import Database, Session
from mainstem.views.stores.table.sink_table import SinkTable
from mainstem.views.stores.table.statements import Cursor, Sql, listed, quoted
from mainstem.views.stores.table.table_columns import KEY
from mainstem.views.stores.table.table_rows import RowReader


class TableSnapshot(Snapshot):
    """One state of a generation of a sink."""

    def __init__(self, database: Database, sink: SinkTable, generation: str | None, reader: RowReader) -> None:
        """``generation``: one that does not serve; None: what serves.

        Raises StoreUnavailableError, and ViewStoppedError when it is gone.
        """
        self._reader = reader
        self._database = database
        self._sink = sink
        self._columns = sink.columns
        self._walk: Any = None
        """The driver's cursor of the walk over rows that is under way. MariaDB has one at a time in a connection."""
        self._session: Session | None
        self._session, (table, self.bookmark) = database.begin_reading(lambda c: sink.see(c, generation))
        self._table = table
        self._identity = self._columns.identity_sql()
        self._ordered = Sql(f"{self._identity} COLLATE {self._columns.dialect.collation}")

    def query(self, request: Request) -> list[Row]:
        return self.answer(request).rows

    def answer(self, request: Request) -> Answer:
        match request:
            case GetQuery(key):
                cells = self._reader.read_key(key)
                found = [] if cells is None else list(zip(map(quoted, self._columns.key), cells, strict=True))
                same = [("{} = {}", name, cell) for name, cell in found]
                return Answer([row for _, row in self._rows(same, 1)] if same else [], self.position)
            case RangeQuery():
                return self._range(request)
            case _:
                raise wrong_kind(request, "sink")

    def digest(self) -> Digest:
        with self._cursor() as cursor:
            return self._columns.dialect.digest(cursor, self._table, self._columns)

    def count(self) -> int:
        with self._cursor() as cursor:
            cursor.run("SELECT count(*) FROM {}", self._table.sql)
            return int(cursor.row()[0])

    def entries(self) -> Iterator[tuple[str, Row]]:
        return self._rows([])

    def entries_after(self, name: str | None) -> Iterator[tuple[str, Row]]:
        return self._rows([] if name is None else [("{} > {}", self._ordered, name)])

    def sample(self, bucket: Bucket) -> Iterator[tuple[str, Row]]:
        return (entry for entry in self.entries() if bucket.has(entry[0].encode()))

    def close(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        if self._walk is not None:  # before another reader's transaction begins in the connection
            with suppress(*self._database.errors):
                self._walk.close()
        self._database.give_back(session)

    # ---- how

    def _range(self, request: RangeQuery) -> Answer:
        prefix = request.prefix or None
        conditions: list[tuple[Any, ...]] = [
            (condition, self._ordered, value)
            for condition, value in (("{} >= {}", request.start), ("{} < {}", request.end), ("{} > {}", request.after))
            if value is not None
        ]
        if prefix is not None:
            conditions.append(("substr({}, 1, {}) = {}", self._ordered, len(prefix), prefix))
        if any("\0" in part for each in conditions for part in each if isinstance(part, str)):
            raise QueryError("a key in a sink's table cannot hold the character U+0000")
        found = list(self._rows(conditions, request.limit + 1))
        rows = [row for _, row in found[: request.limit]]
        return Answer(rows, self.position, next=found[request.limit - 1][0] if len(found) > request.limit else None)

    def _rows(self, conditions: Sequence[tuple[Any, ...]], limit: int | None = None) -> Iterator[tuple[str, Row]]:
        """Rows with the names of their entries, in the order of these."""
        columns = self._columns
        read = columns.dialect.read
        statement = "SELECT {}, {} FROM {} WHERE 1 = 1"
        parts: list[Any] = [self._identity, listed(map(quoted, columns.names)), self._table.sql]
        for condition, *more in conditions:
            statement += f" AND {condition}"
            parts += more
        statement += " ORDER BY {}" + ("" if limit is None else " LIMIT {}")
        assert self._walk is None, "another walk over rows is under way"
        with self._database.translated(), closing(self._database.walking(self._live)) as raw:
            self._walk = raw
            self._database.cursor(raw).run(statement, *parts, self._ordered, *([] if limit is None else [limit]))
            for identity, *cells in raw:
                row = {c.name: plain(read(c, cell)) for c, cell in zip(columns.columns, cells, strict=True)}
                yield identity, {KEY: identity, **row}
        self._walk = None

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        assert self._walk is None, "a walk over rows is under way"
        with self._database.translated(), closing(self._live.cursor()) as raw:
            yield self._database.cursor(raw)

    @property
    def _live(self) -> Session:
        assert self._session is not None, "the snapshot is closed"
        return self._session
