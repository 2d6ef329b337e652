"""Topics with all that a reader may meet, made through real clients on any log: for tests that compare readers.

``codecs``: every codec, with and without keys, values and headers. ``times``: stamped by the log. ``transactions``:
two producers of librdkafka whose transactions interleave, commit and abort, beside one without, and one that is still
open. ``compacted``: the last records of a few keys and tombstones among many that are gone, so that offsets have gaps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.model import TopicPartition
from mainstem.record.constants import Compression
from mainstem.record.writer import NewRecord, build_batch

TOPICS = ("codecs", "times", "transactions", "compacted")
SETTINGS = {"log.cleaner.backoff.ms": "100"}
"""Of the log, so that it compacts soon."""
_COMPACTED = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
_KEYS = 7
_RECORDS = 330
# Of 10 kB each: what a segment of 1 MiB holds at most, tombstones among them, and one of each key.
_RECORDS_LEFT_MAX = 130
_DEADLINE_S = 90.0


@contextmanager
def varied_topics(bootstrap: str) -> Iterator[None]:
    """The topics, as long as the block runs."""
    with Log(bootstrap) as log:
        log.create_topic("codecs", partitions=2, configs={"retention.ms": "-1"})
        log.create_topic("times", configs={"message.timestamp.type": "LogAppendTime"})
        log.create_topic("transactions", partitions=2)
        log.create_topic("compacted", configs=_COMPACTED)
        _codecs(bootstrap)
        log.append_many("times", [b"v%d" % n for n in range(300)])
        _compact(log)
        with _transactions(bootstrap):
            yield


def _codecs(bootstrap: str) -> None:
    with WireClient(bootstrap) as client:
        for number, codec in enumerate(Compression):
            records = [
                NewRecord(
                    None if n % 3 == 0 else f"key-{n}".encode(),
                    None if n % 5 == 0 else bytes([n]) * n,
                    () if n % 4 == 0 else (("name", b"value"), ("name", None), ("héàder", b"")),
                    1_700_000_000_000 + n,
                )
                for n in range(200)
            ]
            client.produce(TopicPartition("codecs", number % 2), build_batch(records, compression=codec))


@contextmanager
def _transactions(bootstrap: str) -> Iterator[None]:
    """Each producer's transactions last two steps; the other's begin in between. The last one stays open."""
    plain = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "transaction.timeout.ms": 15 * 60 * 1000}
    producers = [Producer({**settings, "transactional.id": f"varied-{number}"}) for number in range(2)]
    for producer in producers:
        producer.init_transactions(_DEADLINE_S)
    for step in range(12):
        for number, producer in enumerate(producers[: step + 1]):
            turn, is_second = divmod(step - number, 2)
            if not is_second:
                producer.begin_transaction()
            _produce(producer, b"%d-%d" % (number, step))
            if is_second:
                end = producer.abort_transaction if turn % 2 == number else producer.commit_transaction
                end(_DEADLINE_S)
        _produce(plain, b"plain-%d" % step)
    yield
    producers[1].abort_transaction(_DEADLINE_S)


def _produce(producer: Producer, value: bytes) -> None:
    for partition in range(2):
        producer.produce("transactions", value=value, partition=partition)
    assert producer.flush(_DEADLINE_S) == 0


def _compact(log: Log) -> None:
    """Fill three segments, and wait until the closed ones hold one record of each key: it stays so from then on."""
    producer = Producer({"bootstrap.servers": log.bootstrap, "batch.num.messages": 5, "linger.ms": 5})
    for number in range(_RECORDS):
        value = None if number % 11 == 3 else b"%05d" % number * 2000
        producer.produce("compacted", key=b"%d" % (number % _KEYS), value=value)
    assert producer.flush(_DEADLINE_S) == 0
    deadline = time.monotonic() + _DEADLINE_S
    while (left := sum(1 for _ in log.read("compacted"))) > _RECORDS_LEFT_MAX:
        assert time.monotonic() < deadline, f"{left} records are left"
