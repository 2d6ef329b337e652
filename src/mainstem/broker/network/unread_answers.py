"""Responses that wait because their clients do not read them: counted over all connections, and bounded.

A connection is listed here while its socket's send buffer is full. Above ``limit_bytes`` the slowest readers are
closed, one after the other, until the rest fits. A connection that was listed less than a second ago is closed only
while more than twice the limit waits. A connection that reads nothing for ``idle_s_max`` is closed in any case.
Concurrency: the event loop only.
"""

from __future__ import annotations

from typing import Final, Protocol

_SPARED_S: Final = 1.0


class Reader(Protocol):
    """A connection, as this module needs it."""

    @property
    def unsent_bytes(self) -> int:
        """The bytes of responses that the socket has not accepted."""
        ...

    def close(self, reason: str = "") -> None:
        """Close at once."""
        ...


class _Stand:
    """How fast one connection reads: its waiting bytes at the begin and now, and its last progress."""

    __slots__ = ("began_bytes", "began_s", "moved_s", "size_bytes")

    def __init__(self, size_bytes: int, now_s: float) -> None:
        self.began_bytes = self.size_bytes = size_bytes
        self.began_s = self.moved_s = now_s

    def rate(self, now_s: float) -> float:
        """Return the bytes read per second."""
        return (self.began_bytes - self.size_bytes) / max(now_s - self.began_s, 1e-9)


class UnreadAnswers:
    """The unread responses of one node."""

    def __init__(self, limit_bytes: int, idle_s_max: float) -> None:
        self.limit_bytes = limit_bytes
        self.closed_readers = 0
        self._idle_s_max = idle_s_max
        self._stands: dict[Reader, _Stand] = {}
        self.total_bytes = 0
        """The bytes that waited at the last check."""

    def paused(self, reader: Reader, now_s: float) -> None:
        """Add a connection whose socket accepts no data for now."""
        stand = _Stand(reader.unsent_bytes, now_s)
        self._stands[reader] = stand
        self.total_bytes += stand.size_bytes
        if self.total_bytes > 2 * self.limit_bytes:
            self.check(now_s)

    def resumed(self, reader: Reader) -> None:
        """Remove a connection whose socket accepts data again, or is closed."""
        stand = self._stands.pop(reader, None)
        if stand is not None:
            self.total_bytes -= stand.size_bytes

    def check(self, now_s: float) -> None:
        """Check all connections that do not read, and close those over the limits."""
        for reader, stand in list(self._stands.items()):
            size_bytes = reader.unsent_bytes
            if size_bytes < stand.size_bytes:
                self.total_bytes -= stand.size_bytes - size_bytes
                stand.size_bytes, stand.moved_s = size_bytes, now_s
            elif now_s - stand.moved_s > self._idle_s_max:
                self._close(reader, f"its client has read nothing for {now_s - stand.moved_s:.0f} s")
        if self.total_bytes <= self.limit_bytes:
            return
        spared_s = _SPARED_S if self.total_bytes <= 2 * self.limit_bytes else 0.0
        slowest = sorted(self._stands.items(), key=lambda item: (item[1].rate(now_s), item[1].began_s))
        for reader, stand in slowest:
            if self.total_bytes <= self.limit_bytes:
                return
            if now_s - stand.began_s >= spared_s:
                self._close(
                    reader, f"unread answers hold more than mainstem.queued.max.response.bytes={self.limit_bytes}"
                )

    def _close(self, reader: Reader, reason: str) -> None:
        self.resumed(reader)
        self.closed_readers += 1
        reader.close(reason)
