"""Record batches for a share partition: which records are deliverable, and where their bytes are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mainstem.broker.share.acquisition import Acquired, Extent
from mainstem.record.header import iter_headers
from mainstem.record.reader import AbortedRecords, AbortedTransaction


class ShareBatch(NamedTuple):
    """One batch with its bytes."""

    extent: Extent
    data: memoryview


def read_batches(buffers: Iterable[memoryview], aborted: Iterable[AbortedTransaction] = ()) -> list[ShareBatch]:
    """The batches in ``buffers``, in order. Markers and batches of aborted transactions are not deliverable.

    Raises CorruptBatchError.
    """
    in_aborted = AbortedRecords(aborted)
    batches = []
    for buffer in buffers:
        for file_position, header in iter_headers(buffer):
            data = buffer[file_position : file_position + header.size_bytes]
            if header.is_control:
                in_aborted.pass_marker(header, data)
            deliverable = not header.is_control and not in_aborted.holds(header)
            batches.append(ShareBatch(Extent(header.base_offset, header.last_offset, deliverable), data))
    return batches


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
