"""A process that answers SQL for one store, as its parent sees it: a query can end that process and nothing else.

DuckDB runs in the process that opens its database, checks for an interrupt only between pieces of work, and could
crash. So a child (`views.stores.sql.query_server`) opens the source of the answers. It ends itself over a query that
cannot be interrupted. The next call starts it again.

A query whose child ended is asked again, once. After that, and where a snapshot was in use, it is an UnavailableError:
the same read may work. The query that ended the child gets a QueryError.

Thread-safe.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import send_handle
from typing import Any, Final, TypeVar
from weakref import WeakSet

from mainstem.errors import MainstemError, QueryError, StorageError, UnavailableError
from mainstem.views.requests import Request, SqlQuery, wrong_kind
from mainstem.views.stores.sql.query_forks import QueryForks
from mainstem.views.stores.sql.query_server import SqlSource
from mainstem.views.stores.sql.query_watch import OVERRUN_S
from mainstem.views.stores.store import Bookmark, Digest, Row, Snapshot

T = TypeVar("T")
ATTEMPTS: Final = 5
_READ_ATTEMPTS: Final = 2  # a read could be the one that ends the child
_PATIENCE_S: Final = 2 * OVERRUN_S


class ChildEndedError(Exception):
    """The child ended before it answered. Never leaves the stores."""


class Channel:
    """One conversation with a child: a call, its answer, the next call. One thread's at a time."""

    def __init__(self, child: QueryChild, connection: Connection) -> None:
        self.child = child
        self._connection = connection

    def call(self, name: str, *arguments: Any, within_s: float | None = None) -> Any:
        """The answer. Raises what the child raised, and ChildEndedError.

        A child without an answer ``within_s`` is killed; that is a QueryError.
        """
        try:
            self._connection.send((name, arguments))
            if not self._connection.poll(within_s):
                self.child.end()
                raise QueryError("the query ran over its time limit and could not be interrupted: narrow it")
            is_value, value = self._connection.recv()
        except (EOFError, OSError) as error:
            self.child.end()
            raise ChildEndedError from error
        if not is_value:
            raise value
        return value


class QueryChild:
    """A process with an open source. ``opened_at``: the state of the source at its opening. Thread-safe."""

    def __init__(self, what: str, opener: Callable[..., SqlSource], arguments: tuple[Any, ...]) -> None:
        """Raises StorageError where the source cannot be opened."""
        self._control, theirs = Pipe()
        with theirs:
            self.pid = _FORKS.fork(theirs)
        self._lock = threading.RLock()
        self._free: list[Channel] = []
        self.has_ended = False
        try:
            self._control.send((opener, arguments))
            is_value, value = self._control.recv()
        except (EOFError, OSError) as error:
            self.end()
            raise StorageError(f"the process of the {what} ended at its start") from error
        if not is_value:
            self.end()
            raise value
        self.opened_at: str = value

    def channel(self) -> Channel:
        """A channel, the caller's until ``give_back``. Raises ChildEndedError."""
        with self._lock:
            if self.has_ended:
                raise ChildEndedError
            if self._free:
                return self._free.pop()
            ours, theirs = Pipe()
            with theirs:
                try:
                    send_handle(self._control, theirs.fileno(), self.pid)
                except OSError as error:
                    self.end()
                    raise ChildEndedError from error
            return Channel(self, ours)

    def give_back(self, channel: Channel) -> None:
        """Let others use the channel, unless the child has ended."""
        with self._lock:
            if not self.has_ended:
                self._free.append(channel)

    def call(self, name: str, *arguments: Any, within_s: float | None = None) -> Any:
        """A call on some channel."""
        channel = self.channel()
        try:
            return channel.call(name, *arguments, within_s=within_s)
        finally:
            self.give_back(channel)

    def end(self) -> None:
        """Kill the process; its files are free for others when this returns."""
        with self._lock:
            if not self.has_ended:
                self.has_ended = True
                self._control.close()
                _FORKS.end(self.pid)

    def close(self) -> None:
        """Close the source, and end the process."""
        try:
            with suppress(ChildEndedError):
                self.call("close")
        finally:
            self.end()


class QueryProcess:
    """A child that answers SQL, started by the first call and again after it has ended."""

    def __init__(self, what: str, opener: Callable[..., SqlSource], *arguments: Any) -> None:
        """``what``: the name of the source in errors. The child calls ``opener``, which is defined in a module."""
        self._what = what
        self._opener = opener
        self._arguments = arguments
        self._lock = threading.Lock()
        self._is_closed = False
        self._child: QueryChild | None = None
        _PROCESSES.add(self)

    def living(self) -> QueryChild:
        """The child; started when there is none. Raises StorageError, and UnavailableError after ``close``."""
        with self._lock:
            if self._is_closed:
                raise UnavailableError("the view is being closed")
            if self._child is None or self._child.has_ended:
                self._child = QueryChild(self._what, self._opener, self._arguments)
            return self._child

    def read(self, ask: Callable[[Callable[..., Any]], T]) -> T:
        """The result of ``ask``, which calls the child. Raises UnavailableError when the child ended twice."""
        for _ in range(_READ_ATTEMPTS):
            with suppress(ChildEndedError):
                return ask(self.living().call)
        raise unavailable()

    def snapshot(self, take: Callable[[Channel], T]) -> T:
        """The snapshot that ``take`` makes of a channel, which is then the snapshot's. Raises UnavailableError."""
        for _ in range(ATTEMPTS):
            with suppress(ChildEndedError):
                channel = self.living().channel()
                try:
                    return take(channel)
                except MainstemError:
                    channel.child.give_back(channel)
                    raise
        raise unavailable()

    def interrupt_queries(self) -> None:
        """Interrupt the queries that run; the child of one that goes on ends."""
        child = self._child
        if child is not None:
            with suppress(ChildEndedError):
                child.call("interrupt")

    def close(self) -> None:
        """Close the source in the child; the child ends."""
        with self._lock:
            self._is_closed = True
            if self._child is not None:
                self._child.close()


class IsolatedSnapshot(Snapshot):
    """One state of the source of a child."""

    def __init__(self, channel: Channel, bookmark: Bookmark, kind: str) -> None:
        self._channel: Channel | None = channel
        self._kind = kind
        self.bookmark = bookmark

    def query(self, request: Request) -> list[Row]:
        rows: list[Row] = self._call("query", request, within_s=answer_within_s(request, self._kind))
        return rows

    def digest(self) -> Digest:
        digest: Digest = self._call("digest")
        return digest

    def intact(self) -> bool | None:
        is_intact: bool | None = self._call("intact")
        return is_intact

    def count(self) -> int:
        return int(self._call("count"))

    def entries(self) -> Iterator[tuple[str, Row]]:
        return self.entries_after(None)

    def entries_after(self, name: str | None) -> Iterator[tuple[str, Row]]:
        entries = self._call("entries", name)
        while entries:
            yield from entries
            entries = self._call("more_entries")

    def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            with suppress(ChildEndedError):
                channel.call("release")
                channel.child.give_back(channel)

    def _call(self, name: str, *arguments: Any, within_s: float | None = None) -> Any:
        assert self._channel is not None, "the snapshot is closed"
        try:
            return self._channel.call(name, *arguments, within_s=within_s)
        except ChildEndedError as error:
            raise unavailable() from error


def interrupt_queries() -> None:
    """Interrupt the queries of all children of this process, as it stops."""
    for process in tuple(_PROCESSES):
        process.interrupt_queries()


def answer_within_s(request: Request, kind: str) -> float:
    """The seconds that a child has for its answer. Raises QueryError if the request is not SQL."""
    if not isinstance(request, SqlQuery):
        raise wrong_kind(request, kind)
    return request.timeout_s + _PATIENCE_S


def unavailable() -> UnavailableError:
    """The error of a read whose child ended."""
    return UnavailableError("the process that answers this view's SQL ended, and is started again: ask again")


_FORKS: Final = QueryForks()
atexit.register(_FORKS.stop)
_PROCESSES: Final[WeakSet[QueryProcess]] = WeakSet()
