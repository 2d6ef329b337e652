"""Foreign clients read compacted logs: neither batches without records nor gaps within batches stop any of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from tests.broker.harness import LogProcess

RECORDS, KEYS = 300, 7
DEADLINE_S = 90.0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogProcess]:
    """A compacted topic whose last records alone are of any worth, and that is all but empty before them."""
    settings = {
        "log_cleanup_policy": "compact",
        "log_segment_bytes": "3000",
        "log_cleaner_backoff_ms": "50",
        "log_cleaner_min_cleanable_ratio": "0.01",
    }
    path: Path = tmp_path_factory.mktemp("compacted") / "data"
    process = LogProcess(path, **settings).start()
    producer = Producer({"bootstrap.servers": process.bootstrap, "enable.idempotence": True, "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce("t", key=b"%d" % (number % KEYS), value=b"%d" % number * 10)
        if number % 3 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0
    yield process
    process.kill()


def with_confluent_kafka(bootstrap: str) -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "c", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["t"])
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + DEADLINE_S
    while not found or found[-1][0] < RECORDS - 1:
        assert time.monotonic() < deadline, found
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append((message.offset(), message.key()))
    consumer.close()
    return found


def with_kafka_python(bootstrap: str) -> list[tuple[int, bytes]]:
    consumer = KafkaConsumer(
        "t",
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        group_id=None,
        fetch_max_bytes=1024,
        max_partition_fetch_bytes=100,
    )
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + DEADLINE_S
    while not found or found[-1][0] < RECORDS - 1:
        assert time.monotonic() < deadline, found
        for records in consumer.poll(timeout_ms=1000).values():
            found += [(record.offset, record.key) for record in records]
    consumer.close()
    return found


@pytest.mark.parametrize("read", [with_confluent_kafka, with_kafka_python])
def test_a_client_reads_the_latest_of_each_key_across_what_is_gone(
    log: LogProcess, read: Callable[[str], list[tuple[int, bytes]]]
) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while len(found := read(log.bootstrap)) > RECORDS // 3:
        assert time.monotonic() < deadline, f"{len(found)} records are left"
    assert [offset for offset, _ in found] == sorted({offset for offset, _ in found})
    assert {offset for offset, _ in found} >= set(range(RECORDS - KEYS, RECORDS))
    assert all(key == b"%d" % (offset % KEYS) for offset, key in found)
