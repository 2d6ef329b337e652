"""A writing task: Arrow columns into record batches, sent raw, acknowledged by all replicas. Runs in Spark's workers.

Keyed records go to the same partition as with Kafka's own clients (murmur2), so a key stays in one partition for every
writer. Records without a key go to the partitions in turn, a whole Arrow batch (or about 8 MB of it) to each. Batches
carry the producer's id, epoch and sequence: if a response gets lost and the batch is sent again, the log appends it
once.

``appending`` is at least once: a repeated task writes its records again. ``transactions.prepare`` is exactly once and
uses a ``TaskProducer``. A ``TaskAppender`` belongs to one task. The process keeps its idempotent producer for the next
task.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.ma  # loaded before any thread asks for it: see native_kernel
import pyarrow as pa

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.produce.produce_window import ProduceWindow
from mainstem.client.wire.produce.producers import BatchStamps, init_producer_id
from mainstem.errors import ConfigError, ProducerError, UnknownTopicError
from mainstem.model import Position, TopicPartition
from mainstem.record.constants import MAX_BATCH_BYTES, Compression
from mainstem.record.header import read_header
from mainstem.record.writer import ProducerStamp
from mainstem.spark.clients import borrowed
from mainstem.spark.options.options import LogOptions, WriteOptions
from mainstem.spark.per_process import PerProcess

_SLICE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Rows:
    """Records to append, as columns of equal length. All but ``values`` may be absent."""

    values: pa.Array
    keys: pa.Array | None = None
    headers: pa.Array | None = None
    partitions: pa.Array | None = None
    timestamps_ms: pa.Array | None = None

    def take(self, rows: Any) -> Rows:
        chosen = pa.array(rows)
        columns = (self.values, self.keys, self.headers, self.partitions, self.timestamps_ms)
        return Rows(*(None if column is None else column.take(chosen) for column in columns))

    def slice(self, start: int, count: int) -> Rows:
        columns = (self.values, self.keys, self.headers, self.partitions, self.timestamps_ms)
        return Rows(*(None if column is None else column.slice(start, count) for column in columns))


class StampSource:
    """Stamps a task's batches. This one is idempotent; ``TaskProducer`` is transactional."""

    transactional_id: str | None = None

    def __init__(self, stamps: BatchStamps) -> None:
        self.stamps = stamps

    def stamp(self, client: WireClient, tp: TopicPartition) -> ProducerStamp:
        """The stamp of a partition's next batch; it may send a request."""
        return self.stamps.next_stamp(tp)

    def asks_before(self, tp: TopicPartition) -> bool:
        """Whether ``stamp`` sends a request before the first records of a partition."""
        return False

    def renews(self, client: WireClient) -> bool:
        """Whether the first batches, if the log refused them, may be sent again with a new identity."""
        return False


_IDLE: PerProcess[dict[LogOptions, StampSource]] = PerProcess(dict)


@contextmanager
def appending(options: WriteOptions) -> Iterator[TaskAppender]:
    """Append as one task, at least once. An error drops the producer, because its next sequence number is unknown."""
    idle = _IDLE.value
    with borrowed(options.log) as client:
        producer = idle.pop(options.log, None) or StampSource(BatchStamps(init_producer_id(client)))
        out = TaskAppender(client, options, producer)
        yield out
        out.finish()
        idle[options.log] = producer


class TaskAppender:
    """Appends to any topic. ``records`` says how many were appended.

    ``begin`` and ``position`` are where the acknowledged records begin and end, in the partitions that have any.
    """

    def __init__(
        self,
        client: WireClient,
        options: WriteOptions,
        producer: StampSource,
        turn: int | None = None,
    ) -> None:
        """``turn``: the number of the partition, in any topic, that gets the first records without a key."""
        self._client = client
        self._compression = _compression(options.compression)
        self._batch_bytes_max = options.batch_bytes_max or MAX_BATCH_BYTES
        self._producer = producer
        self._window = ProduceWindow(client, self._acknowledged, transactional_id=producer.transactional_id)
        self._is_proved = False
        """Whether the log has accepted a batch of this producer. Until then the first batches are sent alone."""
        self._partition_counts: dict[str, int] = {}
        self._turns = itertools.count(os.getpid() if turn is None else turn)
        self.begin = Position()
        self.position = Position()
        self.records = 0

    def append(self, topic: str, rows: Rows) -> None:
        """Append the rows; they are durable when ``finish`` returns. Raises UnknownTopicError, ProducerError."""
        count = self._partition_count(topic)
        for part in _slices(rows):
            numbers = self._numbers(part, count)
            chosen: dict[TopicPartition, Rows] = {}
            for number in np.unique(numbers).tolist():
                if not 0 <= number < count:
                    raise UnknownTopicError(f"topic {topic} has no partition {number}; it has {count}")
                only = count == 1
                chosen[TopicPartition(topic, number)] = part if only else part.take(np.flatnonzero(numbers == number))
            self._send(chosen)
            self.records += len(part.values)

    def finish(self) -> None:
        """Wait until all appended records are durable."""
        self._window.drain()

    def abandon(self) -> None:
        """Stop waiting for acknowledgements: the last records may or may not be in the log."""
        self._window.abandon()

    def _numbers(self, rows: Rows, count: int) -> Any:
        """The partition of each row."""
        turn = next(self._turns) % count
        if rows.keys is None:
            numbers = np.full(len(rows.values), turn, np.int32)
        else:
            from mainstem.record.arrow_partition import partitions_for  # as below

            numbers = np.asarray(partitions_for(rows.keys, count))
            numbers[numbers < 0] = turn
        if rows.partitions is not None:
            given = rows.partitions.fill_null(-1).to_numpy(zero_copy_only=False)
            numbers = np.where(rows.partitions.is_valid().to_numpy(zero_copy_only=False), given, numbers)
        return numbers

    def _send(self, parts: Mapping[TopicPartition, Rows]) -> None:
        if any(self._producer.asks_before(tp) for tp in parts):
            self._window.drain()  # the window uses the client until it is empty
        waves = self._encoded(parts)
        if not self._is_proved:
            try:
                self._window.send(waves[0])
                self._window.drain()
            except ProducerError:
                if not self._producer.renews(self._client):
                    raise
                waves = self._encoded(parts)
                self._window.send(waves[0])
                self._window.drain()
            self._is_proved = True
            del waves[0]
        for wave in waves:
            self._window.send(wave)

    def _encoded(self, parts: Mapping[TopicPartition, Rows]) -> list[dict[TopicPartition, bytes]]:
        """The record batches in waves: the first batch of each partition, then the second ones, and so on."""
        from mainstem.record.arrow_encode import encode  # for tasks alone: planners and commits are short-lived

        waves: list[dict[TopicPartition, bytes]] = []
        now_ms = time.time_ns() // 1_000_000
        for tp, rows in parts.items():
            batches = encode(
                rows.keys,
                rows.values,
                timestamps_ms=rows.timestamps_ms if rows.timestamps_ms is not None else now_ms,
                headers=rows.headers,
                compression=self._compression,
                max_batch_bytes=self._batch_bytes_max,
                producer=self._producer.stamp(self._client, tp),
            )
            self._producer.stamps.advance(tp, len(rows.values))
            for number, batch in enumerate(batches):
                if number == len(waves):
                    waves.append({})
                waves[number][tp] = batch
        return waves

    def _acknowledged(self, tp: TopicPartition, batch: bytes, base_offset: int) -> None:
        if tp not in self.position:  # a partition's batches are acknowledged in their order
            self.begin |= Position({tp: base_offset})
        self.position |= Position({tp: base_offset + read_header(batch).record_count})

    def _partition_count(self, topic: str) -> int:
        """The topic's number of partitions, at most a minute old. It stays the same for the whole task."""
        if topic not in self._partition_counts:
            self._window.drain()
            try:
                self._partition_counts[topic] = self._client.partition_count(topic)
            except UnknownTopicError as error:
                raise UnknownTopicError(f"there is no topic {topic}; create it before writing to it") from error
        return self._partition_counts[topic]


def _slices(rows: Rows) -> Iterator[Rows]:
    """The rows in parts of about 8 MB: this bounds the memory of encoding, which overlaps with sending."""
    columns = (rows.values, rows.keys, rows.headers)
    size = sum(column.nbytes for column in columns if column is not None)
    step = max(1, len(rows.values) * _SLICE_BYTES // max(size, 1))
    for start in range(0, len(rows.values), step):
        yield rows.slice(start, step) if step < len(rows.values) else rows


def _compression(name: str) -> Compression:
    try:
        return Compression[name.upper()]
    except KeyError as error:
        known = ", ".join(codec.name.lower() for codec in Compression)
        raise ConfigError(f"option kafka.compression.type: unknown codec {name!r}: use one of {known}") from error
