"""A log that moves from Mainstem to Apache Kafka and back, under clients that stay; each part is a step of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from mainstem.broker.access.acls import Acl, Operation, PatternType, Permission, ResourceType
from mainstem.broker.quotas.entities import PRODUCER_BYTES, Entity
from mainstem.clock import SystemClock
from mainstem.kafka_directory.cluster_state import ClusterState, write_node
from mainstem.log.files.disk import OsDisk
from mainstem.log.node.node_log import NodeLog
from mainstem.protocol.scram import SHA_256, SHA_512, make_credential
from tests.support.eventually import eventually

TIMEOUT_S = 60
TOPICS = {
    "events": (3, {"segment.bytes": "1048576", "mainstem.key.index": "true"}),
    "orders": (1, {"retention.ms": "-1", "compression.type": "zstd"}),
    "empty": (2, {"flush": "os"}),
}
ACL = Acl(ResourceType.TOPIC, "ev", PatternType.PREFIXED, "User:alice", "*", Operation.READ, Permission.ALLOW)


class StoredRecord(NamedTuple):
    """A record as a client sees it."""

    offset: int
    leader_epoch: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: Any


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(name, partitions, 1, config=configs) for name, (partitions, configs) in TOPICS.items()]
    for made in admin.create_topics(new).values():
        made.result(TIMEOUT_S)


def append(bootstrap: str, topic: str, count: int, *, partitions: int = 1, size: int = 100) -> None:
    """Records with headers and times of their own, by an idempotent producer."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(count):
        headers = [("n", b"%d" % number), ("none", None)]
        producer.produce(
            topic,
            b"%d" % number * size,
            b"k%d" % (number % 50),
            partition=number % partitions,
            headers=headers,
            timestamp=1_700_000_000_000 + number,
        )
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def read(bootstrap: str, topic: str, partition: int, isolation: str = "read_committed") -> list[StoredRecord]:
    """Every record of a partition up to its end, as this isolation sees it."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "isolation.level": isolation,
        "fetch.wait.max.ms": 20,
    }
    consumer = Consumer(settings | {"enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[StoredRecord] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        assert time.monotonic() < deadline_s, f"{topic}-{partition}: the end did not come"
        for message in consumer.consume(1000, 0.1):
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    print(f"{topic}-{partition}: {error}")  # noqa: T201 it passes, or the time is up
                    continue
                consumer.close()
                return found
            found.append(
                StoredRecord(
                    message.offset(),
                    message.leader_epoch(),
                    message.timestamp(),
                    message.key(),
                    message.value(),
                    message.headers(),
                )
            )


def everything(bootstrap: str) -> dict[tuple[str, int], list[StoredRecord]]:
    """All committed records of the topics."""
    return {
        (name, number): read(bootstrap, name, number)
        for name, (partitions, _) in TOPICS.items()
        for number in range(partitions)
    }


def topic_ids(bootstrap: str, names: Iterable[str]) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_topics(TopicCollection(list(names)))
    return {name: str(each.result(TIMEOUT_S).topic_id) for name, each in described.items()}


def consume(consumer: Consumer, count: int) -> list[bytes]:
    """So many values."""
    values: list[bytes] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(values) < count:
        assert time.monotonic() < deadline_s, f"{len(values)} of {count} records came"
        for message in consumer.consume(count - len(values), 0.5):
            if message.error() is None:
                values.append(message.value())
    return values


def group_consumer(bootstrap: str, group: str, **more: Any) -> Consumer:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    return Consumer(settings | {name.replace("_", "."): value for name, value in more.items()})


def mixed_group(bootstrap: str, group: str, topic: str) -> list[Consumer]:
    """Two members of one group: one of the classic protocol, one of the consumer protocol."""
    # The classic one stays a member while no log runs: longer than all steps of a graduation take.
    classic = group_consumer(bootstrap, group, group_protocol="classic", session_timeout_ms=300_000)
    members = [classic, group_consumer(bootstrap, group, group_protocol="consumer")]
    for member in members:
        member.subscribe([topic])
        shares(members[: members.index(member) + 1], TOPICS[topic][0])
    return members


def shares(members: list[Consumer], partitions: int) -> list[str]:
    """The ids of the members, once each has a part of the partitions and the log takes its commit."""

    def are_members() -> bool:
        for each in members:
            each.consume(1000, 0.1)
        parts = [each.assignment() for each in members]
        if not all(parts) or len({each.partition for part in parts for each in part}) != partitions:
            return False
        try:
            for each, part in zip(members, parts, strict=True):
                each.commit(offsets=[TopicPartition(part[0].topic, part[0].partition, 1)], asynchronous=False)
        except KafkaException:
            return False  # a rebalance goes on
        return sum(map(len, parts)) == partitions

    eventually(are_members, "each member has a part", within_s=TIMEOUT_S)
    return [each.memberid() for each in members]


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], tuple[int, str | None]]:
    """The committed offsets of a group, with their metadata."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(TIMEOUT_S)
    return {(each.topic, each.partition): (each.offset, each.metadata) for each in asked.topic_partitions}


def transactional(bootstrap: str, transactional_id: str) -> Producer:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0, "log_level": 0}
    producer = Producer(settings | {"transaction.timeout.ms": 600_000, "reconnect.backoff.max.ms": 200})
    producer.init_transactions(TIMEOUT_S)
    return producer


def add_rights(data: Path) -> None:
    """A user, an ACL, quotas and configs in a directory that no log has open."""
    node = NodeLog.open(OsDisk(), SystemClock(), data, {})
    try:
        rights = ClusterState(
            acls=[ACL],
            credentials={("alice", each): make_credential(each, "secret") for each in (SHA_256, SHA_512)},
            quotas={
                Entity.of({"user": "alice", "client-id": None}): {PRODUCER_BYTES: 1_000_000.0},
                Entity.of({"client-id": "app"}): {"request_percentage": 50.0},
            },
            broker_configs={"": {"log.retention.ms": "123456789"}},
            group_configs={"live": {"consumer.session.timeout.ms": "50000"}},
        )
        write_node(node.metadata, rights)
    finally:
        node.close()


TABLE = {b"k%d" % number: b"last %d" % number for number in range(20)}


def compacted_topic(bootstrap: str, logs: Path) -> None:
    """A topic that Apache Kafka has compacted: its segments have gaps."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    configs = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    admin.create_topics([NewTopic("table", 1, 1, config=configs)])["table"].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    for number in range(200):
        producer.produce("table", b"%d" % number, b"k%d" % (number % 20))
        producer.flush(TIMEOUT_S)
    for key, value in TABLE.items():
        producer.produce("table", value, key)
        producer.flush(TIMEOUT_S)

    def is_compacted() -> bool:
        producer.produce("table", b"last 0", b"k0")  # a segment is rolled by the next append
        producer.flush(TIMEOUT_S)
        return b"last 5" in _values(logs) and b"105" not in _values(logs)

    eventually(is_compacted, "Apache Kafka compacts the topic")


def _values(logs: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(logs.glob("table-0/*.log")))
