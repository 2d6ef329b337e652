"""Record batches that were read, as a share partition sees them: which are deliverable, and where their bytes are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from mainstem.broker.share.acquisition import Acquired, Extent
from mainstem.log.segments.transactions import AbortedTransaction
from mainstem.record.header import BatchHeader, iter_headers
from mainstem.record.reader import read_records

_MARKER_TYPE_AT: Final = slice(2, 4)
_ABORT: Final = b"\x00\x00"


class ShareBatch(NamedTuple):
    """One batch with its bytes."""

    extent: Extent
    data: memoryview


def read_batches(buffers: Iterable[memoryview], aborted: Iterable[AbortedTransaction] = ()) -> list[ShareBatch]:
    """The batches in ``buffers``, in order. Markers and batches of aborted transactions are not deliverable.

    Raises CorruptBatchError.
    """
    waiting = sorted(aborted, key=_first_offset_of)
    in_aborted: set[int] = set()
    batches = []
    for buffer in buffers:
        for file_position, header in iter_headers(buffer):
            data = buffer[file_position : file_position + header.size_bytes]
            while waiting and waiting[0].first_offset <= header.last_offset:
                in_aborted.add(waiting.pop(0).producer_id)
            deliverable = not header.is_control and not (header.is_transactional and header.producer_id in in_aborted)
            if header.is_control and header.producer_id in in_aborted and _is_abort(header, data):
                in_aborted.discard(header.producer_id)
            batches.append(ShareBatch(Extent(header.base_offset, header.last_offset, deliverable), data))
    return batches


def _is_abort(header: BatchHeader, data: memoryview) -> bool:
    """Whether a control batch ends its producer's transaction by aborting it."""
    if not header.record_count:
        return False
    key = next(iter(read_records(data))).key or b""
    return key[_MARKER_TYPE_AT] == _ABORT


def _first_offset_of(aborted: AbortedTransaction) -> int:
    return aborted.first_offset


def holding(batches: Iterable[ShareBatch], acquired: Sequence[Acquired]) -> list[memoryview]:
    """The bytes of the batches that hold anything of what was acquired."""
    found = []
    position = 0
    for batch in batches:
        first, last, _ = batch.extent
        while position < len(acquired) and acquired[position].last < first:
            position += 1
        if position < len(acquired) and acquired[position].first <= last:
            found.append(batch.data)
    return found
