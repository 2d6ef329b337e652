"""The stream of changes: a thread that takes the server's messages and answers it, whatever the rest is doing.

The thread alone uses the connection. It hands on chunks of messages, up to a bound of their bytes; at the bound it
reads nothing more, and still tells the server every few seconds that it lives. ``confirm`` says up to where the log has
all: the server may then forget its own log up to there.

A mark in a chunk (an int) is a position of the database: every transaction that was committed before it came before it.
"""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from mainstem.background import failed
from mainstem.errors import MachineError, MainstemError
from mainstem.postgres.server.catalog import DatabaseUnavailableError, connect, explained
from mainstem.postgres.server.copy_both import ReplicationMessages
from mainstem.postgres.server.slot import AGAIN

Chunk = Sequence[bytes | int]
_CHUNK_BYTES: Final = 256 << 10
_HELD_BYTES: Final = 32 << 20
_ITEM_BYTES: Final = 64
"""Counted for each message and mark beside its bytes."""
_FEEDBACK_S: Final = 5.0
_FULL_S: Final = 1.0
_WAIT_S: Final = 0.05
_JOIN_S: Final = 20.0
_STREAMS: Final = 140_000


def _protocol(server_version: int) -> dict[str, str]:
    """Since PostgreSQL 14 large transactions come before they commit."""
    if server_version < _STREAMS:
        return {"proto_version": "1"}
    return {"proto_version": "2", "streaming": "on"}


class ReplicationStream:
    """A context manager. ``take`` and ``confirm`` are for one thread."""

    def __init__(self, dsn: str, slot: str, start_lsn: int) -> None:
        """``start_lsn``: where to go on; 0 is where the slot is. Nothing connects before the block."""
        self._dsn = dsn
        self._slot = slot
        self._start_lsn = start_lsn
        self._confirmed = start_lsn
        self._chunks = _Chunks(_HELD_BYTES)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replication", daemon=True)
        self._connection: Any = None
        self._sent_lsn = 0
        self._sent_s = 0.0
        self._marked = start_lsn
        self._is_asked = False

    def __enter__(self) -> ReplicationStream:
        """Connect and begin. Raises ConfigError, DatabaseUnavailableError."""
        self._connection = connect(self._dsn, replication=True)
        try:
            self._cursor = self._connection.cursor()
            self._cursor.start_replication(
                slot_name=self._slot,
                start_lsn=self._start_lsn,
                decode=False,
                options=_protocol(self._connection.server_version)
                | {"publication_names": f'"{self._slot}"', "messages": "true"},
            )
        except Exception as error:
            self._connection.close()
            raise explained(error) from error
        self._messages = ReplicationMessages(self._connection)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(_JOIN_S)
        self._connection.close()

    def take(self, timeout_s: float) -> Chunk:
        """The next chunk; an empty one when none came in time. Raises what ended the stream."""
        chunk = self._chunks.take(timeout_s)
        if isinstance(chunk, MainstemError):
            raise chunk
        return chunk

    @property
    def has_more(self) -> bool:
        """Whether a chunk is there already."""
        return not self._chunks.is_empty

    def confirm(self, lsn: int) -> None:
        """All before ``lsn`` is durable in the log."""
        self._confirmed = lsn

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._hand_on(self._read())
        except Exception as error:  # noqa: BLE001 - the reader of the chunks must learn of it
            found = explained(error)
            if not isinstance(found, DatabaseUnavailableError):
                failed("replication stream", error)
            if type(found) is MachineError:  # the server cannot decode its own log, as after a slot was made amid DDL
                found = MachineError(f"{found}; if it stays so after a restart, {AGAIN}")
            self._chunks.end(found)

    def _read(self) -> list[bytes | int]:
        """The messages that have come; waits a little when none has."""
        chunk: list[bytes | int] = []
        size = 0
        while size < _CHUNK_BYTES:
            message = self._messages.read()
            if message is None:
                break
            if isinstance(message, bytes):
                chunk.append(message)
                size += len(message)
                continue
            self._is_asked |= message.wants_answer
            if message.wal_end > self._marked:
                self._marked = message.wal_end
                chunk.append(message.wal_end)
        self._answer()
        if not chunk:
            self._wait()
        return chunk

    def _wait(self) -> None:
        """Wait a moment for the server. (`select.select` refuses descriptors from 1,024 on.)"""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        poll.poll(_WAIT_S * 1000)

    def _answer(self) -> None:
        """Tell the server up to where the log has all: when it asks, when it is news, and every few seconds."""
        now_s = time.monotonic()
        if self._is_asked or self._confirmed > self._sent_lsn or now_s - self._sent_s >= _FEEDBACK_S:
            self._is_asked = False
            self._sent_lsn, self._sent_s = self._confirmed, now_s
            self._messages.tell(write_lsn=self._marked, flush_lsn=self._sent_lsn)

    def _hand_on(self, chunk: Chunk) -> None:
        size = sum(_ITEM_BYTES + (len(item) if isinstance(item, bytes) else 0) for item in chunk)
        while chunk and not self._stopping.is_set() and not self._chunks.put(chunk, size, _FULL_S):
            self._is_asked = True  # it may have asked: nothing is read meanwhile
            self._answer()


class _Chunks:
    """Chunks on their way between two threads, with at most ``bytes_max`` bytes; a larger one waits until it is alone.

    An error comes after all chunks.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._condition = threading.Condition()
        self._held: deque[tuple[Chunk, int]] = deque()
        self._bytes = 0
        self._error: MainstemError | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits to be taken."""
        return not self._held

    def put(self, chunk: Chunk, size: int, timeout_s: float) -> bool:
        """Add a chunk of ``size`` bytes; False when it found no room in time."""
        with self._condition:
            if not self._condition.wait_for(lambda: not self._held or self._bytes + size <= self._bytes_max, timeout_s):
                return False
            self._held.append((chunk, size))
            self._bytes += size
            self._condition.notify_all()
            return True

    def end(self, error: MainstemError) -> None:
        """Add the error that ended the stream."""
        with self._condition:
            self._error = error
            self._condition.notify_all()

    def take(self, timeout_s: float) -> Chunk | MainstemError:
        """The next chunk, or after the last one the error; an empty chunk when nothing came in time."""
        with self._condition:
            self._condition.wait_for(lambda: self._held or self._error, timeout_s)
            if not self._held:
                return self._error or ()
            chunk, size = self._held.popleft()
            self._bytes -= size
            self._condition.notify_all()
            return chunk
