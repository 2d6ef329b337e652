"""A task's reading: raw fetches, decoded natively into Arrow, from the first offset of a range to its end.

Closed segments of a log on this machine are read from its files (``local_segments``), the rest over the socket.

The whole range is read or an error says which offsets are missing and why. Gaps (compaction, transactions) are no loss;
only what lies before the log start offset is. Runs in Spark's Python workers; each call owns what it uses.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mainstem.client.wire.cluster import EARLIEST, Isolation, WireClient
from mainstem.client.wire.fetching import FetchedPartition
from mainstem.errors import LogUnavailableError, OffsetOutOfRangeError
from mainstem.model import TopicPartition
from mainstem.record.arrow_decode import decode
from mainstem.spark.local_segments import read_local
from mainstem.spark.ranges import OffsetRange

_FETCH_BYTES = 4 * 1024 * 1024
_WAIT_MS = 500
# An end offset was committed when it was chosen; a log that does not hand it out for so many waits has lost it.
_EMPTY_FETCHES_MAX = 20


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """Which of a record's columns, what to do about lost offsets, and whether the log's files may be read."""

    columns: frozenset[str]
    fail_on_data_loss: bool = True
    isolation: Isolation = Isolation.READ_COMMITTED
    reads_files: bool = False


def read_range(client: WireClient, wanted: OffsetRange, options: ScanOptions) -> Iterator[Any]:
    """The records of the range as Arrow record batches with ``options.columns``, in order.

    Raises OffsetOutOfRangeError for offsets that were removed (with ``fail_on_data_loss``), LogUnavailableError.
    """
    tp, offset, empty = wanted.topic_partition, wanted.start, 0
    if options.reads_files:
        committed = options.isolation is Isolation.READ_COMMITTED
        for decoded in read_local(client, wanted, options.columns, committed=committed):
            offset = decoded.next_offset
            if decoded.arrow_batch.num_rows:
                yield decoded.arrow_batch
    while offset < wanted.end:
        fetched = client.fetch(
            {tp: offset},
            max_wait_ms=_WAIT_MS,
            max_bytes=_FETCH_BYTES,
            partition_max_bytes=_FETCH_BYTES,
            read_committed=options.isolation is Isolation.READ_COMMITTED,
        )[tp]
        if isinstance(fetched.error, OffsetOutOfRangeError):
            offset = _behind_the_loss(client, OffsetRange(tp, offset, wanted.end), options)
            continue
        if fetched.error is not None:
            raise fetched.error
        decoded = _decode(fetched, tp, offset, wanted.end, options)
        if decoded.next_offset == offset:
            empty += 1
            if empty == _EMPTY_FETCHES_MAX:
                raise LogUnavailableError(
                    f"{tp} has no records from offset {offset} on, though it once reached {wanted.end}: "
                    f"its end is now {fetched.last_stable_offset}"
                )
            continue
        offset, empty = decoded.next_offset, 0
        if decoded.arrow_batch.num_rows:
            yield decoded.arrow_batch


def _decode(fetched: FetchedPartition, tp: TopicPartition, start: int, end: int, options: ScanOptions) -> Any:
    return decode(
        fetched.records,
        topic=tp.topic,
        partition=tp.partition,
        start_offset=start,
        end_offset=end,
        columns=options.columns,
        aborted=fetched.aborted_transactions,
    )


def _behind_the_loss(client: WireClient, lost: OffsetRange, options: ScanOptions) -> int:
    tp = lost.topic_partition
    log_start = client.list_offsets([tp], EARLIEST)[tp]
    if log_start <= lost.start:
        raise OffsetOutOfRangeError(
            f"{tp} has no offset {lost.start}: it was never written, or the topic was deleted and made again"
        )
    said = (
        f"{tp}: offsets {lost.start} to {min(log_start, lost.end) - 1} were removed before they were read "
        f"(retention or delete-records; the log now starts at {log_start})"
    )
    if options.fail_on_data_loss:
        raise OffsetOutOfRangeError(f"{said}; set failOnDataLoss=false to go on without them")
    print(f"mainstem: {said}; going on without them", file=sys.stderr)  # noqa: T201 - a worker's only voice
    return min(log_start, lost.end)
