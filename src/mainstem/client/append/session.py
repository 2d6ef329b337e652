"""Append a few records at once, without librdkafka: an idempotent producer of its own over one wire client.

Why not librdkafka, which the bulk goes through: its idempotent producer takes half a second until its first record is
acknowledged, and this a few milliseconds.

Invariants: one batch is in flight at a time, so that sequence numbers follow from what was acknowledged. If a batch is
not acknowledged, the session drops its producer id, whatever the error was (except a failed condition): an earlier
attempt may have been appended while its answer was lost. The log would then take the next batch with the same sequence
for a repeat, and acknowledge records that it does not hold. The next append takes a new id. When the log is
unreachable, the error is LogUnavailableError for records that were certainly not appended, and OutcomeUnknownError for
those that may have been. Used by one thread at a time.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from uuid import UUID

from mainstem.client.records import EncodedRecord
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.metadata import recreated_topic
from mainstem.client.wire.connection.transport import NotConnectedError
from mainstem.client.wire.produce.producers import BatchStamps, init_producer_id
from mainstem.clock import Clock
from mainstem.errors import (
    ConditionFailedError,
    LogUnavailableError,
    OutcomeUnknownError,
    ProducerError,
    RecordTooLargeError,
    UnknownTopicError,
)
from mainstem.model import Position, TopicPartition, topic_was_recreated
from mainstem.record.partitioner import partition_for
from mainstem.record.writer import NewRecord, build_batch


class AppendSession:
    """One producer. The module's docstring has the contract."""

    def __init__(self, client: WireClient, clock: Clock) -> None:
        """Takes over ``client``."""
        self._client = client
        self._clock = clock
        self._stamps: BatchStamps | None = None
        self._has_appended = False
        self._topic_id: UUID | None = None

    def append(self, topic: str, records: Iterable[EncodedRecord], topic_id: UUID | None = None) -> Position:
        """Append records, in order for each partition; returns the position just after them, once they are durable.

        With ``topic_id`` only the topic with this id takes them.
        Raises UnknownTopicError, RecordTooLargeError, LogUnavailableError, OutcomeUnknownError, RemoteError; partitions
        before the one that failed have been appended to.
        """
        records = list(records)
        self._has_appended, self._topic_id = False, None
        try:
            try:
                return self._append_all(topic, records, topic_id)
            except UnknownTopicError:
                if self._has_appended or topic_id is not None or not self._was_recreated(topic):
                    raise
                return self._append_all(topic, records, None)  # the new topic may have another number of partitions
        except OutcomeUnknownError:
            raise
        except LogUnavailableError as error:
            if not self._has_appended:
                raise
            raise OutcomeUnknownError(f"{error}; a part of the records is appended") from error

    def close(self) -> None:
        self._client.close()

    def _append_all(self, topic: str, records: Sequence[EncodedRecord], wanted_id: UUID | None) -> Position:
        known = self._client.topics.get(topic)
        if known is not None and topic_was_recreated(wanted_id, known.topic_id):
            self._client.metadata([topic])  # the client's metadata may be older than the id, or newer
        by_partition = self._by_partition(topic, records)
        topic_id = self._topic_id = self._client.topics[topic].topic_id
        if topic_was_recreated(wanted_id, topic_id):
            raise recreated_topic(topic)
        return Position({tp: self._append(tp, rows, topic_id) for tp, rows in by_partition.items()})

    def _was_recreated(self, topic: str) -> bool:
        """Whether the topic has another id now than at the last try."""
        now = self._client.metadata([topic]).get(topic)
        return now is not None and topic_was_recreated(self._topic_id, now.topic_id)

    def _by_partition(self, topic: str, records: Iterable[EncodedRecord]) -> dict[TopicPartition, list[NewRecord]]:
        count = self._client.partition_count(topic)
        keyless, now_ms = random.randrange(count), self._clock.time_ms()
        rows: dict[TopicPartition, list[NewRecord]] = {}
        for record in records:
            partition = record.partition
            if partition is None:
                placed_by = record.placed_by if record.key is None else record.key
                partition = keyless if placed_by is None else partition_for(placed_by, count)
            timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
            row = NewRecord(record.key, record.value, record.headers, timestamp_ms)
            rows.setdefault(TopicPartition(topic, partition), []).append(row)
        return rows

    def _append(self, tp: TopicPartition, rows: Sequence[NewRecord], topic_id: UUID) -> int:
        """Append to one partition; returns the offset after the last record."""
        try:
            return self._produce(tp, rows, topic_id)
        except ProducerError:  # the log refused them: it does not know the producer, or no longer
            return self._produce(tp, rows, topic_id)
        except RecordTooLargeError:
            if len(rows) == 1:
                raise
            half = len(rows) // 2  # too many for one batch, though each may be small enough
            self._append(tp, rows[:half], topic_id)
            return self._append(tp, rows[half:], topic_id)

    def _produce(self, tp: TopicPartition, rows: Sequence[NewRecord], topic_id: UUID) -> int:
        stamps = self._stamps = self._stamps or BatchStamps(init_producer_id(self._client))
        try:
            batch = build_batch(rows, producer=stamps.next_stamp(tp))
            base_offset = self._client.produce(tp, batch, topic_id=topic_id)
        except ConditionFailedError:
            raise  # logs look for repeats before conditions: no attempt was appended, the sequence has not moved
        except BaseException as error:
            self._stamps = None
            if _may_be_appended(error):
                raise OutcomeUnknownError(f"it is not known whether the record was appended: {error}") from error
            raise
        self._has_appended = True
        stamps.advance(tp, len(rows))
        return base_offset + len(rows)


def _may_be_appended(error: BaseException) -> bool:
    """Whether a request or its response got lost, and ``error`` does not show that the record was not appended.

    A refusal of the record itself does show that.
    """
    if isinstance(error, LogUnavailableError):
        return not isinstance(error.__cause__ or error, NotConnectedError)
    is_silent = isinstance(error, UnknownTopicError | ProducerError) or getattr(error, "retriable", False)
    return is_silent and isinstance(error.__cause__, LogUnavailableError)
