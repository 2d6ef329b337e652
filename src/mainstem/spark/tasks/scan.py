"""A task's reading: raw fetches, decoded natively into Arrow, from the first offset of a range to its end.

Closed segments of a log on this machine are read from its files (``local_segments``), the rest over the socket.

The whole range is read or an error says which offsets are missing and why. Gaps (compaction, transactions) are no loss;
only what lies before the log start offset is. Runs in Spark's Python workers; each call owns what it uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mainstem.client.wire.cluster.cluster import Isolation, WireClient
from mainstem.client.wire.cluster.damage import damage_at
from mainstem.client.wire.cluster.fetching import FetchedPartition
from mainstem.client.wire.cluster.stored_records import is_in_store
from mainstem.errors import CorruptBatchError, DamagedRecordsError, LogUnavailableError, OffsetOutOfRangeError
from mainstem.model import TopicPartition, topic_was_recreated
from mainstem.record.arrow_decode import decode
from mainstem.spark.options.options import LogOptions
from mainstem.spark.tasks.local_segments import read_local
from mainstem.spark.tasks.losses import lost_error, note, noticed, resume
from mainstem.spark.tasks.ranges import OffsetRange

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
    log: LogOptions | None = None
    """Where a loss is noted, in the name of ``reader``."""
    reader: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """The ids of the topics that the offsets belong to, as far as they are known."""
    is_table: bool = False
    skips_damaged: bool = False
    """Whether records that are in the log and cannot be read are skipped, and noted as a loss."""


def read_range(client: WireClient, wanted: OffsetRange, options: ScanOptions) -> Iterator[Any]:
    """The records of the range as Arrow record batches with ``options.columns``, in order.

    Raises OffsetOutOfRangeError for offsets that were removed (with ``fail_on_data_loss``), DamagedRecordsError for
    those that cannot be read (unless ``skips_damaged``), LogUnavailableError.
    """
    tp, offset, empty = wanted.topic_partition, wanted.start, 0
    if options.reads_files:
        committed = options.isolation is Isolation.READ_COMMITTED
        for decoded in read_local(client, wanted, options.columns, committed=committed):
            _require_same_topic_id(client, tp, options)
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
        _require_same_topic_id(client, tp, options)
        if isinstance(fetched.error, OffsetOutOfRangeError):
            offset = _after_the_loss(client, OffsetRange(tp, offset, wanted.end), options)
            continue
        if isinstance(fetched.error, DamagedRecordsError):
            offset = _after_the_damage(fetched.error, wanted, options)
            continue
        if fetched.error is not None:
            raise fetched.error
        try:
            decoded = _decode(fetched, tp, offset, wanted.end, options)
        except CorruptBatchError as error:
            offset = _after_the_damage(damage_at(tp, fetched, offset, error), wanted, options)
            continue
        if decoded.next_offset == offset:
            empty += 1
            if empty == _EMPTY_FETCHES_MAX:
                if is_in_store(client, tp, offset):
                    empty = 0  # the log loads it; should its store fail, it says so
                    continue
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


def _require_same_topic_id(client: WireClient, tp: TopicPartition, options: ScanOptions) -> None:
    """Detect a recreated topic: after a metadata refresh the client would continue with the new topic of that name."""
    planned, fetched = options.topic_ids.get(tp.topic), client.topics.get(tp.topic)
    if fetched is not None and topic_was_recreated(planned, fetched.topic_id):
        raise OffsetOutOfRangeError(
            f"topic {tp.topic} was deleted and recreated while it was read: its id was {planned}, it is "
            f"{fetched.topic_id} now; what is left to read of the former one is gone"
        )


def _after_the_damage(damage: DamagedRecordsError, wanted: OffsetRange, options: ScanOptions) -> int:
    """Where to go on after records that cannot be read. Raises ``damage`` where they are not to be skipped."""
    tp = damage.topic_partition
    if damage.last_offset is None or not options.skips_damaged:
        raise damage
    next_offset = min(damage.last_offset + 1, wanted.end)
    loss = noticed(options.reader, tp, damage.first_offset, next_offset, f"damaged: {damage.reason}", options.topic_ids)
    note(options.log, [loss])
    return next_offset


def _after_the_loss(client: WireClient, lost: OffsetRange, options: ScanOptions) -> int:
    """The offset to go on at after the next one was removed since the read was planned."""
    tp = lost.topic_partition
    moved = resume(client, options.reader, options.topic_ids, {tp: lost.start}, options.isolation)
    if not moved or moved[0].start <= lost.start:
        raise OffsetOutOfRangeError(
            f"{tp} has no offset {lost.start}: it was never written, or the topic was deleted and recreated"
        )
    next_offset = min(moved[0].start, lost.end)
    if options.is_table:  # records removed from its start no longer belong to the table
        return next_offset
    loss = replace(moved[0].loss, end=next_offset)
    if options.fail_on_data_loss:
        raise lost_error([loss], "Set failOnDataLoss=false to go on without them")
    note(options.log, [loss])
    return next_offset
