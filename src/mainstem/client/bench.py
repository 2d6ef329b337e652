"""Measure a log through librdkafka, as most clients reach it: produce, consume, and end-to-end latency.

Three phases over a topic of its own, which is deleted afterwards: produce with ``acks=all`` (on Mainstem that includes
the fsync), consume the same records again, and then one record at a time from ``produce`` to the consumer that waits
for it. Each phase ends at its number of records or at ``phase_s_max``, whichever comes first; rates are over what was
really acknowledged or received. One thread.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from mainstem.client.append.librdkafka import LIBRDKAFKA_LOG
from mainstem.client.failures import error_of
from mainstem.client.log import Log
from mainstem.client.security import Security
from mainstem.errors import ConfigError, LogUnavailableError
from mainstem.model import Position

OnPhase: TypeAlias = Callable[[str], None]
_POLL_S: Final = 0.1
_TAKE: Final = 10_000
_SERVE_EVERY: Final = 1_000


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How much to measure, and how long to wait for the log. Raises ConfigError for an invalid number."""

    records: int = 200_000
    record_bytes: int = 1_000
    latency_records: int = 1_000
    partitions: int = 1
    phase_s_max: float = 30.0
    timeout_s: float = 30.0
    topic_configs: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for name in ("records", "record_bytes", "latency_records", "partitions", "phase_s_max", "timeout_s"):
            value = getattr(self, name)
            if value <= 0:
                raise ConfigError(f"{name}={value}: it has to be over 0")


@dataclass(frozen=True, slots=True)
class Rate:
    """So many records of one size in so many seconds."""

    records: int
    record_bytes: int
    seconds: float

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        return self.records_per_second * self.record_bytes / 1e6

    def to_json(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.records_per_second),
            "megabytes_per_second": round(self.megabytes_per_second, 1),
        }


@dataclass(frozen=True, slots=True)
class Latency:
    """End to end, one record at a time, in milliseconds."""

    records: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    def to_json(self) -> dict[str, Any]:
        return {name: round(value, 3) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class BenchResult:
    """The measured values."""

    produce: Rate
    consume: Rate
    latency: Latency

    def to_json(self) -> dict[str, Any]:
        return {
            "record_bytes": self.produce.record_bytes,
            "produce": self.produce.to_json(),
            "consume": self.consume.to_json(),
            "latency": self.latency.to_json(),
        }


def bench(bootstrap: str, options: BenchOptions | None = None, on_phase: OnPhase | None = None) -> BenchResult:
    """Measure the log at ``bootstrap``; ``on_phase`` is called with the name of each phase as it begins.

    Raises LogUnavailableError, and the log's error when it refuses a record.
    """
    options = options or BenchOptions()
    tell = on_phase or (lambda phase: None)
    topic = f"mainstem-bench-{uuid.uuid4().hex[:12]}"
    with Log(bootstrap, timeout_s=options.timeout_s) as log:
        log.create_topic(topic, partitions=options.partitions, configs=options.topic_configs)
        try:
            tell("produce")
            produced = _produce(bootstrap, topic, options)
            tell("consume")
            consumed = _consume(bootstrap, log.beginning(topic), produced.records, options)
            tell("latency")
            end = log.end(topic)
            return BenchResult(produced, consumed, _latency(bootstrap, end, options))
        finally:
            log.delete_topic(topic)


class _Refused:
    """Delivery reports of what was not acknowledged; librdkafka reports nothing else to it."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self.error = self.error or error

    def check(self) -> None:
        if self.error is not None:
            raise error_of(self.error.code(), "the log refuses a record", self.error.str())


def _producer(bootstrap: str, linger_ms: int, timeout_s: float) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            **Security.from_environment().to_librdkafka(),
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            "delivery.report.only.error": True,
            "delivery.timeout.ms": max(1_000, int(timeout_s * 1000)),
        },
        logger=LIBRDKAFKA_LOG,
    )


def _consumer(bootstrap: str, start: Position) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            **Security.from_environment().to_librdkafka(),
            "group.id": "mainstem-bench",
            "enable.auto.commit": False,
            "check.crcs": True,
            # Else it pauses for a second whenever it has fetched more than it has handed out, and that is measured.
            "fetch.queue.backoff.ms": 1,
        },
        logger=LIBRDKAFKA_LOG,
    )
    consumer.assign([TopicPartition(tp.topic, tp.partition, offset) for tp, offset in start.items()])
    return consumer


def _produce(bootstrap: str, topic: str, options: BenchOptions) -> Rate:
    producer, refused = _producer(bootstrap, 5, options.timeout_s), _Refused()
    value = (bytes(range(251)) * (options.record_bytes // 251 + 1))[: options.record_bytes]
    try:
        producer.produce(topic, value, on_delivery=refused)
    except KafkaException as error:  # librdkafka itself refuses a record over its message.max.bytes
        reason: KafkaError = error.args[0]
        raise error_of(
            reason.code(), f"a record of {options.record_bytes:,} bytes cannot be sent", reason.str()
        ) from error
    producer.flush(options.timeout_s)  # connecting is not what is measured
    begin_s, sent = time.perf_counter(), 0
    while sent < options.records and time.perf_counter() - begin_s < options.phase_s_max:
        try:
            for _ in range(min(_SERVE_EVERY, options.records - sent)):
                producer.produce(topic, value, on_delivery=refused, partition=sent % options.partitions)
                sent += 1
            producer.poll(0)
        except BufferError:
            producer.poll(_POLL_S)
        refused.check()
    left = producer.flush(options.timeout_s)
    seconds = time.perf_counter() - begin_s
    refused.check()
    if left:
        raise LogUnavailableError(f"{left} of {sent} records were not acknowledged within {options.timeout_s:g} s")
    return Rate(sent, options.record_bytes, seconds)


def _consume(bootstrap: str, start: Position, records: int, options: BenchOptions) -> Rate:
    consumer = _consumer(bootstrap, start)
    try:
        first = consumer.poll(options.timeout_s)  # connecting is not what is measured
        if first is None:
            raise LogUnavailableError(f"no record arrived within {options.timeout_s:g} s")
        begin_s, received = time.perf_counter(), 1
        while received < records and time.perf_counter() - begin_s < options.phase_s_max:
            messages = consumer.consume(min(_TAKE, records - received), _POLL_S)
            for message in messages:
                _check(message)
            received += len(messages)
        return Rate(received, options.record_bytes, time.perf_counter() - begin_s)
    finally:
        consumer.close()


def _latency(bootstrap: str, end: Position, options: BenchOptions) -> Latency:
    producer, refused = _producer(bootstrap, 0, options.timeout_s), _Refused()
    consumer, [topic] = _consumer(bootstrap, end), end.topics
    value, latencies_ms = bytes(options.record_bytes), list[float]()
    try:
        _round_trip(producer, consumer, topic, value, refused, options)  # both ends connect
        begin_s = time.perf_counter()
        while len(latencies_ms) < options.latency_records and time.perf_counter() - begin_s < options.phase_s_max:
            latencies_ms.append(_round_trip(producer, consumer, topic, value, refused, options) * 1000)
    finally:
        consumer.close()
    latencies_ms.sort()
    return Latency(len(latencies_ms), _quantile(latencies_ms, 0.5), _quantile(latencies_ms, 0.99), latencies_ms[-1])


def _round_trip(
    producer: Producer, consumer: Consumer, topic: str, value: bytes, refused: _Refused, options: BenchOptions
) -> float:
    """Seconds from ``produce`` to the consumer's hands."""
    begin_s = time.perf_counter()
    producer.produce(topic, value, on_delivery=refused, partition=0)
    while time.perf_counter() - begin_s < options.timeout_s:
        message = consumer.poll(_POLL_S)
        if message is not None:
            seconds = time.perf_counter() - begin_s
            _check(message)
            producer.poll(0)
            return seconds
        producer.poll(0)
        refused.check()
    raise LogUnavailableError(f"a record was not read back within {options.timeout_s:g} s")


def _check(message: Message) -> None:
    error = message.error()
    if error is not None:
        raise error_of(error.code(), "the log cannot be consumed", error.str())


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
