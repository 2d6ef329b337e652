"""The records of a segment that is in the backup's store alone, as a task takes them from there: not through the log.

Only the ranges that are decoded are asked for, some megabytes at once; each batch is proven when it is decoded. Owned
by one thread, but for ``store_of``'s stores, which are safe from any.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import Final

from mainstem.errors import MainstemError
from mainstem.log.segments.remote_segment import RemoteSegment
from mainstem.object_stores.opening import open_store
from mainstem.object_stores.store import ObjectStore

_ASKED_BYTES: Final = 8 << 20


class StoreUnusableError(OSError):
    """The store does not give this task the records; the log may."""


class StoredRecords:
    """See ``local_segments``: a chunk lasts until the next is asked for, and is shorter only at the end."""

    def __init__(self, stored: RemoteSegment) -> None:
        """Raises StoreUnusableError."""
        self._stored = stored
        self._starts = [piece.start for piece in stored.pieces]
        self._at = 0
        self._data = memoryview(b"")
        try:
            self._store = store_of(stored.url)
        except MainstemError as error:
            raise StoreUnusableError(str(error)) from error

    def chunk(self, at: int, size: int) -> memoryview:
        """Raises StoreUnusableError."""
        end = min(at + size, self._stored.size_bytes)
        if not self._at <= at or end > self._at + len(self._data):
            self._data = memoryview(self._asked(at, min(max(end, at + _ASKED_BYTES), self._stored.size_bytes)))
            self._at = at
        return self._data[at - self._at : end - self._at]

    def _asked(self, start: int, end: int) -> bytes:
        parts = []
        for piece in self._stored.pieces[max(0, bisect_right(self._starts, start) - 1) :]:
            first, last = max(start, piece.start), min(end, piece.end)
            if first >= last:
                break
            try:
                data = self._store.get_range(piece.object_name, piece.object_offset + first - piece.start, last - first)
            except MainstemError as error:
                raise StoreUnusableError(str(error)) from error
            if len(data) != last - first:
                raise StoreUnusableError(f"{self._stored.url}/{piece.object_name} does not hold all of its bytes")
            parts.append(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)


@cache
def store_of(url: str) -> ObjectStore:
    """The store of a URL, opened once in a process. Raises ConfigError, MissingDependencyError."""
    return open_store(url)
