"""The time index of one segment: timestamp → offset, sparse. Kafka's ``.timeindex``: 12 bytes an entry.

An entry (timestamp, offset) says: the greatest timestamp in the segment up to some batch is this one, and the first
batch that has it ends with this offset. So a record with a later timestamp comes after that offset.

Invariant: timestamps rise strictly, offsets rise. Pure data, no I/O; owned by one segment.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

ENTRY_BYTES: Final = 12
_LOW, _HIGH = (0, 1) if sys.byteorder == "little" else (1, 0)


class TimeIndex:
    """Entries in memory, as two arrays that bisect searches natively."""

    __slots__ = ("_base_offset", "_relative_offsets", "_timestamps")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._relative_offsets = array("I")

    @classmethod
    def decode(cls, base_offset: int, data: bytes) -> TimeIndex:
        """Read a file's entries. The caller has checked that they are what was written (see ``index_checksums``)."""
        index = cls(base_offset)
        words = array("I")
        words.frombytes(data)
        if sys.byteorder == "little":
            words.byteswap()
        halves = array("I", bytes(8 * (len(words) // 3)))
        halves[_HIGH::2] = words[0::3]
        halves[_LOW::2] = words[1::3]
        index._timestamps.frombytes(halves.tobytes())
        index._relative_offsets = words[2::3]
        return index

    def encode(self, first_entry: int = 0) -> bytes:
        """The entries from ``first_entry`` on, in the form of the file."""
        halves = array("I")
        halves.frombytes(self._timestamps[first_entry:].tobytes())
        words = array("I", bytes(ENTRY_BYTES * (len(self) - first_entry)))
        words[0::3] = halves[_HIGH::2]
        words[1::3] = halves[_LOW::2]
        words[2::3] = self._relative_offsets[first_entry:]
        if sys.byteorder == "little":
            words.byteswap()
        return words.tobytes()

    def __len__(self) -> int:
        return len(self._timestamps)

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry, unless the last one says as much: the greatest timestamp has not grown, or there is none."""
        last = self._timestamps[-1] if self._timestamps else -1
        if timestamp_ms <= last:
            return
        relative = offset - self._base_offset
        assert not self._relative_offsets or relative >= self._relative_offsets[-1], "time index entries rise"
        self._timestamps.append(timestamp_ms)
        self._relative_offsets.append(relative)

    def truncate(self, offset: int) -> tuple[int, int] | None:
        """Drop the entries after ``offset``; the last entry left, as (timestamp, offset)."""
        keep = bisect_right(self._relative_offsets, offset - self._base_offset)
        del self._timestamps[keep:], self._relative_offsets[keep:]
        return (self._timestamps[-1], self._base_offset + self._relative_offsets[-1]) if keep else None

    def lookup(self, timestamp_ms: int) -> int:
        """The offset after which the first record with at least this timestamp lies; before the base if unknown."""
        slot = bisect_left(self._timestamps, timestamp_ms) - 1
        return self._base_offset + self._relative_offsets[slot] if slot >= 0 else self._base_offset - 1

    def last_until(self, offset: int) -> tuple[int, int] | None:
        """The last entry, as (timestamp, offset), that is not after ``offset``."""
        slot = bisect_right(self._relative_offsets, offset - self._base_offset) - 1
        return (self._timestamps[slot], self._base_offset + self._relative_offsets[slot]) if slot >= 0 else None
