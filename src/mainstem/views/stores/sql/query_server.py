"""The process that answers SQL for one store: it opens a source, and answers calls.

It is forked (`views.stores.sql.query_forks`), and has a socket of its parent (`views.stores.sql.query_process`). The
function that opens the source comes first, with its arguments; the answer is the source's ``state``. After that come
descriptors, each of a channel: a thread takes the calls of one channel, one after the other, and sends ``(True,
value)`` or ``(False, error)`` for each.

The process ends when the parent's socket closes, at once: a store survives a kill. A query that cannot be interrupted
ends it, too; its own channel is answered before that (`views.stores.sql.query_watch`).
"""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any, Final, Protocol

from mainstem.errors import ConfigError, MainstemError, QueryError, StorageError
from mainstem.exit_codes import DONE, NOT_NOW
from mainstem.views.requests import SqlQuery
from mainstem.views.stores.sql.query_watch import WATCH, WatchedQuery, memory_limit
from mainstem.views.stores.sql.sql_queries import CursorSnapshot
from mainstem.views.stores.store import Digest, Row

_LOG: Final = logging.getLogger("mainstem.views")
ENTRIES_OF_A_CALL: Final = 512


class SqlSource(Protocol):
    """The open store that the process answers from. The parent may call each of its public methods, too."""

    @property
    def state(self) -> str:
        """Text that the parent gets at the opening."""

    def snapshot(self, *arguments: Any) -> CursorSnapshot:
        """One state, for the calls of `_SnapshotCalls`."""

    def close(self) -> None:
        """Let the files go."""


class _Session:
    """The calls of one channel. One thread's."""

    def __init__(self, channel: Connection, source: SqlSource) -> None:
        self._channel = channel
        self._source = source
        self._snapshot_calls = _SnapshotCalls(source)

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
        calls = self._snapshot_calls if hasattr(self._snapshot_calls, name) else self._source
        try:
            return True, getattr(calls, name)(*arguments)
        except MainstemError as error:
            return False, error
        except Exception as error:  # noqa: BLE001 - the process goes on with the next query
            _LOG.exception("a view's SQL failed")
            return False, StorageError(f"unexpected {type(error).__name__} of the view's SQL: {error}")

    def runs(self, query: WatchedQuery) -> bool:
        """Whether it is this one's query."""
        current = self._snapshot_calls.current
        return current is not None and current.is_at(query.cursor)


class _SnapshotCalls:
    """The calls of the parent process to snapshots, one after the other, and to the process."""

    def __init__(self, source: SqlSource) -> None:
        self._source = source
        self._entries: Iterator[tuple[str, Row]] = iter(())
        self.current: CursorSnapshot | None = None

    def snapshot(self, *arguments: Any) -> str:
        self.current = self._source.snapshot(*arguments)
        return self.current.bookmark.to_text()

    def query(self, request: SqlQuery) -> list[Row]:
        return self._snapshot.query(request)

    def answer(self, request: SqlQuery, *arguments: Any) -> tuple[list[Row], str]:
        bookmark = self.snapshot(*arguments)
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

    def interrupt(self) -> None:
        WATCH.stop()

    @property
    def _snapshot(self) -> CursorSnapshot:
        assert self.current is not None, "the parent takes a snapshot first"
        return self.current


def serve(control: Connection) -> None:
    """Serve until the parent closes the socket, or end where the source cannot be opened."""
    sessions: list[_Session] = []
    try:
        WATCH.memory_max = memory_limit() or WATCH.memory_max
        WATCH.on_runaway = lambda query, reason: _end(sessions, query, reason)
        opener, arguments = control.recv()
        source: SqlSource = opener(*arguments)
    except (StorageError, ConfigError) as error:
        control.send((False, error))
        return
    control.send((True, source.state))
    gc.freeze()  # a source's module may have been loaded now
    gc.enable()
    while True:
        try:
            session = _Session(Connection(recv_handle(control)), source)
        except (EOFError, OSError):
            os._exit(DONE)
        sessions.append(session)
        threading.Thread(target=session.serve, daemon=True).start()


def _end(sessions: list[_Session], query: WatchedQuery, reason: str) -> None:
    _LOG.critical("the process of a view's SQL ends, to be started again: %s", reason)
    for session in sessions:
        if session.runs(query):
            limit = "memory" if query.ended_by == "memory" else f"time limit of {query.timeout_s:g} s"
            session.reply(False, QueryError(f"the query ran over its {limit} and could not be interrupted: narrow it"))
    os._exit(NOT_NOW)
