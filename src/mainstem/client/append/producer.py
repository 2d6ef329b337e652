"""Bulk appends over librdkafka: idempotent, ``acks=all``, delivery reports turned into positions and errors.

Invariants: a record counts as appended only when its delivery report says so, and then it has its offset; memory for
records in flight is bounded by librdkafka's queue, and ``send`` waits when it is full. Delivery reports are served by
the threads that send and wait, one at a time; there is no thread of its own. Thread-safe.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mainstem.client.append.librdkafka import LIBRDKAFKA_LOG
from mainstem.client.failures import error_of
from mainstem.client.records import EncodedRecord
from mainstem.client.security import Security
from mainstem.client.wire.connection.deadline import Deadline
from mainstem.clock import Clock
from mainstem.errors import LogUnavailableError, MainstemError
from mainstem.model import Position, TopicPartition

BATCH_BYTES_MAX: Final = 1_000_000
_POLL_S: Final = 0.05
_LAST_RESORT_S: Final = 5.0  # librdkafka reports a time-out of its own long before
_MESSAGE_BYTES_MAX: Final = 1_000_000_000
_LINGER_MS: Final = 5


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """Which log, as whom, and how long to wait for it."""

    bootstrap: str
    client_id: str = "mainstem"
    timeout_s: float = 30.0
    security: Security = field(default_factory=Security)

    def to_librdkafka(self, batch_bytes: int) -> dict[str, Any]:
        """Librdkafka's own words for it; no batch is larger than ``batch_bytes``, unless a single record is."""
        timeout_ms = max(1, int(self.timeout_s * 1000))
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.client_id,
            **self.security.to_librdkafka(),
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": "murmur2_random",  # as `record.partitioner`; librdkafka's own default is CRC32
            "linger.ms": _LINGER_MS,
            "batch.size": batch_bytes,
            "message.max.bytes": _MESSAGE_BYTES_MAX,  # the broker knows the limit
            "queue.buffering.max.messages": 100_000,
            "queue.buffering.max.kbytes": 64 * 1024,
            "delivery.timeout.ms": timeout_ms,
            "request.timeout.ms": min(30_000, timeout_ms),
            "topic.metadata.propagation.max.ms": min(5_000, timeout_ms),
            "socket.nagle.disable": True,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 1000,
        }


@dataclass(slots=True)
class Appended:
    """The records of one call: how many were sent and delivered, their position, and the first error.

    The sending thread writes ``sent``. The thread that serves delivery reports, one at a time, writes all else.
    """

    sent: int = 0
    delivered: int = 0
    error: KafkaError | None = None
    next_offsets: dict[TopicPartition, int] = field(default_factory=dict)

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Librdkafka's delivery report of one record."""
        self.delivered += 1
        if error is not None:
            self.error = self.error or error
            return
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or offset is None:
            raise AssertionError("a delivered record has its place")
        tp = TopicPartition(topic, partition)
        if offset >= self.next_offsets.get(tp, 0):
            self.next_offsets[tp] = offset + 1


class BulkProducer:
    """One librdkafka producer. The module's docstring has the contract."""

    def __init__(self, options: ProducerOptions, clock: Clock, batch_bytes: int) -> None:
        self.is_broken = False
        """Whether librdkafka has given up on this producer: make another."""
        self._options = options
        self._clock = clock
        self._producer = Producer(options.to_librdkafka(batch_bytes), logger=LIBRDKAFKA_LOG)
        self._serving = threading.Lock()

    def send(self, topic: str, record: EncodedRecord, appended: Appended) -> None:
        """Hand a record to librdkafka; waits while its queue is full. ``appended`` hears of its delivery."""
        options: dict[str, Any] = {}
        if record.partition is not None:
            options["partition"] = record.partition
        if record.timestamp_ms is not None:
            options["timestamp"] = record.timestamp_ms
        if record.headers:
            options["headers"] = list(record.headers)
        appended.sent += 1
        while True:
            try:
                self._producer.produce(topic, record.value, record.key, on_delivery=appended.report, **options)
                return
            except BufferError:
                self.serve(_POLL_S)
            except KafkaException as failure:
                appended.sent -= 1
                raise self._error(failure.args[0], topic) from failure

    def serve(self, timeout_s: float = 0.0) -> None:
        """Serve the delivery reports that are there; wait up to ``timeout_s`` for one."""
        with self._serving:
            self._producer.poll(timeout_s)

    def wait(self, appended: Appended, topic: str) -> Position:
        """Send what lingers, and wait until all records of ``appended`` are delivered.

        Returns their position, or raises the first error.
        """
        deadline = Deadline(self._clock, self._options.timeout_s + _LAST_RESORT_S)
        while appended.delivered < appended.sent:
            if deadline.is_over:
                raise LogUnavailableError(f"the log did not answer within {self._options.timeout_s:g} s")
            with self._serving:
                self._producer.flush(_POLL_S)
        if appended.error is not None:
            raise self._error(appended.error, topic)
        return Position(appended.next_offsets)

    def close(self, timeout_s: float) -> None:
        """Deliver what was sent. Raises LogUnavailableError when the time is over before all of it is delivered."""
        with self._serving:
            left = self._producer.flush(timeout_s)
        if left:
            raise LogUnavailableError(f"{left} records were not acknowledged within {timeout_s:g} s")

    def _error(self, error: KafkaError, topic: str) -> MainstemError:
        if error.fatal():
            self.is_broken = True
        return error_of(error.code(), f"a record cannot be appended to {topic!r}", error.str())
