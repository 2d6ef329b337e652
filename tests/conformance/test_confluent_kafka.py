"""confluent-kafka (librdkafka): producers, consumers, groups and the admin client, against the log process."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.broker.harness import LogProcess

TIMEOUT_S = 90


def new_topic(log: LogProcess, partitions: int = 1, **configs: str) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    topic = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in configs.items()})
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    admin.create_topics([topic])[name].result(TIMEOUT_S)
    return name


def producer(log: LogProcess, **more: Any) -> Producer:
    settings = {"bootstrap.servers": log.bootstrap, "linger.ms": 0}
    return Producer(settings | {name.replace("_", "."): value for name, value in more.items()})


def produce(log: LogProcess, topic: str, *values: bytes | None, **more: Any) -> list[Message]:
    """Produce values to partition 0 and return what was delivered; an error is raised."""
    client, delivered = producer(log, **more), []

    def note(error: KafkaError | None, message: Message) -> None:
        delivered.append(message if error is None else KafkaException(error))

    for value in values:
        client.produce(topic, value=value, partition=0, on_delivery=note)
    assert client.flush(TIMEOUT_S) == 0
    for item in delivered:
        if isinstance(item, KafkaException):
            raise item
    return delivered


def consumer(log: LogProcess, group: str = "", **more: Any) -> Consumer:
    settings = {
        "bootstrap.servers": log.bootstrap,
        "group.id": group or uuid.uuid4().hex,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 100,
        "fetch.wait.max.ms": 50,
        "reconnect.backoff.max.ms": 100,
        "log_level": 0,
    }
    return Consumer(settings | {name.replace("_", "."): value for name, value in more.items()})


def read(client: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} records in {TIMEOUT_S} s"
        message = client.poll(0.2)
        if message is not None and message.error() is None:
            messages.append(message)
    return messages


def until(condition: Callable[[], bool], *clients: Consumer) -> None:
    """Let the clients do their work until ``condition`` holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        for client in clients:
            client.poll(0.05)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_every_codec_comes_back_in_order(log: LogProcess, codec: str, idempotent: bool) -> None:
    topic = new_topic(log)
    values = [b"%d" % number * 20 for number in range(500)]
    delivered = produce(log, topic, *values, compression_type=codec, enable_idempotence=idempotent)
    assert [message.offset() for message in delivered] == list(range(500))
    client = consumer(log)
    client.subscribe([topic])
    assert [message.value() for message in read(client, 500)] == values
    client.close()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_delivers(log: LogProcess, acks: str) -> None:
    topic = new_topic(log)
    produce(log, topic, b"a", b"b", acks=acks, enable_idempotence=False)
    client = consumer(log)
    client.subscribe([topic])
    assert [message.value() for message in read(client, 2)] == [b"a", b"b"]
    client.close()


def test_keys_headers_timestamps_and_tombstones_come_back(log: LogProcess) -> None:
    topic = new_topic(log)
    client = producer(log)
    client.produce(topic, key=b"k", value=None, headers=[("h", b"1"), ("h", None)], timestamp=1_700_000_000_000)
    client.flush(TIMEOUT_S)
    reader = consumer(log)
    reader.subscribe([topic])
    (message,) = read(reader, 1)
    assert (message.key(), message.value(), message.headers()) == (b"k", None, [("h", b"1"), ("h", None)])
    assert message.timestamp()[1] == 1_700_000_000_000
    reader.close()


def test_keys_spread_over_partitions_and_keep_their_order_in_each(log: LogProcess) -> None:
    topic = new_topic(log, 4)
    client = producer(log)
    for number in range(1000):
        client.produce(topic, key=b"%d" % (number % 20), value=b"%d" % number)
    client.flush(TIMEOUT_S)
    reader = consumer(log)
    reader.subscribe([topic])
    by_key: dict[bytes, list[int]] = {}
    partitions = set()
    for message in read(reader, 1000):
        by_key.setdefault(message.key(), []).append(int(message.value()))
        partitions.add(message.partition())
    assert all(numbers == sorted(numbers) and len(numbers) == 50 for numbers in by_key.values())
    assert partitions == {0, 1, 2, 3}
    reader.close()


def test_a_consumer_seeks_by_time(log: LogProcess) -> None:
    topic = new_topic(log, message_timestamp_before_max_ms=str(2**62))
    client = producer(log)
    for number in range(10):
        client.produce(topic, value=b"%d" % number, timestamp=1_700_000_000_000 + number * 1000)
        client.flush(TIMEOUT_S)
    reader = consumer(log)
    (at,) = reader.offsets_for_times([TopicPartition(topic, 0, 1_700_000_004_500)], timeout=TIMEOUT_S)
    assert at.offset == 5
    (end,) = reader.offsets_for_times([TopicPartition(topic, 0, 1_800_000_000_000)], timeout=TIMEOUT_S)
    assert end.offset == -1
    reader.assign([TopicPartition(topic, 0, at.offset)])
    assert [message.value() for message in read(reader, 5)] == [b"5", b"6", b"7", b"8", b"9"]
    reader.close()


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_a_topic_and_one_takes_over_when_the_other_leaves(log: LogProcess, assignor: str) -> None:
    topic, group = new_topic(log, 4), uuid.uuid4().hex
    first = consumer(log, group, partition_assignment_strategy=assignor)
    second = consumer(log, group, partition_assignment_strategy=assignor)
    first.subscribe([topic])
    until(lambda: len(first.assignment()) == 4, first)
    second.subscribe([topic])
    until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
    mine, theirs = ({at.partition for at in client.assignment()} for client in (first, second))
    assert mine | theirs == {0, 1, 2, 3}
    first.close()
    until(lambda: len(second.assignment()) == 4, second)
    second.close()


def test_a_static_member_comes_back_without_a_rebalance(log: LogProcess) -> None:
    topic, group = new_topic(log, 2), uuid.uuid4().hex
    other = consumer(log, group, group_instance_id="b")
    other.subscribe([topic])
    member = consumer(log, group, group_instance_id="a")
    member.subscribe([topic])
    until(lambda: len(member.assignment()) == len(other.assignment()) == 1, member, other)
    kept = other.assignment()
    member.close()
    again = consumer(log, group, group_instance_id="a")
    again.subscribe([topic])
    until(lambda: len(again.assignment()) == 1, again, other)
    assert other.assignment() == kept
    again.close()
    other.close()


@pytest.fixture
def own_log(tmp_path: Path) -> Iterator[LogProcess]:
    """A log process for one test alone, which may kill it."""
    process = LogProcess(tmp_path / "data", group_min_session_timeout_ms="1000").start()
    yield process
    process.kill()


def test_a_group_goes_on_where_it_committed_over_a_kill_of_the_log(own_log: LogProcess) -> None:
    topic = new_topic(own_log)
    produce(own_log, topic, *[b"%d" % number for number in range(10)])
    reader = consumer(own_log, "g", session_timeout_ms=3000)  # the one that comes next waits for its end
    reader.subscribe([topic])
    reader.commit(message=read(reader, 4)[-1], asynchronous=False)
    own_log.kill()
    own_log.start()
    reader.close()
    again = consumer(own_log, "g")
    again.subscribe([topic])
    assert read(again, 1)[0].offset() == 4
    again.close()


def test_a_member_survives_a_kill_of_the_log(own_log: LogProcess) -> None:
    topic = new_topic(own_log)
    reader = consumer(own_log, "g")
    reader.subscribe([topic])
    produce(own_log, topic, b"before")
    assert read(reader, 1)[0].value() == b"before"
    own_log.kill()
    own_log.start()
    produce(own_log, topic, b"after")
    assert read(reader, 1)[0].value() == b"after"
    assert reader.commit(asynchronous=False)[0].offset == 2
    reader.close()


def test_a_record_over_the_limit_is_refused_and_the_rest_is_kept(log: LogProcess) -> None:
    topic = new_topic(log, max_message_bytes="1000")
    produce(log, topic, b"small")
    with pytest.raises(KafkaException) as refused:
        produce(log, topic, b"x" * 2000)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert produce(log, topic, b"again")[0].offset() == 1


def test_a_topic_that_nobody_made_is_made_by_producing_to_it(log: LogProcess) -> None:
    assert produce(log, f"new-{uuid.uuid4().hex}", b"a")[0].offset() == 0


def test_a_consumer_of_an_unknown_topic_is_told_so(log: LogProcess) -> None:
    reader = consumer(log, allow_auto_create_topics=False)
    reader.subscribe(["no-such-topic"])
    found: list[int] = []

    def told() -> bool:
        message = reader.poll(0.1)
        if message is not None and message.error() is not None:
            found.append(message.error().code())
        return bool(found)

    until(told)
    assert found == [KafkaError.UNKNOWN_TOPIC_OR_PART]
    reader.close()


def test_the_admin_client_manages_topics(log: LogProcess) -> None:
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    topic = new_topic(log, 2, retention_ms="1000")
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT_S)
    described = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    assert sorted(described.partitions) == [0, 1, 2, 3, 4]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    change = ConfigEntry("retention.ms", "2000", incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(change)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    configs = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert configs["retention.ms"].value == "2000"
    assert len(configs) > 20
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics
    with pytest.raises(KafkaException):
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)


def test_the_admin_client_lists_and_deletes_records(log: LogProcess) -> None:
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    topic = new_topic(log)
    produce(log, topic, b"a", b"b", b"c")
    at = TopicPartition(topic, 0)
    ends = {
        name: admin.list_offsets({at: spec})[at].result(TIMEOUT_S).offset
        for name, spec in (
            ("first", OffsetSpec.earliest()),
            ("end", OffsetSpec.latest()),
            ("newest", OffsetSpec.max_timestamp()),
        )
    }
    assert ends["first"] == 0
    assert ends["end"] == 3
    assert ends["newest"] in (0, 1, 2)
    deleted = admin.delete_records([TopicPartition(topic, 0, 2)])
    assert next(iter(deleted.values())).result(TIMEOUT_S).low_watermark == 2
    assert admin.list_offsets({at: OffsetSpec.earliest()})[at].result(TIMEOUT_S).offset == 2


def test_the_admin_client_sees_and_deletes_groups(log: LogProcess) -> None:
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    topic, group = new_topic(log), uuid.uuid4().hex
    produce(log, topic, b"a")
    reader = consumer(log, group, client_id="me")
    reader.subscribe([topic])
    read(reader, 1)
    reader.commit(asynchronous=False)
    described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
    assert (described.state, [member.client_id for member in described.members]) == (ConsumerGroupState.STABLE, ["me"])
    assert group in {item.group_id for item in admin.list_consumer_groups().result(TIMEOUT_S).valid}
    reader.close()
    wanted = ConsumerGroupTopicPartitions(group)
    found = admin.list_consumer_group_offsets([wanted])[group].result(TIMEOUT_S)
    assert [(at.topic, at.offset) for at in found.topic_partitions] == [(topic, 1)]
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 0)])
    admin.alter_consumer_group_offsets([moved])[group].result(TIMEOUT_S)
    admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    assert group not in {item.group_id for item in admin.list_consumer_groups().result(TIMEOUT_S).valid}


def test_the_admin_client_sees_the_cluster(log: LogProcess) -> None:
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [log.bootstrap]
    assert cluster.cluster_id
