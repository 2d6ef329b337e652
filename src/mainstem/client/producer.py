"""Durable appends over librdkafka: idempotent, ``acks=all``, delivery reports turned into positions and errors.

Two producers share this code: one sends at once (a single append waits for nothing but the log), one lingers a few
milliseconds so that many records travel in few batches.

Invariants: a record counts as appended only when its delivery report says so, and then it has its offset; memory for
records in flight is bounded by librdkafka's queue, and ``send`` waits when it is full. Delivery reports are served by
the threads that wait for them; there is no thread of its own. Thread-safe.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mainstem.client.failures import error_of
from mainstem.client.librdkafka import LOGGER
from mainstem.client.partitioner import LIBRDKAFKA_NAME
from mainstem.client.records import EncodedRecord
from mainstem.client.wire.deadline import Deadline
from mainstem.clock import Clock
from mainstem.errors import LogUnavailableError, MainstemError
from mainstem.model import Position, TopicPartition

_POLL_S: Final = 0.05
_LAST_RESORT_S: Final = 5.0  # librdkafka reports a time-out of its own long before
BATCH_BYTES_MAX: Final = 1_000_000
_MESSAGE_BYTES_MAX: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """How a producer sends. ``batch_bytes`` keeps batches under a topic's ``max.message.bytes``."""

    bootstrap: str
    timeout_s: float = 30.0
    linger_ms: float = 0.0
    batch_bytes: int = BATCH_BYTES_MAX
    client_id: str = "mainstem"

    def to_librdkafka(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.client_id,
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": LIBRDKAFKA_NAME,
            "linger.ms": self.linger_ms,
            "batch.size": self.batch_bytes,
            "message.max.bytes": _MESSAGE_BYTES_MAX,  # the broker knows the limit, and its answer names it
            "queue.buffering.max.messages": 100_000,
            "queue.buffering.max.kbytes": 64 * 1024,
            "delivery.timeout.ms": max(1, int(self.timeout_s * 1000)),
            "request.timeout.ms": max(1, min(30_000, int(self.timeout_s * 1000))),
            "socket.nagle.disable": True,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 1000,
            "topic.metadata.propagation.max.ms": min(5_000, int(self.timeout_s * 1000)),
        }


@dataclass(slots=True)
class Appended:
    """The records of one call: how many were sent and delivered, how far they reach, what failed first.

    ``sent`` is written by the thread that sends; all else by whoever serves delivery reports, one thread at a time.
    """

    sent: int = 0
    delivered: int = 0
    error: KafkaError | None = None
    next_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    changed: threading.Event = field(default_factory=threading.Event)

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Librdkafka's delivery report of one record."""
        if error is not None:
            self.error = self.error or error
        else:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            if topic is None or partition is None or offset is None:
                raise AssertionError("a delivered record has its place")
            tp, next_offset = TopicPartition(topic, partition), offset + 1
            if next_offset > self.next_offsets.get(tp, 0):
                self.next_offsets[tp] = next_offset
        self.delivered += 1
        if self.is_complete:
            self.changed.set()

    @property
    def is_complete(self) -> bool:
        return self.delivered == self.sent


class DurableProducer:
    """One librdkafka producer; see the module's docstring for its contract."""

    def __init__(self, options: ProducerOptions, clock: Clock) -> None:
        self.is_broken = False
        """Whether librdkafka has given up on this producer: make another."""
        self._options = options
        self._clock = clock
        self._producer = Producer(options.to_librdkafka(), logger=LOGGER)
        self._serving = threading.Lock()
        self._waiters: dict[int, Appended] = {}

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

    def wait(self, appended: Appended, topic: str, *, flush: bool = False) -> Position:
        """Wait until all records of ``appended`` are delivered; returns their position, or raises the first error.

        Of the threads that wait one serves the reports of all; when its own are there, another takes over. ``flush``
        sends at once what lingers.
        """
        deadline = Deadline(self._clock, self._options.timeout_s + _LAST_RESORT_S)
        self._waiters[id(appended)] = appended
        try:
            while not appended.is_complete:
                if deadline.is_over:
                    raise LogUnavailableError(f"the log did not answer within {self._options.timeout_s:g} s")
                if self._serving.acquire(blocking=False):
                    self._serve_until_complete(appended, deadline, flush=flush)
                else:
                    appended.changed.wait(_POLL_S)
                    appended.changed.clear()
        finally:
            del self._waiters[id(appended)]
        if appended.error is not None:
            raise self._error(appended.error, topic)
        return Position(appended.next_offsets)

    def close(self, timeout_s: float) -> None:
        """Deliver what was sent. Raises LogUnavailableError when the time is over before all of it is delivered."""
        with self._serving:
            left = self._producer.flush(timeout_s)
        if left:
            raise LogUnavailableError(f"{left} records were not acknowledged within {timeout_s:g} s")

    def _serve_until_complete(self, appended: Appended, deadline: Deadline, *, flush: bool) -> None:
        """With the serving lock held, which it gives up; then wakes a thread that still waits."""
        wait = self._producer.flush if flush else self._producer.poll
        try:
            while not appended.is_complete and not deadline.is_over:
                wait(_POLL_S)
        finally:
            self._serving.release()
            for other in list(self._waiters.values()):
                if not other.is_complete:
                    other.changed.set()
                    break

    def _error(self, error: KafkaError, topic: str) -> MainstemError:
        if error.fatal():
            self.is_broken = True
        return error_of(error.code(), f"a record cannot be appended to {topic!r}", error.str())
