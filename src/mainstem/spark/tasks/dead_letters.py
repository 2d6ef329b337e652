"""Records whose value does not parse, appended to a topic of their own: where they came from, and what was wrong.

A dead letter has its record's key, value and headers, and after them those of ``client.dead_letter_headers``. It is in
the partition with its record's number, modulo the number of partitions. Dead letters are appended during reads, and
Spark may read a range again: a task that failed, a micro-batch after a crash, each action on a batch's DataFrame. Each
dead letter has the idempotency key ``TOPIC-ID/PARTITION/OFFSET``. A topic with ``mainstem.idempotency.window.ms``, as
Mainstem creates it, does not append a repeat within the window; Apache Kafka appends it again: at least once.

Functions of a task, which owns the client; ``create`` is the driver's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from mainstem.client.append.append_options import IDEMPOTENCY_WINDOW
from mainstem.client.dead_letter_headers import dead_letter_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import ConfigError, InvalidRecordError
from mainstem.model import TopicPartition
from mainstem.record.append_headers import IDEMPOTENCY_KEY
from mainstem.record.writer import NewRecord, build_batch
from mainstem.spark.clients import opened
from mainstem.spark.options.options import LogOptions

_WINDOW_MS: Final = 7 * 24 * 3600 * 1000
_RECORDS_MAX: Final = 200
_BYTES_MAX: Final = 512 * 1024


def create(log: LogOptions, topic: str) -> None:
    """Make the topic, unless it is there: on Mainstem so that a repeat is known. Raises what the log says."""
    with opened(log) as client:
        if topic in client.topics():
            return
        try:
            client.create_topic(topic, configs={IDEMPOTENCY_WINDOW: str(_WINDOW_MS)}, exist_ok=True)
        except ConfigError:
            client.create_topic(topic, exist_ok=True)  # Apache Kafka knows no such config


def bury(client: WireClient, topic: str, place: TopicPartition, letters: Sequence[dict[str, Any]]) -> None:
    """Append records of ``place`` as dead letters, durably.

    ``letters`` are rows of a record's columns, with ``error`` beside them. Raises UnknownTopicError,
    RecordTooLargeError, LogUnavailableError.
    """
    topic_id = client.metadata([place.topic])[place.topic].topic_id
    target = TopicPartition(topic, place.partition % client.partition_count(topic))
    for records in _batches(letters, topic_id, place):
        try:
            client.produce(target, build_batch(records))
        except InvalidRecordError:
            # Some are in the log already, not all, or not in this order: each is asked for by itself.
            for record in records:
                client.produce(target, build_batch([record]))


def _batches(letters: Sequence[dict[str, Any]], topic_id: UUID, place: TopicPartition) -> Iterator[list[NewRecord]]:
    records: list[NewRecord] = []
    size = 0
    for letter in letters:
        record = _record(letter, topic_id, place)
        size += len(record.key or b"") + len(record.value or b"")
        if records and (len(records) == _RECORDS_MAX or size > _BYTES_MAX):
            yield records
            records, size = [], 0
        records.append(record)
    if records:
        yield records


def _record(letter: dict[str, Any], topic_id: UUID, place: TopicPartition) -> NewRecord:
    own = [(header["key"], header["value"]) for header in letter["headers"] or () if header["key"] != IDEMPOTENCY_KEY]
    timestamp_ms = str(round(letter["timestamp"].timestamp() * 1000))
    said = dead_letter_of(letter["error"], place, letter["offset"], timestamp=timestamp_ms)
    headers = (*own, *said, (IDEMPOTENCY_KEY, f"{topic_id}/{place.partition}/{letter['offset']}".encode()))
    # With the time of its record, retention would remove the dead letters of old records at once.
    return NewRecord(letter["key"], letter["value"], headers, time.time_ns() // 1_000_000)
