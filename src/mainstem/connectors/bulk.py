"""``BulkAppender``: append Arrow columns of keys and values to a topic, natively encoded.

Rows are split by their keys' partitions (as every other writer of the product splits them), encoded into record
batches without a step for each record in Python, and sent over ``client.wire`` by a few lanes, each a thread with a
connection of its own. A partition belongs to one lane, so its rows keep their order; batches carry a producer's stamp,
so that one whose answer got lost is sent again without standing in the log twice. Memory is bounded: a lane holds at
most a few batches. Used by one thread; ``finish`` returns only when everything is durable.

With a transactional producer all of it is part of that one's transaction, which is the caller's to end after
``finish``; then it goes on in the next.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.produce.producers import BatchStamps, init_producer_id
from mainstem.model import Position, TopicPartition
from mainstem.record.arrow_encode import encode
from mainstem.record.arrow_partition import partitions_for
from mainstem.record.constants import MAX_BATCH_BYTES, Compression
from mainstem.record.header import read_header

if TYPE_CHECKING:
    from types import TracebackType

    from mainstem.client.log import Log
    from mainstem.client.wire.produce.transactions import TransactionalProducer

_LANES_MAX = 2
_BATCHES_IN_FLIGHT_MAX = 4


@dataclass(frozen=True, slots=True)
class RecordFields:
    """The fields of records beside key and value, as columns of the same length; ``partitions``: each one's target.

    None: now, no headers, and a partition by the key.
    """

    timestamps_ms: pa.Array | None = None
    headers: pa.Array | None = None
    partitions: Any = None


NO_FIELDS: Final = RecordFields()


class BulkAppender:
    """A context manager; after an error nothing more is sent."""

    def __init__(self, log: Log, topic: str, transaction: TransactionalProducer | None = None) -> None:
        """Raises UnknownTopicError, LogUnavailableError."""
        described = log.describe_topic(topic)
        limit = described.configs.get("max.message.bytes")
        self._topic = topic
        self._partitions = described.info.partitions
        self._batch_bytes = min(int(limit), MAX_BATCH_BYTES) if limit else MAX_BATCH_BYTES
        self._transaction = transaction
        self._lanes = [_Lane(log, transaction) for _ in range(min(_LANES_MAX, self._partitions))]
        self._keyless = 0
        identity = self._lanes[0].run(init_producer_id).result() if transaction is None else transaction.identity
        self._stamps = BatchStamps(identity, is_transactional=transaction is not None)

    def append(self, keys: pa.Array | None, values: pa.Array, fields: RecordFields = NO_FIELDS) -> None:
        """Send rows on their way; returns when a lane has room. Raises what an earlier send failed with."""
        placed = fields.partitions
        split = self._split(keys, len(values)) if placed is None else self._by_partition(placed)
        if self._transaction is not None:
            self._join(self._transaction, [number for number, chosen in split if len(chosen)])
        now_ms = time.time_ns() // 1_000_000
        for partition, chosen in split:
            tp = TopicPartition(self._topic, partition)
            part_keys = None if keys is None else keys.take(chosen)
            batches = encode(
                part_keys,
                values.take(chosen),
                timestamps_ms=now_ms if fields.timestamps_ms is None else fields.timestamps_ms.take(chosen),
                headers=None if fields.headers is None else fields.headers.take(chosen),
                compression=Compression.LZ4,
                max_batch_bytes=self._batch_bytes,
                producer=self._stamps.next_stamp(tp),
            )
            self._stamps.advance(tp, len(chosen))
            for batch in batches:
                self._lanes[partition % len(self._lanes)].send(tp, batch)

    def _join(self, transaction: TransactionalProducer, partitions: list[int]) -> None:
        """Make partitions part of the transaction; a new epoch's sequences begin at 0."""
        transaction.add([TopicPartition(self._topic, number) for number in partitions])
        self._stamps.adopt(transaction.identity)

    def finish(self) -> Position:
        """Wait for everything; the position just after it. Raises the first error."""
        return Position.join(lane.finish() for lane in self._lanes)

    def _split(self, keys: pa.Array | None, count: int) -> list[tuple[int, Any]]:
        """(partition, the rows that go there), rows in order. Rows without a key go round in blocks."""
        if self._partitions == 1 or keys is None:
            partition = self._keyless % self._partitions
            self._keyless += 1
            return [(partition, np.arange(count))]
        return self._by_partition(partitions_for(keys, self._partitions))

    def _by_partition(self, assigned: Any) -> list[tuple[int, Any]]:
        return [(number, np.flatnonzero(assigned == number)) for number in range(self._partitions)]

    def __enter__(self) -> BulkAppender:
        return self

    def close(self) -> None:
        """Drop what is not sent, and disconnect."""
        for lane in self._lanes:
            lane.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Lane:
    """One thread with one connection; its batches go out one after the other."""

    def __init__(self, log: Log, transaction: TransactionalProducer | None) -> None:
        self._transaction = transaction
        self._client = WireClient(
            log.bootstrap, client_id="mainstem-load", timeout_s=log.timeout_s, security=log.security
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="append")
        self._in_flight: deque[Future[Position]] = deque()
        self._position = Position()

    def run(self, work: Any) -> Future[Any]:
        """Run ``work`` with the lane's client."""
        return self._thread.submit(work, self._client)

    def send(self, topic_partition: TopicPartition, batch: bytes) -> None:
        """Queue a batch; waits while too many are queued."""
        while len(self._in_flight) >= _BATCHES_IN_FLIGHT_MAX:
            self._position |= self._in_flight.popleft().result()
        self._in_flight.append(self._thread.submit(self._produce, topic_partition, batch))

    def finish(self) -> Position:
        """Wait for what is queued."""
        while self._in_flight:
            self._position |= self._in_flight.popleft().result()
        return self._position

    def close(self) -> None:
        """Drop what is queued, and disconnect."""
        self._thread.shutdown(cancel_futures=True)
        self._client.close()

    def _produce(self, topic_partition: TopicPartition, batch: bytes) -> Position:
        if self._transaction is None:
            base_offset = self._client.produce(topic_partition, batch)
        else:
            with self._transaction.explaining():
                base_offset = self._client.produce(
                    topic_partition, batch, transactional_id=self._transaction.transactional_id
                )
        next_offset = base_offset + read_header(batch).record_count
        return Position({topic_partition: next_offset})
