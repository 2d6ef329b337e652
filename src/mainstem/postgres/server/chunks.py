"""Reads tables in chunks, by their key, while the stream of changes goes on; each chunk in a thread, one at a time.

A chunk is the rows after the last key, in the key's order, read by COPY in a snapshot of its own. After it a mark is
written into the stream (``pg_logical_emit_message``), so that the capture knows when the stream has come so far. What
is then done with the rows stands in ``windows``. Nothing but the last key has to be kept: a capture that was killed
goes on after the last chunk that it has committed, and a table may be read again at any time.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import psycopg2
from psycopg2 import sql

from mainstem.background import failed
from mainstem.errors import MachineError, MainstemError
from mainstem.pipelines.definitions import TableName
from mainstem.postgres.server.catalog import SourceTable, connect, explained, find_table, rows_of

MARK: Final = "mainstem"
"""The prefix of marks in the stream."""
_XID_SPACE: Final = 1 << 32
_ROWS_FIRST: Final = 500
_ROWS_MAX: Final = 50_000
_BYTES_WANTED: Final = 2 << 20
_BYTES_MAX: Final = 128 << 20
_CANCEL_S: Final = 1.0
_JOIN_S: Final = 15.0
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class SnapshotXids:
    """The transactions that a snapshot does not see: those from ``xmax`` on, and those that were ``running``."""

    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> SnapshotXids:
        """Read ``pg_current_snapshot()``: ``xmin:xmax:xip,…``."""
        _, xmax, running = text.split(":")
        return cls(int(xmax), frozenset(int(xid) % _XID_SPACE for xid in running.split(",") if xid))

    def misses(self, xid: int) -> bool:
        """Whether it does not see a transaction, by the 32 bits of its id."""
        ahead = (xid - self.xmax) % _XID_SPACE
        return ahead < _XID_SPACE // 2 or xid in self.running


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """Rows as lines of COPY, with the table as it was read. ``mark`` comes in the stream after them."""

    mark: bytes
    table: SourceTable
    lines: Sequence[bytes]
    xids: SnapshotXids
    is_last: bool
    size_bytes: int


class _TooLargeError(Exception):
    """A chunk has more bytes than may be held."""


class ChunkReader:
    """Reads one chunk after the other in a thread. ``request``, ``result`` and ``close`` are for one thread."""

    def __init__(self, dsn: str, capture: str) -> None:
        self._dsn = dsn
        self._capture = capture
        self._limit = _ROWS_FIRST
        self._thread: threading.Thread | None = None
        self._result: ChunkRows | MainstemError | None = None
        self._connection: Any = None
        self.mark = b""
        """The mark of the chunk that was asked for last."""

    @property
    def is_busy(self) -> bool:
        """Whether a chunk was asked for and not taken."""
        return self._thread is not None

    def request(self, name: TableName, after: Sequence[str] | None) -> None:
        """Begin to read the rows of a table after the key ``after``."""
        assert self._thread is None
        self.mark = f"{self._capture}/{uuid.uuid4().hex}".encode()
        self._result = None
        self._thread = threading.Thread(target=self._run, args=(name, after), name="snapshot", daemon=True)
        self._thread.start()

    def result(self) -> ChunkRows:
        """The chunk, when the stream has come to its mark. Raises what reading it failed with."""
        assert self._thread is not None
        self._thread.join()
        self._thread = None
        found = self._result
        if isinstance(found, MainstemError):
            raise found
        assert found is not None
        self._adapt(found)
        return found

    @property
    def failure(self) -> MainstemError | None:
        """Why the chunk cannot be read: then no mark will come."""
        return self._result if isinstance(self._result, MainstemError) else None

    def close(self) -> None:
        """Give up what is being read, within some seconds, also from a server that has stopped to answer."""
        connection, thread = self._connection, self._thread
        if thread is not None:
            if connection is not None:
                _break(connection)
            thread.join(_JOIN_S)  # it may be connecting, for `connect_timeout`
            self._thread = None
            if thread.is_alive():
                return  # it ends with the process
        self._disconnect()

    def _adapt(self, chunk: ChunkRows) -> None:
        if chunk.lines:
            per_row = max(1, chunk.size_bytes // len(chunk.lines))
            self._limit = max(1, min(_ROWS_MAX, _BYTES_WANTED // per_row, self._limit * 4))

    def _run(self, name: TableName, after: Sequence[str] | None) -> None:
        try:
            self._result = self._read_smaller(name, after)
        except Exception as error:  # noqa: BLE001 - the capture must learn of it
            if not isinstance(error, MainstemError | psycopg2.Error):
                failed("snapshot", error)
            self._result = explained(error)

    def _read_smaller(self, name: TableName, after: Sequence[str] | None) -> ChunkRows:
        while True:
            try:
                return self._read(name, after)
            except _TooLargeError as error:
                self._disconnect()  # in the middle of a COPY
                if self._limit == 1:
                    raise MachineError(f"a row of table {name} has more than {_BYTES_MAX >> 20} MiB") from error
                self._limit = max(1, self._limit // 8)
            except psycopg2.Error:
                self._disconnect()
                raise

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, name: TableName, after: Sequence[str] | None) -> ChunkRows:
        if self._connection is None:
            self._connection = connect(self._dsn)
        connection = self._connection
        lines = _Lines()
        with connection.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SELECT pg_current_snapshot()::text")
            xids = SnapshotXids.parse(cursor.fetchone()[0])
            table = find_table(connection, name)
            cursor.copy_expert(_copy(connection, table, after, self._limit), lines)
            cursor.execute("COMMIT")
        rows_of(connection, "SELECT pg_logical_emit_message(true, %s, %s::text)", (MARK, self.mark.decode()))
        return ChunkRows(self.mark, table, lines.lines, xids, len(lines.lines) < self._limit, lines.size_bytes)


def _break(connection: Any) -> None:
    """End the statement of another thread: ask the server, and then close its socket for both directions."""

    def ask() -> None:
        with suppress(psycopg2.Error):  # else the server ends it when it writes, or by the statement's time-out
            connection.cancel()

    asking = threading.Thread(target=ask, name="snapshot-cancel", daemon=True)
    asking.start()
    asking.join(_CANCEL_S)
    with suppress(psycopg2.InterfaceError, OSError):  # it is closed already
        with socket.socket(fileno=os.dup(connection.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)


def _copy(connection: Any, table: SourceTable, after: Sequence[str] | None, limit: int) -> str:
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
    key = sql.SQL(", ").join(sql.Identifier(name) for name in table.key)
    where = sql.SQL("")
    only = sql.SQL("" if table.is_partitioned else "ONLY")  # tables that inherit from it are not published with it
    if after is not None:
        types = {column.name: column for column in table.columns}
        values = sql.SQL(", ").join(
            sql.SQL("{}::{}").format(sql.Literal(value), sql.SQL(_type_text(connection, types[name].type_oid)))
            for name, value in zip(table.key, after, strict=True)
        )
        where = sql.SQL("WHERE ({}) > ({})").format(key, values)
    return str(
        sql.SQL("COPY (SELECT {} FROM {} {} {} ORDER BY {} LIMIT {}) TO STDOUT")
        .format(columns, only, sql.Identifier(table.name.schema, table.name.name), where, key, sql.Literal(limit))
        .as_string(connection)
    )


def _type_text(connection: Any, oid: int) -> str:
    """A type's name as SQL, quoted where it has to be. Without a modifier: the value has been through it."""
    ((text,),) = rows_of(connection, "SELECT format_type(%s, -1)", (oid,))
    return str(text)


class _Lines:
    """The file that COPY writes to: one call for each row, in PostgreSQL's text format."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.size_bytes = 0

    def write(self, line: bytes) -> None:
        """Take one row. Raises _TooLargeError."""
        self.size_bytes += len(line)
        if self.size_bytes > _BYTES_MAX:
            raise _TooLargeError
        self.lines.append(line)


def row_of(line: bytes) -> list[str | None]:
    """A line of COPY as its values. Raises MachineError for bytes that are not UTF-8."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise MachineError(f"the database sent a row that cannot be read: {line[:40]!r}: {error}") from error
    fields = text[:-1].split("\t")
    if "\\" in text:
        return [None if field == "\\N" else _unescaped(field) for field in fields]
    return [*fields]


def _unescaped(field: str) -> str:
    """A value of COPY's text format. (PostgreSQL's documentation, COPY, "Text Format".)"""
    if "\\" not in field:
        return field
    parts = field.split("\\")
    found = [parts[0]]
    at = 1
    while at < len(parts):
        part = parts[at]
        if part:
            found.append(_ESCAPES.get(part[0], part[0]) + part[1:])
            at += 1
        else:  # a backslash; what follows it is as it stands
            found.append("\\" + (parts[at + 1] if at + 1 < len(parts) else ""))
            at += 2
    return "".join(found)
