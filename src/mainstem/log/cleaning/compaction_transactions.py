"""The ends of the transactions in a compaction: which batches are removed, and which markers are not needed any more.

A transactional batch belongs to the transaction that its producer's next marker ends. Records of aborted transactions
are removed at once. A marker stays as long as its transaction had a batch in this run. After that it is treated as a
tombstone: it gets a delete horizon, and is removed after that time.

Pure data; owned by one run.
"""

from __future__ import annotations

from bisect import bisect_left

from mainstem.record.constants import ControlType
from mainstem.record.header import BatchHeader


class TransactionEnds:
    """The markers of a stretch of log, noted in the order of their offsets before anything is asked."""

    def __init__(self) -> None:
        self._offsets: dict[int, list[int]] = {}
        self._aborts: dict[int, list[bool]] = {}
        self._open: dict[int, int] = {}
        self._seen: set[int] = set()

    def note_batch(self, header: BatchHeader) -> None:
        """A transactional data batch: its producer has a transaction open."""
        self._open.setdefault(header.producer_id, header.base_offset)

    def note_marker(self, header: BatchHeader, control_type: ControlType) -> None:
        """A marker: it ends what its producer has open."""
        self._offsets.setdefault(header.producer_id, []).append(header.base_offset)
        self._aborts.setdefault(header.producer_id, []).append(control_type is ControlType.ABORT)
        self._open.pop(header.producer_id, None)

    @property
    def has_open(self) -> bool:
        """Whether a transaction is open at the end of what was noted."""
        return bool(self._open)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the data batch belongs to a transaction that was aborted."""
        if not header.is_transactional:
            return False
        offsets = self._offsets.get(header.producer_id, [])
        slot = bisect_left(offsets, header.base_offset)
        return slot < len(offsets) and self._aborts[header.producer_id][slot]

    def saw_batch(self, header: BatchHeader) -> None:
        """A transactional data batch passes by: the next marker of its producer is needed."""
        self._seen.add(header.producer_id)

    def is_needed(self, header: BatchHeader) -> bool:
        """Whether the marker that passes by belongs to a batch that did."""
        if header.producer_id in self._seen:
            self._seen.discard(header.producer_id)
            return True
        return False
