"""A SQL table in a process of its own, as its parent sees it: a query can end that process and nothing else.

DuckDB runs in the process that opens its file, checks for an interrupt only between pieces of work, and could crash.
So the table lives in a child (`views.stores.sql.sql_server`), which ends itself over a query that cannot be
interrupted. It is started again by the next call. What was committed is in the file:

* a write whose child ended is written again, unless its bookmark is there already;
* a query whose child ended is asked again, once. After that, and where a snapshot was in use, it is an
  UnavailableError: the same read may work. The query that ended the child gets a QueryError.

Thread-safe, except that one thread at a time writes, as in `views.stores.store`.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import send_handle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

import pyarrow as pa

from mainstem.errors import QueryError, StorageError, UnavailableError
from mainstem.views.requests import Request, Sql, wrong_kind
from mainstem.views.stores.sql.query_watch import OVERRUN_S
from mainstem.views.stores.store import Answer, Bookmark, Bucket, Digest, Row, Snapshot

if TYPE_CHECKING:
    from mainstem.views.stores.sql.sql_table import TableDefinition

_LOGGER = logging.getLogger("mainstem.views")
_ATTEMPTS: Final = 5
_READ_ATTEMPTS: Final = 2  # a read could be the one that ends the child
_PATIENCE_S: Final = 2 * OVERRUN_S
_STOP_S: Final = 10.0


class _EndedError(Exception):
    """The child ended before it answered. Never leaves this module."""


class _Channel:
    """One conversation with a child: a call, its answer, the next call. One thread's at a time."""

    def __init__(self, child: _Child, connection: Connection) -> None:
        self.child = child
        self._connection = connection

    def call(self, name: str, *arguments: Any, within_s: float | None = None) -> Any:
        """The answer. Raises what the child raised, and _EndedError.

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
            raise _EndedError from error
        if not is_value:
            raise value
        return value


class _Child:
    """A process with an open table. Thread-safe."""

    def __init__(self, path: Path, definition: TableDefinition) -> None:
        """Raises StorageError where the table cannot be opened."""
        self._control, theirs = Pipe()
        argv = [sys.executable, "-P", "-m", "mainstem.views.stores.sql.sql_server", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        self._lock = threading.Lock()
        self._free: list[_Channel] = []
        self.has_ended = False
        try:
            self._control.send((path, definition))
            is_value, value = self._control.recv()
        except (EOFError, OSError) as error:
            self.end()
            said = f"the process of the SQL store in {path} ended at its start, code {self._process.returncode}"
            raise StorageError(said) from error
        if not is_value:
            self.end()
            raise value
        self.opened_at = Bookmark.from_text(value)

    def channel(self) -> _Channel:
        """A channel, the caller's until ``give_back``. Raises _EndedError."""
        with self._lock:
            if self.has_ended:
                raise _EndedError
            if self._free:
                return self._free.pop()
            ours, theirs = Pipe()
            with theirs:
                try:
                    send_handle(self._control, theirs.fileno(), self._process.pid)
                except OSError as error:
                    self.end()
                    raise _EndedError from error
            return _Channel(self, ours)

    def give_back(self, channel: _Channel) -> None:
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
        """Kill the process; its file is free for others when this returns."""
        self.has_ended = True
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the table, and let the process end."""
        try:
            self.call("close")
            self.has_ended = True
            self._control.close()
            self._process.wait(_STOP_S)
        except (_EndedError, subprocess.TimeoutExpired):
            self.end()


class IsolatedTable:
    """See the module; otherwise as `views.stores.sql.sql_table.SqlTable`."""

    def __init__(self, path: Path, definition: TableDefinition) -> None:
        self._path = path
        self._definition = definition
        self._lock = threading.Lock()
        self._is_closed = False
        self._child = _Child(path, definition)
        self.bookmark = self._child.opened_at
        _TABLES.add(self)

    def write(self, table: pa.Table, bookmark: Bookmark) -> None:
        """As SqlTable's."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        self._write(bookmark, "write", sink.getvalue().to_pybytes())

    def write_few(self, keys: Sequence[str], rows: Sequence[tuple[Any, ...]], bookmark: Bookmark) -> None:
        """As SqlTable's."""
        self._write(bookmark, "write_few", keys, rows)

    def snapshot(self) -> IsolatedSnapshot:
        """The newest state. Raises UnavailableError."""
        for _ in range(_ATTEMPTS):
            with suppress(_EndedError):
                channel = self._living().channel()
                return IsolatedSnapshot(channel, Bookmark.from_text(channel.call("snapshot")))
        raise _unavailable()

    def answer(self, request: Request) -> Answer:
        """The answer of a snapshot, in one call. Raises UnavailableError."""
        within_s = _within_s(request)
        for _ in range(_READ_ATTEMPTS):
            with suppress(_EndedError):
                rows, bookmark = self._living().call("answer", request, within_s=within_s)
                return Answer(rows, Bookmark.from_text(bookmark).position)
        raise _unavailable()

    def copy_to(self, path: Path) -> int:
        """As SqlTable's. Raises UnavailableError."""
        try:
            return int(self._living().call("copy_to", path))
        except _EndedError as error:
            raise _unavailable() from error

    def mark_verified(self) -> None:
        """As SqlTable's; a child that was started again cannot tell, and a replay has to."""
        with suppress(_EndedError):
            self._living().call("mark_verified")

    def interrupt_queries(self) -> None:
        """Interrupt the queries that run; the child of one that goes on ends."""
        with suppress(_EndedError):
            self._child.call("interrupt")

    def close(self) -> None:
        """As SqlTable's."""
        with self._lock:
            self._is_closed = True
            self._child.close()

    def _write(self, bookmark: Bookmark, name: str, *arguments: Any) -> None:
        text = bookmark.to_text()
        for attempt in range(_ATTEMPTS):
            child = self._living()
            if attempt and child.opened_at.to_text() == text:
                break  # the child ended behind its commit
            try:
                child.call(name, *arguments, text)
                break
            except _EndedError:
                _LOGGER.warning("the process of the SQL store in %s ended within a write; again", self._path)
        else:
            raise StorageError(f"the process of the SQL store in {self._path} ended {_ATTEMPTS} times within a write")
        self.bookmark = bookmark

    def _living(self) -> _Child:
        with self._lock:
            if self._is_closed:
                raise UnavailableError("the view is being closed")
            if self._child.has_ended:
                self._child = _Child(self._path, self._definition)
            return self._child


class IsolatedSnapshot(Snapshot):
    """One state of an IsolatedTable."""

    def __init__(self, channel: _Channel, bookmark: Bookmark) -> None:
        self._channel: _Channel | None = channel
        self.bookmark = bookmark

    def query(self, request: Request) -> list[Row]:
        rows: list[Row] = self._call("query", request, within_s=_within_s(request))
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

    def sample(self, bucket: Bucket) -> Iterator[tuple[str, Row]]:
        return (entry for entry in self.entries() if bucket.has(entry[0].encode()))

    def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            with suppress(_EndedError):
                channel.call("release")
                channel.child.give_back(channel)

    def _call(self, name: str, *arguments: Any, within_s: float | None = None) -> Any:
        assert self._channel is not None, "the snapshot is closed"
        try:
            return self._channel.call(name, *arguments, within_s=within_s)
        except _EndedError as error:
            raise _unavailable() from error


def interrupt_queries() -> None:
    """Interrupt the queries of all tables of this process, as it stops."""
    for table in tuple(_TABLES):
        table.interrupt_queries()


def _within_s(request: Request) -> float:
    """How long the child has for an answer. Raises QueryError for what is not SQL."""
    if not isinstance(request, Sql):
        raise wrong_kind(request, "SQL")
    return request.timeout_s + _PATIENCE_S


def _unavailable() -> UnavailableError:
    return UnavailableError("the process that answers this view's SQL ended, and is started again: ask again")


_TABLES: Final[WeakSet[IsolatedTable]] = WeakSet()
