"""The offset index of one segment: offset → file position, sparse. Kafka's ``.index``: 8 bytes an entry.

An entry (offset, file position) says: the batch that starts at this file position ends with this offset. ``lookup``
finds where to start reading; the caller walks the batches from there.

Invariant: offsets and file positions both rise strictly. Pure data, no I/O; owned by one segment.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from mainstem.log.segments.batch_scan import Start

ENTRY_BYTES: Final = 8
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
"""The greatest offset after the base that an entry's four bytes hold, signed as in Kafka."""
assert array("I").itemsize == 4


class OffsetIndex:
    """Entries in memory, as two arrays that bisect searches natively."""

    __slots__ = ("_base_offset", "_file_positions", "_relative_offsets")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._relative_offsets = array("I")
        self._file_positions = array("I")

    @classmethod
    def decode(cls, base_offset: int, data: bytes) -> OffsetIndex:
        """Read a file's entries. The caller has checked that they are what was written (see ``index_checksums``)."""
        index = cls(base_offset)
        words = array("I")
        words.frombytes(data)
        if sys.byteorder == "little":
            words.byteswap()
        index._relative_offsets = words[0::2]
        index._file_positions = words[1::2]
        return index

    def encode(self, first_entry: int = 0) -> bytes:
        """The entries from ``first_entry`` on, in the form of the file."""
        words = array("I", bytes(ENTRY_BYTES * (len(self) - first_entry)))
        words[0::2] = self._relative_offsets[first_entry:]
        words[1::2] = self._file_positions[first_entry:]
        if sys.byteorder == "little":
            words.byteswap()
        return words.tobytes()

    def __len__(self) -> int:
        return len(self._relative_offsets)

    def append(self, last_offset: int, file_position: int) -> None:
        """Add the entry of the batch that starts at ``file_position`` and ends with ``last_offset``."""
        relative = last_offset - self._base_offset
        assert not self._relative_offsets or (
            relative > self._relative_offsets[-1] and file_position > self._file_positions[-1]
        ), "offset index entries rise"
        self._relative_offsets.append(relative)
        self._file_positions.append(file_position)

    def truncate(self, offset: int) -> tuple[int, int] | None:
        """Drop the entries of batches that end at or after ``offset``; the last entry left, as (offset, position)."""
        keep = bisect_left(self._relative_offsets, offset - self._base_offset)
        del self._relative_offsets[keep:], self._file_positions[keep:]
        return (self._base_offset + self._relative_offsets[-1], self._file_positions[-1]) if keep else None

    def lookup(self, offset: int) -> Start:
        """A batch start from which walking finds ``offset``: of a batch that ends at or before it, or the first."""
        slot = bisect_right(self._relative_offsets, offset - self._base_offset) - 1
        if slot < 0:
            return Start(0, self._base_offset)
        return Start(self._file_positions[slot], None, self._base_offset + self._relative_offsets[slot])

    def lookup_file_position(self, file_position: int) -> int:
        """The greatest indexed batch start that is at most ``file_position``; 0 when there is no such entry."""
        slot = bisect_right(self._file_positions, file_position) - 1
        return self._file_positions[slot] if slot >= 0 else 0

    def bound_after(self, file_position: int) -> int | None:
        """An offset that no batch before ``file_position`` reaches: the last of the next indexed batch."""
        slot = bisect_left(self._file_positions, file_position)
        return self._base_offset + self._relative_offsets[slot] if slot < len(self) else None

    def start_before(self, file_position: int) -> Start | None:
        """The last entry whose batch starts before ``file_position``."""
        slot = bisect_left(self._file_positions, file_position) - 1
        if slot < 0:
            return None
        return Start(self._file_positions[slot], None, self._base_offset + self._relative_offsets[slot])
