"""The transaction index of one segment: the aborted transactions whose markers lie in it. Kafka's ``.txnindex``.

34 bytes an entry, big-endian: version (int16, 0), producer id, first offset, last offset (the marker's), and the last
stable offset once that marker was written (int64 each). A segment without an aborted transaction has no such file.

Invariant: last offsets rise strictly, last stable offsets never fall. Pure data, no I/O; owned by one segment.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from typing import Final

from mainstem.log.segments.transactions import EndedTransaction
from mainstem.record.reader import AbortedTransaction

_ENTRY = struct.Struct(">hqqqq")
_VERSION: Final = 0
ENTRY_BYTES: Final = _ENTRY.size


class TransactionIndex:
    """Entries in memory, a column each."""

    __slots__ = ("_first_offsets", "_last_offsets", "_last_stable_offsets", "_producer_ids")

    def __init__(self) -> None:
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._last_stable_offsets = array("q")

    @classmethod
    def decode(cls, data: bytes) -> TransactionIndex:
        """Read a file's entries. The caller has checked that they are what was written (see ``index_checksums``)."""
        index = cls()
        for _, producer_id, first_offset, last_offset, last_stable_offset in _ENTRY.iter_unpack(data):
            index._append(producer_id, first_offset, last_offset, last_stable_offset)
        return index

    def encode(self, first_entry: int = 0) -> bytes:
        """The entries from ``first_entry`` on, in the form of the file."""
        columns = (self._producer_ids, self._first_offsets, self._last_offsets, self._last_stable_offsets)
        rows = zip(*(column[first_entry:] for column in columns), strict=True)
        return b"".join(_ENTRY.pack(_VERSION, *row) for row in rows)

    def __len__(self) -> int:
        return len(self._last_offsets)

    def append(self, ended: EndedTransaction, last_stable_offset: int) -> None:
        """Add an aborted transaction. No other is open before ``last_stable_offset``."""
        assert not self._last_offsets or ended.last_offset > self._last_offsets[-1], "transaction index entries rise"
        self._append(ended.producer_id, ended.first_offset, ended.last_offset, last_stable_offset)

    def _append(self, producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int) -> None:
        self._producer_ids.append(producer_id)
        self._first_offsets.append(first_offset)
        self._last_offsets.append(last_offset)
        self._last_stable_offsets.append(last_stable_offset)

    def truncate(self, offset: int) -> None:
        """Drop the transactions that ended at or after ``offset``."""
        keep = bisect_left(self._last_offsets, offset)
        for column in (self._producer_ids, self._first_offsets, self._last_offsets, self._last_stable_offsets):
            del column[keep:]

    def find(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that reach into [offset, end_offset)."""
        found = []
        for slot in range(bisect_left(self._last_offsets, offset), len(self)):
            if self._first_offsets[slot] < end_offset:
                found.append(AbortedTransaction(self._producer_ids[slot], self._first_offsets[slot]))
            if self._last_stable_offsets[slot] >= end_offset:
                break
        return found
