"""Which offsets of a partition are damaged, where a decoder refused the bytes of a fetch.

A log that proves its batches answers CORRUPT_MESSAGE and says where reading goes on (``wire.cluster.fetching``). Here
are the other cases: a batch whose checksum is right and whose records make no sense, and, from a log that does not
prove what it hands out, a batch with a wrong checksum. Pure functions over the caller's buffer.

A reader steps over whole batches. After a damaged batch it must fetch again: the log names the aborted transactions of
each fetch, and the damaged batch may be the marker that ends one of them.
"""

from __future__ import annotations

from contextlib import suppress

from mainstem.client.wire.cluster.fetching import FetchedPartition
from mainstem.errors import CorruptBatchError, DamagedRecordsError, InputError
from mainstem.model import ON_DAMAGED, TopicPartition
from mainstem.record.header import BatchHeader, iter_headers, verify


def check_on_damaged(word: str) -> None:
    """Raises InputError unless ``word`` is one of ``ON_DAMAGED``."""
    if word not in ON_DAMAGED:
        raise InputError(f"invalid on_damaged {word!r}: use one of {', '.join(ON_DAMAGED)}")


def damage_at(
    tp: TopicPartition, fetched: FetchedPartition, offset: int, error: CorruptBatchError
) -> DamagedRecordsError:
    """The error that names the damaged offsets. A decoder raised ``error`` at ``offset`` of ``fetched``.

    The range ends before the next valid batch of the fetch. If there is none, the damaged batch's own header gives its
    end, if the checksum confirms that header or if nothing follows the batch.
    """
    if isinstance(error, DamagedRecordsError):
        return error
    damaged: BatchHeader | None = None
    is_proven = False
    with suppress(CorruptBatchError):  # the chain of headers ends there; what was found before it counts
        for file_position, header in iter_headers(fetched.records):
            if header.next_offset <= offset and damaged is None:
                continue
            proven = _is_proven(fetched.records, file_position, header)
            if damaged is not None and proven and header.base_offset > damaged.base_offset:
                return DamagedRecordsError(tp, max(offset, damaged.base_offset), header.base_offset - 1, str(error))
            if damaged is None:
                damaged, is_proven = header, proven
    if damaged is None:
        return DamagedRecordsError(tp, offset, None, str(error))
    ends_there = is_proven or damaged.next_offset == fetched.high_watermark
    return DamagedRecordsError(
        tp, max(offset, damaged.base_offset), damaged.last_offset if ends_there else None, str(error)
    )


def _is_proven(records: memoryview, file_position: int, header: BatchHeader) -> bool:
    try:
        verify(records, file_position, header)
    except CorruptBatchError:
        return False
    return True
