"""Kafka's metadata records: a snapshot says what went in, and a log of changes comes to the right state."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from mainstem.broker.quotas.entities import Entity
from mainstem.errors import CorruptBatchError, StorageError
from mainstem.kafka_directory.cluster_state import ClusterState
from mainstem.kafka_directory.metadata_files import (
    ABORT_TRANSACTION,
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    MetadataRecord,
    VersionedRecord,
    checkpoint_name,
    encode_checkpoint,
    parse_checkpoint_name,
    read_metadata,
    without_aborted,
)
from mainstem.kafka_directory.metadata_records import MetadataReplay, records_of
from mainstem.log.node.metadata import TopicEntry
from mainstem.protocol.messages import cluster_metadata_records as kafka
from mainstem.protocol.scram import SHA_256, make_credential
from mainstem.record.header import iter_headers
from mainstem.record.writer import NewRecord, build_batch
from tests.kafka_directory import journey

DIRECTORY = UUID(int=1 << 100)
CLUSTER = ClusterState(
    leader_epoch=7,
    next_producer_id=2000,
    topics={f"t{number}": TopicEntry(f"t{number}", uuid4(), 40, {"retention.ms": "5"}) for number in range(100)},
    acls=[journey.ACL],
    credentials={("alice", SHA_256): make_credential(SHA_256, "secret")},
    quotas={Entity.of({"user": None}): {"request_percentage": 10.0}},
    broker_configs={"": {"log.retention.ms": "1"}},
    group_configs={"g": {"consumer.session.timeout.ms": "50000"}},
)


def replayed(data: bytes) -> MetadataReplay:
    replay = MetadataReplay()
    for record in without_aborted(read_metadata(data)):
        replay.apply(record)
    return replay


def test_a_snapshot_says_what_went_in() -> None:
    data = encode_checkpoint(records_of(CLUSTER, 1, DIRECTORY), 1, 1000)
    assert max(header.size_bytes for _, header in iter_headers(data)) < 512 * 1024
    replay = replayed(data)
    assert {topic.name: (topic.topic_id, len(topic.partitions)) for topic in replay.topics.values()} == {
        topic.name: (topic.topic_id, topic.partitions) for topic in CLUSTER.topics.values()
    }
    partition = next(iter(replay.topics.values())).partitions[0]
    assert (partition.replicas, partition.in_sync, partition.leader_epoch) == ([1], {1}, 7)
    assert partition.directories == [DIRECTORY]
    assert list(replay.acls.values()) == CLUSTER.acls
    assert replay.credentials == CLUSTER.credentials
    assert replay.quota_entities() == (CLUSTER.quotas, [])
    assert replay.next_producer_id == 2000
    assert replay.configs[4, ""] == {"log.retention.ms": "1"}
    assert replay.configs[32, "g"] == {"consumer.session.timeout.ms": "50000"}


def test_records_follow_on_one_another_in_a_snapshot() -> None:
    data = encode_checkpoint(records_of(CLUSTER, 1, DIRECTORY), 1, 1000)
    offset = 0
    for _, header in iter_headers(data):
        assert header.base_offset == offset
        offset = header.next_offset


def test_a_snapshots_name_is_read_back() -> None:
    assert parse_checkpoint_name(checkpoint_name(42, 3)) == (42, 3)
    assert parse_checkpoint_name("00000000000000000042-0000000003.checkpoint.part") is None


def test_changes_come_to_the_last_state() -> None:
    topic, acl = uuid4(), uuid4()
    credential = make_credential(SHA_256, "secret")
    changes = [
        kafka.TopicRecord(name="gone", topic_id=UUID(int=5)),
        kafka.ConfigRecord(resource_type=2, resource_name="gone", name="retention.ms", value="1"),
        kafka.RemoveTopicRecord(topic_id=UUID(int=5)),
        kafka.TopicRecord(name="kept", topic_id=topic),
        kafka.PartitionRecord(partition_id=0, topic_id=topic, replicas=[1], isr=[1], leader=1, leader_epoch=0),
        kafka.PartitionChangeRecord(
            partition_id=0, topic_id=topic, isr=[], leader=-1, eligible_leader_replicas=[1], last_known_elr=[1]
        ),
        kafka.PartitionChangeRecord(partition_id=0, topic_id=topic, isr=[1], leader=1, eligible_leader_replicas=[]),
        kafka.AccessControlEntryRecord(
            acl_id=acl,
            resource_type=2,
            resource_name="x",
            pattern_type=3,
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        ),
        kafka.RemoveAccessControlEntryRecord(acl_id=acl),
        kafka.UserScramCredentialRecord(name="bob", mechanism=1, **credential._asdict()),
        kafka.RemoveUserScramCredentialRecord(name="bob", mechanism=1),
        kafka.ClientQuotaRecord(
            entity=[kafka.QuotaEntityData(entity_type="ip", entity_name="::1")], key="rate", value=1.0, remove=False
        ),
    ]
    records = [VersionedRecord(each, 2 if type(each).__name__.startswith("Partition") else 0) for each in changes]
    replay = replayed(encode_checkpoint(records, 1, 1000))
    assert [each.name for each in replay.topics.values()] == ["kept"]
    partition = replay.topics[topic].partitions[0]
    assert (partition.leader_epoch, partition.isr, partition.eligible) == (2, [1], [])
    assert (replay.configs, replay.acls, replay.credentials) == ({}, {}, {})
    assert replay.quota_entities() == ({}, ["ip ::1"])


def test_an_aborted_transaction_of_the_controller_says_nothing() -> None:
    def records(*kinds: int) -> list[int]:
        given = (MetadataRecord(number, kind, None) for number, kind in enumerate(kinds))
        return [each.kind for each in without_aborted(given)]

    assert records(2, BEGIN_TRANSACTION, 3, ABORT_TRANSACTION, 4) == [2, 4]
    assert records(2, BEGIN_TRANSACTION, 3, END_TRANSACTION, 4) == [2, 3, 4]
    assert records(2, BEGIN_TRANSACTION, 3) == [2]


@pytest.mark.parametrize("value", [b"\x01\x7f\x00", b"\x02\x02\x00", b"\x01\x03\x09"])
def test_records_of_a_newer_kafka_are_refused(value: bytes) -> None:
    with pytest.raises(StorageError, match="newer Apache Kafka"):
        list(read_metadata(build_batch([NewRecord(None, value)])))


def test_damage_is_refused() -> None:
    data = bytearray(encode_checkpoint(records_of(CLUSTER, 1, DIRECTORY), 1, 1000))
    with pytest.raises(StorageError, match="bytes after its last whole batch"):
        list(read_metadata(bytes(data[:-3])))
    data[200] ^= 1
    with pytest.raises(CorruptBatchError):
        list(read_metadata(bytes(data)))
