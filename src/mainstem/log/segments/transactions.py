"""Which transactions are open in a stretch of a log, and how those in it ended. Pure data, no I/O.

A producer's transaction begins with its first transactional batch and ends with its next marker. A marker of a producer
that has none open ends nothing: it was sent twice, or all that it belongs to has been deleted.

Invariant: ``OpenTransactions`` is what the batches up to its owner's end give, in the order of their beginnings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mainstem.record.constants import ControlType
from mainstem.record.header import BatchHeader
from mainstem.record.reader import EndMarker


class EndedTransaction(NamedTuple):
    """``last_offset`` is its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class OpenTransactions:
    """Producer id → first offset. Transactions begin in the order of their offsets, so the first entry is the least."""

    __slots__ = ("_first_offsets",)

    def __init__(self, first_offsets: Iterable[tuple[int, int]] = ()) -> None:
        self._first_offsets = dict(sorted(first_offsets, key=lambda entry: entry[1]))

    def __len__(self) -> int:
        return len(self._first_offsets)

    def entries(self) -> tuple[tuple[int, int], ...]:
        """(producer id, first offset), the oldest first."""
        return tuple(self._first_offsets.items())

    def copy(self) -> OpenTransactions:
        """The same, to go on from independently."""
        return OpenTransactions(self._first_offsets.items())

    @property
    def first_offset(self) -> int | None:
        """Where the oldest began; None when none is open."""
        return next(iter(self._first_offsets.values())) if self._first_offsets else None

    def first_offset_of(self, producer_id: int) -> int | None:
        """Where the producer's began; None when it has none open."""
        return self._first_offsets.get(producer_id)

    def update(self, header: BatchHeader, marker: EndMarker | None) -> EndedTransaction | None:
        """Take in the next batch; ``marker`` is a control batch's content. Returns the transaction that it ended."""
        if not header.is_transactional:
            return None
        if not header.is_control:
            self._first_offsets.setdefault(header.producer_id, header.base_offset)
            return None
        first_offset = self._first_offsets.pop(header.producer_id, None) if marker is not None else None
        if marker is None or first_offset is None:
            return None
        return EndedTransaction(
            header.producer_id, first_offset, header.last_offset, marker.control_type is ControlType.ABORT
        )
