"""One state of a sink's table: a transaction that reads. For one thread at a time.

The digest is computed by the server, so a verification that finds nothing moves no rows. Rows are answered as in every
view (`views.stores.rows`), with their record's key as ``_key``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

from mainstem.errors import QueryError
from mainstem.views.requests import GetQuery, RangeQuery, Request, wrong_kind
from mainstem.views.stores.postgres.database import Database, Session, close, run
from mainstem.views.stores.postgres.sink_table import SinkTable
from mainstem.views.stores.postgres.table_columns import KEY
from mainstem.views.stores.postgres.table_rows import RowReader
from mainstem.views.stores.rows import plain
from mainstem.views.stores.store import Answer, Bucket, Digest, Row, Snapshot

try:
    from psycopg2 import sql
except ImportError:  # `database` says so
    sql = None

_FETCH_ROWS: Final = 2_000
_AFTER: Final = '{} COLLATE "C" > {}'
_MODULUS: Final = 1 << 128


class PostgresSnapshot(Snapshot):
    """One state of a generation of a sink."""

    def __init__(self, database: Database, sink: SinkTable, generation: str | None, reader: RowReader) -> None:
        """``generation``: one that does not serve; None: what serves.

        Raises StoreUnavailableError, and ViewStoppedError when it is gone.
        """
        self._reader = reader
        self._database = database
        self._sink = sink
        self._columns = sink.columns
        self._walks = 0
        """How many walks over rows are under way."""
        self._session: Session | None
        self._session, (name, self.bookmark) = database.begin_reading(lambda c: sink.see(c, generation))
        self._table = sink.identifier(name)
        self._identity = sql.SQL(self._columns.identity_sql())

    def query(self, request: Request) -> list[Row]:
        return self.answer(request).rows

    def answer(self, request: Request) -> Answer:
        match request:
            case GetQuery(key):
                cells = self._reader.read_key(key)
                conditions = [] if cells is None else [*zip(self._columns.key, cells, strict=True)]
                found = [sql.SQL("{} = {}").format(sql.Identifier(n), sql.Literal(cell)) for n, cell in conditions]
                return Answer([row for _, row in self._rows(found, 1)] if found else [], self.position)
            case RangeQuery():
                return self._range(request)
            case _:
                raise wrong_kind(request, "postgres")

    def digest(self) -> Digest:
        columns = sql.SQL(", ").join(map(sql.Identifier, self._columns.names))
        query = "SELECT count(*), coalesce(sum(hashtextextended(ROW({}, {})::text, 0)), 0) FROM {}"
        entries, checksum = self._one(query, self._identity, columns, self._table)
        return Digest(entries, int(checksum) % _MODULUS)

    def count(self) -> int:
        return int(self._one("SELECT count(*) FROM {}", self._table)[0])

    def entries(self) -> Iterator[tuple[str, Row]]:
        return self._rows([])

    def entries_after(self, name: str | None) -> Iterator[tuple[str, Row]]:
        return self._rows([] if name is None else [self._compared(_AFTER, name)])

    def sample(self, bucket: Bucket) -> Iterator[tuple[str, Row]]:
        return (entry for entry in self.entries() if bucket.has(entry[0].encode()))

    def close(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        if self._walks:  # its cursor closes later, and must not do so in another reader's transaction
            close(session)
        else:
            self._database.give_back(session)

    # ---- how

    def _range(self, request: RangeQuery) -> Answer:
        bounds = (
            ("starts_with({}, {})", request.prefix or None),
            ('{} COLLATE "C" >= {}', request.start),
            ('{} COLLATE "C" < {}', request.end),
            (_AFTER, request.after),
        )
        conditions = [(condition, value) for condition, value in bounds if value is not None]
        if any("\0" in value for _, value in conditions):
            raise QueryError("a key in PostgreSQL cannot hold the character U+0000")
        found = list(self._rows([self._compared(*each) for each in conditions], request.limit + 1))
        rows = [row for _, row in found[: request.limit]]
        return Answer(rows, self.position, next=found[request.limit - 1][0] if len(found) > request.limit else None)

    def _compared(self, condition: str, value: str) -> Any:
        return sql.SQL(condition).format(self._identity, sql.Literal(value))

    def _rows(self, conditions: Sequence[Any], limit: int | None = None) -> Iterator[tuple[str, Row]]:
        """Rows with the names of their entries, in the order of these."""
        names = self._columns.names
        self._walks += 1
        with self._database.translated(), self._live.cursor(name=f"walk_{uuid.uuid4().hex}") as cursor:
            cursor.itersize = _FETCH_ROWS
            run(
                cursor,
                'SELECT {}, {} FROM {} WHERE {} ORDER BY {} COLLATE "C" LIMIT {}',
                self._identity,
                sql.SQL(", ").join(map(sql.Identifier, names)),
                self._table,
                sql.SQL(" AND ").join([sql.SQL("true"), *conditions]),
                self._identity,
                limit,
            )
            for identity, *cells in cursor:
                yield identity, {KEY: identity, **dict(zip(names, map(plain, cells), strict=True))}
        self._walks -= 1

    def _one(self, query: str, *parts: Any) -> tuple[Any, ...]:
        with self._database.translated(), self._live.cursor() as cursor:
            run(cursor, "SET LOCAL statement_timeout = 0")  # the whole table is read
            run(cursor, query, *parts)
            row: tuple[Any, ...] = cursor.fetchone()
            return row

    @property
    def _live(self) -> Session:
        assert self._session is not None, "the snapshot is closed"
        return self._session
