"""The process of one SQL table: it opens the table, writes what it is sent, and answers queries.

``python -m mainstem.views.stores.sql.sql_server DESCRIPTOR``: a socket of its parent, `views.stores.sql.sql_process`.
The path and the definition of the table come first; its bookmark is the answer. After that come descriptors, each of
a channel: a thread takes the calls of one channel, one after the other, and sends ``(True, value)`` or ``(False,
error)`` for each.

The process ends when the parent's socket closes, at once: the table survives a kill. A query that cannot be interrupted
ends it, too; its own channel is answered before that (`views.stores.sql.query_watch`).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from mainstem.errors import ConfigError, MainstemError, QueryError, StorageError
from mainstem.exit_codes import DONE, NOT_NOW
from mainstem.views.requests import Sql
from mainstem.views.stores.sql.query_watch import WATCH, WatchedQuery, memory_limit
from mainstem.views.stores.sql.sql_table import SqlSnapshot, SqlTable, TableDefinition
from mainstem.views.stores.store import Bookmark, Digest, Row

_LOGGER = logging.getLogger("mainstem.views")
ENTRIES_OF_A_CALL: Final = 512
_LOCK_S: Final = 20.0
_LOCK_CHECK_S: Final = 0.05


class _Session:
    """The calls of one channel. One thread's."""

    def __init__(self, channel: Connection, table: SqlTable) -> None:
        self._channel = channel
        self._table_calls = _TableCalls(table)
        self._snapshot_calls = _SnapshotCalls(table)

    def serve(self) -> None:
        """Answer calls until the parent closes the channel."""
        with self._channel:
            while True:
                try:
                    name, arguments = self._channel.recv()
                except (EOFError, OSError):
                    return
                self.reply(*self._called(name, arguments))

    def reply(self, is_value: bool, value: Any) -> None:
        """Answer the call that is worked on."""
        self._channel.send((is_value, value))

    def _called(self, name: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        calls = self._table_calls if hasattr(self._table_calls, name) else self._snapshot_calls
        try:
            return True, getattr(calls, name)(*arguments)
        except MainstemError as error:
            return False, error
        except Exception as error:
            _LOGGER.exception("a SQL table failed")
            return False, StorageError(f"unexpected {type(error).__name__} of the SQL store: {error}")

    def runs(self, query: WatchedQuery) -> bool:
        """Whether it is this one's query."""
        current = self._snapshot_calls.current
        return current is not None and current.is_at(query.cursor)


class _TableCalls:
    """The calls of the parent process to the table."""

    def __init__(self, table: SqlTable) -> None:
        self._table = table

    def write(self, table: bytes, bookmark: str) -> None:
        with pa.ipc.open_stream(table) as stream:
            self._table.write(stream.read_all(), Bookmark.from_text(bookmark))

    def write_few(self, keys: list[str], rows: list[tuple[Any, ...]], bookmark: str) -> None:
        self._table.write_few(keys, rows, Bookmark.from_text(bookmark))

    def copy_to(self, path: Path) -> int:
        return self._table.copy_to(path)

    def mark_verified(self) -> None:
        self._table.mark_verified()

    def interrupt(self) -> None:
        WATCH.stop()

    def close(self) -> None:
        self._table.close()


class _SnapshotCalls:
    """The calls of the parent process to snapshots, one after the other."""

    def __init__(self, table: SqlTable) -> None:
        self._table = table
        self._entries: Iterator[tuple[str, Row]] = iter(())
        self.current: SqlSnapshot | None = None

    def snapshot(self) -> str:
        self.current = self._table.snapshot()
        return self.current.bookmark.to_text()

    def query(self, request: Sql) -> list[Row]:
        return self._snapshot.query(request)

    def answer(self, request: Sql) -> tuple[list[Row], str]:
        bookmark = self.snapshot()
        try:
            return self.query(request), bookmark
        finally:
            self.release()

    def digest(self) -> Digest:
        return self._snapshot.digest()

    def intact(self) -> bool | None:
        return self._snapshot.intact()

    def count(self) -> int:
        return self._snapshot.count()

    def entries(self, name: str | None) -> list[tuple[str, Row]]:
        self._entries = self._snapshot.entries_after(name)
        return self.more_entries()

    def more_entries(self) -> list[tuple[str, Row]]:
        return [entry for entry, _ in zip(self._entries, range(ENTRIES_OF_A_CALL), strict=False)]

    def release(self) -> None:
        self._entries = iter(())
        self._snapshot.close()
        self.current = None

    @property
    def _snapshot(self) -> SqlSnapshot:
        assert self.current is not None, "the parent takes a snapshot first"
        return self.current


def main() -> None:
    """Serve until the parent is gone."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # they reach the whole group; the parent closes the table
    control = Connection(int(sys.argv[1]))
    sessions: list[_Session] = []
    try:
        WATCH.memory_max = memory_limit() or WATCH.memory_max
        WATCH.on_runaway = lambda query, reason: _end(sessions, query, reason)
        table = _opened(*control.recv())
    except (StorageError, ConfigError) as error:
        control.send((False, error))
        return
    control.send((True, table.bookmark.to_text()))
    while True:
        try:
            session = _Session(Connection(recv_handle(control)), table)
        except (EOFError, OSError):
            os._exit(DONE)
        sessions.append(session)
        threading.Thread(target=session.serve, daemon=True).start()


def _opened(path: Path, definition: TableDefinition) -> SqlTable:
    """The table. The process of a parent that was killed just now may hold its file for a moment yet."""
    until_s = time.monotonic() + _LOCK_S
    while True:
        try:
            return SqlTable(path, definition)
        except StorageError as error:
            if "lock on file" not in str(error) or time.monotonic() >= until_s:
                raise
        time.sleep(_LOCK_CHECK_S)


def _end(sessions: list[_Session], query: WatchedQuery, reason: str) -> None:
    _LOGGER.critical("the process of a SQL view ends, to be started again: %s", reason)
    for session in sessions:
        if session.runs(query):
            limit = "memory" if query.ended_by == "memory" else f"time limit of {query.timeout_s:g} s"
            session.reply(False, QueryError(f"the query ran over its {limit} and could not be interrupted: narrow it"))
    os._exit(NOT_NOW)


if __name__ == "__main__":
    main()
