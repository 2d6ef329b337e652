"""kafka-python: a client in pure Python with a protocol stack of its own, against the log process."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import NewPartitions, NewTopic
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

from tests.broker.harness import LogProcess

TIMEOUT_S = 100


@contextmanager
def admin_of(log: LogProcess) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=log.bootstrap)
    yield client
    client.close()


def new_topic(log: LogProcess, partitions: int = 1, **configs: str) -> str:
    name = f"p-{uuid.uuid4().hex[:12]}"
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    with admin_of(log) as admin:
        admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])
    return name


def produce(log: LogProcess, topic: str, *values: bytes | None, **settings: Any) -> list[Any]:
    """What ``send`` gave for each value."""
    producer = KafkaProducer(bootstrap_servers=log.bootstrap, **settings)
    sent = [producer.send(topic, value, partition=0, key=b"k") for value in values]
    producer.flush(TIMEOUT_S)
    results = [future.get(TIMEOUT_S) for future in sent]
    producer.close()
    return results


def consumer(log: LogProcess, *topics: str, group: str | None = None, **more: Any) -> Any:
    settings = {
        "bootstrap_servers": log.bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 50,
        "heartbeat_interval_ms": 100,
        "session_timeout_ms": 30_000,
        "metadata_max_age_ms": 1_000,  # a leader that does not know the topic yet assigns nothing until it asks again
    }
    return KafkaConsumer(*topics, **(settings | more))


def read(client: Any, count: int) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records in {TIMEOUT_S} s"
        for batch in client.poll(1000).values():
            records += batch
    return records


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back_in_order(log: LogProcess, codec: str | None) -> None:
    if codec in ("snappy", "lz4", "zstd"):
        pytest.importorskip({"snappy": "snappy", "lz4": "lz4.frame", "zstd": "zstandard"}[codec])
    topic = new_topic(log)
    values = [b"%d" % number * 20 for number in range(300)]
    sent = produce(log, topic, *values, compression_type=codec)
    assert [result.offset for result in sent] == list(range(300))
    client = consumer(log, topic)
    assert [record.value for record in read(client, 300)] == values
    client.close()


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_delivers(log: LogProcess, acks: int | str) -> None:
    topic = new_topic(log)
    produce(log, topic, b"a", b"b", acks=acks, enable_idempotence=False)
    client = consumer(log, topic)
    assert [record.value for record in read(client, 2)] == [b"a", b"b"]
    client.close()


def test_headers_timestamps_and_tombstones_come_back(log: LogProcess) -> None:
    topic = new_topic(log)
    producer = KafkaProducer(bootstrap_servers=log.bootstrap)
    producer.send(topic, None, key=b"k", headers=[("h", b"1")], timestamp_ms=1_700_000_000_000).get(TIMEOUT_S)
    producer.close()
    client = consumer(log, topic)
    (record,) = read(client, 1)
    assert (record.key, record.value, record.timestamp) == (b"k", None, 1_700_000_000_000)
    assert list(record.headers) == [("h", b"1")]
    client.close()


def test_a_group_goes_on_where_it_committed(log: LogProcess) -> None:
    topic, group = new_topic(log), uuid.uuid4().hex
    produce(log, topic, *[b"%d" % number for number in range(10)])
    first = consumer(log, topic, group=group, max_poll_records=5)
    partition = TopicPartition(topic, 0)
    read(first, 5)
    first.commit({partition: OffsetAndMetadata(4, "why", -1)})
    assert first.committed(partition, metadata=True).metadata == "why"
    first.close()
    second = consumer(log, topic, group=group)
    assert read(second, 6)[0].offset == 4
    second.close()


def test_two_members_share_a_topic(log: LogProcess) -> None:
    topic, group = new_topic(log, 2), uuid.uuid4().hex
    first, second = (consumer(log, topic, group=group) for _ in range(2))
    deadline = time.monotonic() + TIMEOUT_S
    while not (len(first.assignment()) == len(second.assignment()) == 1):
        assert time.monotonic() < deadline
        first.poll(200)
        second.poll(200)
    assert first.assignment() | second.assignment() == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    first.close()
    second.close()


def test_a_consumer_seeks_by_time_and_to_the_ends(log: LogProcess) -> None:
    topic = new_topic(log)
    producer = KafkaProducer(bootstrap_servers=log.bootstrap)
    for number in range(5):
        producer.send(topic, b"%d" % number, timestamp_ms=1_700_000_000_000 + number * 1000).get(TIMEOUT_S)
    producer.close()
    client = consumer(log)
    at = TopicPartition(topic, 0)
    client.assign([at])
    assert client.offsets_for_times({at: 1_700_000_002_500})[at].offset == 3
    assert (client.beginning_offsets([at])[at], client.end_offsets([at])[at]) == (0, 5)
    client.seek(at, 3)
    assert [record.value for record in read(client, 2)] == [b"3", b"4"]
    client.close()


def test_a_record_over_the_limit_is_refused(log: LogProcess) -> None:
    topic = new_topic(log, max_message_bytes="1000")
    with pytest.raises(MessageSizeTooLargeError):
        produce(log, topic, b"x" * 2000)


def test_the_admin_client_manages_topics(log: LogProcess) -> None:
    topic = new_topic(log, 2)
    with admin_of(log) as admin:
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(topic, 1, 1)])
        admin.create_partitions({topic: NewPartitions(4)})
        (described,) = admin.describe_topics([topic])
        assert len(described["partitions"]) == 4
        assert topic in admin.list_topics()
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics([topic])


def test_the_admin_client_sees_the_cluster_and_its_groups(log: LogProcess) -> None:
    topic, group = new_topic(log), uuid.uuid4().hex
    produce(log, topic, b"a")
    client = consumer(log, topic, group=group)
    read(client, 1)
    client.commit()
    with admin_of(log) as admin:
        assert admin.describe_cluster()["cluster_id"]
        assert group in str(admin.list_groups())
        assert "Stable" in str(admin.describe_groups([group]))
        assert topic in str(admin.list_group_offsets(group))
    client.close()
