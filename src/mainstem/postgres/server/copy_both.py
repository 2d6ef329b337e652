"""The messages of a replication connection, by libpq itself, in both directions.

psycopg2 starts the replication. Its own reader is not used, because it confirms what was not confirmed: it moves the
slot to the position of a keep-alive by itself. The log may not have come so far, and a slot that is ahead of the log
looks like one that another program has used. libpq is the one that psycopg2 is linked to.

Format: PostgreSQL's documentation, "Streaming Replication Protocol". Used by one thread.
"""

from __future__ import annotations

import ctypes
import struct
import time
from dataclasses import dataclass
from typing import Any, Final

import psycopg2

from mainstem.postgres.server.pgoutput import POSTGRES_EPOCH_US

_DATA: Final = b"w"
_KEEPALIVE: Final = struct.Struct(">cQqB")
_STATUS: Final = struct.Struct(">cQQQqB")
_HEADER_BYTES: Final = 25
"""Of a message with data: its kind, where the data begins, where the log of the server ends, the server's clock."""
_ENDED, _FAILED = -1, -2
_SQLSTATE: Final = ord("C")


def _load() -> Any:
    path = psycopg2._psycopg.__file__
    # For what never waits: giving up the interpreter's lock for it costs more than the call.
    library, waitless = ctypes.CDLL(path), ctypes.PyDLL(path)
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, returns, arguments in (
        ("PQgetCopyData", number, (pointer, ctypes.POINTER(pointer), number)),
        ("PQputCopyData", number, (pointer, text, number)),
        ("PQconsumeInput", number, (pointer,)),
        ("PQflush", number, (pointer,)),
        ("PQfreemem", None, (pointer,)),
        ("PQerrorMessage", text, (pointer,)),
        ("PQgetResult", pointer, (pointer,)),
        ("PQresultErrorMessage", text, (pointer,)),
        ("PQresultErrorField", text, (pointer, number)),
        ("PQclear", None, (pointer,)),
    ):
        if name in ("PQgetCopyData", "PQfreemem"):
            setattr(library, name, getattr(waitless, name))
        function = getattr(library, name)
        function.restype, function.argtypes = returns, arguments
    return library


_LIBPQ: Final = _load()
_bytes_at: Final[Any] = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)


class StreamEndedError(Exception):
    """The server has ended the stream, or cannot be reached. ``pgcode``: its SQLSTATE, None without one."""

    def __init__(self, text: str, pgcode: str | None) -> None:
        super().__init__(text)
        self.pgcode = pgcode


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The server has sent all that was committed before ``wal_end``. ``wants_answer``: it asks for a status now."""

    wal_end: int
    wants_answer: bool


class ReplicationMessages:
    """The messages of a connection that has started a replication. The module's docstring has the contract."""

    def __init__(self, connection: Any) -> None:
        """``connection``: psycopg2's, which stays open as long as this is used."""
        self._connection = ctypes.c_void_p(connection.pgconn_ptr)
        self._buffer = ctypes.c_void_p()
        self._where_buffer = ctypes.byref(self._buffer)

    def read(self) -> bytes | KeepAlive | None:
        """The data of the next message, or a keep-alive; None when none has come. Raises StreamEndedError."""
        message = self._next()
        if message is None:
            if not _LIBPQ.PQconsumeInput(self._connection):
                raise self._failure()
            message = self._next()
        if message is None:
            return None
        if message[:1] == _DATA:
            return message[_HEADER_BYTES:]
        _, wal_end, _, wants_answer = _KEEPALIVE.unpack(message)
        return KeepAlive(wal_end, bool(wants_answer))

    def tell(self, *, write_lsn: int, flush_lsn: int) -> None:
        """Tell the server what has come, and what is durable: the slot moves to ``flush_lsn``.

        Raises StreamEndedError.
        """
        clock_us = time.time_ns() // 1_000 - POSTGRES_EPOCH_US
        data = _STATUS.pack(b"r", max(write_lsn, flush_lsn), flush_lsn, flush_lsn, clock_us, 0)
        if _LIBPQ.PQputCopyData(self._connection, data, len(data)) != 1 or _LIBPQ.PQflush(self._connection) < 0:
            raise self._failure()

    def _next(self) -> bytes | None:
        size = _LIBPQ.PQgetCopyData(self._connection, self._where_buffer, 1)
        if size > 0:
            message: bytes = _bytes_at(self._buffer, size)
            _LIBPQ.PQfreemem(self._buffer)
            return message
        if size == _FAILED:
            raise self._failure()
        if size == _ENDED:
            raise self._end()
        return None

    def _end(self) -> StreamEndedError:
        result = _LIBPQ.PQgetResult(self._connection)
        if not result:
            return self._failure()
        try:
            text = _LIBPQ.PQresultErrorMessage(result) or b"the server has ended the stream"
            code = _LIBPQ.PQresultErrorField(result, _SQLSTATE)
            return StreamEndedError(text.decode(errors="replace"), code.decode() if code else None)
        finally:
            _LIBPQ.PQclear(result)

    def _failure(self) -> StreamEndedError:
        text = _LIBPQ.PQerrorMessage(self._connection) or b"the connection is broken"
        return StreamEndedError(text.decode(errors="replace"), None)
