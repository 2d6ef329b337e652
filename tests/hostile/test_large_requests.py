"""Single requests that are a lot of work: others are served between its slices, and its answer is bounded."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mainstem.broker.access.acls import Operation, PatternType, Permission, ResourceType
from mainstem.protocol.codec import encode_request
from mainstem.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from mainstem.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from mainstem.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from mainstem.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from mainstem.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from mainstem.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from mainstem.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from mainstem.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from mainstem.protocol.messages.describe_groups import DescribeGroupsRequest
from mainstem.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mainstem.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mainstem.protocol.messages.mirror_append import MirrorAppendRequest, MirroredPartition, MirroredTopic
from mainstem.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mainstem.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.protocol.schema import Message
from mainstem.record.constants import LENGTH_PREFIX, Compression
from mainstem.record.header import stamped_prefix
from mainstem.record.writer import NewRecord, build_batch
from tests.broker.harness import LogProcess
from tests.hostile.support import (
    Raw,
    address_of,
    answers_meanwhile,
    create_topic,
    frame,
    peak_resident_bytes,
    processor_s,
)

GROUP, BROKER = 32, 4
PARTITIONS = 256


def many_groups() -> tuple[Message, int]:
    return DescribeGroupsRequest(groups=[f"g{number}" for number in range(30_000)]), 5


def many_topics() -> tuple[Message, int]:
    topics = [MetadataRequestTopic(name=f"t{number}") for number in range(30_000)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12


def many_partitions() -> tuple[Message, int]:
    partitions = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(30_000)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)]), 7


def many_configs() -> tuple[Message, int]:
    resources = [
        DescribeConfigsResource(resource_type=GROUP, resource_name=f"g{number}", configuration_keys=None)
        for number in range(3_000)
    ]
    return DescribeConfigsRequest(resources=resources), 4


def many_commits() -> tuple[Message, int]:
    partitions = [
        OffsetCommitRequestPartition(partition_index=number % PARTITIONS, committed_offset=1, committed_metadata="")
        for number in range(60_000)
    ]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics), 9


def many_deleted_offsets() -> tuple[Message, int]:
    partitions = [OffsetDeleteRequestPartition(partition_index=number % PARTITIONS) for number in range(60_000)]
    return OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)]), 0


def many_deleted_records() -> tuple[Message, int]:
    partitions = [DeleteRecordsPartition(partition_index=number % PARTITIONS, offset=0) for number in range(60_000)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=1_000), 2


def many_added_partitions() -> tuple[Message, int]:
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[number % PARTITIONS for number in range(80_000)])]
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    ), 3


def many_new_topics() -> tuple[Message, int]:
    topics = [
        CreatableTopic(name=f"n{number}", num_partitions=1, replication_factor=1, assignments=(), configs=())
        for number in range(500)
    ]
    return CreateTopicsRequest(topics=topics, validate_only=True), 7


def many_topics_to_widen() -> tuple[Message, int]:
    topics = [CreatePartitionsTopic(name=f"n{number}", count=3, assignments=None) for number in range(60_000)]
    return CreatePartitionsRequest(topics=topics, timeout_ms=1_000, validate_only=False), 3


def many_topics_to_delete() -> tuple[Message, int]:
    topics = [DeleteTopicState(name=f"n{number}") for number in range(60_000)]
    return DeleteTopicsRequest(topics=topics, timeout_ms=1_000), 6


def many_changed_configs() -> tuple[Message, int]:
    resources = [AlterConfigsResource(resource_type=2, resource_name=f"n{n}", configs=()) for n in range(60_000)]
    return AlterConfigsRequest(resources=resources, validate_only=False), 2


def answers_in_a_second_of_work(log: LogProcess, client: Raw, data: bytes) -> float:
    """How often a good client is answered while ``data`` is served, by the log's processor time for both."""
    before_s = processor_s(log.pid)

    def attack() -> None:
        client.send(data)
        client.receive_frame()

    answers = answers_meanwhile(log, attack)
    return answers / max(processor_s(log.pid) - before_s, 0.01)


def many_mirrored() -> tuple[Message, int]:
    partitions = [MirroredPartition(index=number, expected_end_offset=0, records=b"") for number in range(90_000)]
    return MirrorAppendRequest(topics=[MirroredTopic(name="t", partitions=partitions)]), 0


@pytest.fixture(scope="module")
def wide_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogProcess]:
    """A log with a topic ``t`` of many partitions."""
    with LogProcess(tmp_path_factory.mktemp("wide") / "data") as log:
        create_topic(log, "t", PARTITIONS)
        yield log


@pytest.mark.parametrize(
    "make",
    [
        many_groups,
        many_topics,
        many_partitions,
        many_configs,
        many_commits,
        many_deleted_offsets,
        many_deleted_records,
        many_added_partitions,
        many_new_topics,
        many_topics_to_widen,
        many_topics_to_delete,
        many_changed_configs,
        many_mirrored,
    ],
)
def test_a_long_request_is_answered_while_others_are_served(
    make: Callable[[], tuple[Message, int]], wide_log: LogProcess
) -> None:
    body, version = make()
    data = frame(body, version)
    with Raw(address_of(wide_log)) as client:
        assert answers_in_a_second_of_work(wide_log, client, data) > 10


def new_acl(number: int) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=f"n{number}",
        resource_pattern_type=PatternType.LITERAL,
        principal="User:u",
        host="*",
        operation=Operation.READ,
        permission_type=Permission.ALLOW,
    )


def many_acls() -> tuple[Message, int]:
    return CreateAclsRequest(creations=[new_acl(number) for number in range(20_000)]), 3


def many_acl_filters() -> tuple[Message, int]:
    wanted = DeleteAclsFilter(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter="none",
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    return DeleteAclsRequest(filters=[wanted] * 2_000), 3


@pytest.mark.parametrize("make", [many_acls, many_acl_filters])
def test_many_acls_are_worked_on_while_others_are_served(
    make: Callable[[], tuple[Message, int]], tmp_path: Path
) -> None:
    body, version = make()
    data = frame(body, version)
    with LogProcess(tmp_path / "data", super_users="User:ANONYMOUS") as log, Raw(address_of(log)) as client:
        client.request(CreateAclsRequest(creations=[new_acl(number) for number in range(1_000)]), 3)
        assert answers_in_a_second_of_work(log, client, data) > 80


@pytest.mark.parametrize(("count", "fill_to"), [(200_000, -1), (0, 1 << 39)], ids=["batches", "gap"])
def test_a_mirrors_request_is_appended_while_others_are_served(count: int, fill_to: int, tmp_path: Path) -> None:
    whole = build_batch([NewRecord(None, b"", (), 1)])
    length = len(whole) - LENGTH_PREFIX
    data = b"".join(stamped_prefix(number, length, 0) + whole[16:] for number in range(count))
    item = MirroredPartition(index=0, expected_end_offset=0, fill_to_offset=fill_to, records=data)
    asked = frame(MirrorAppendRequest(topics=[MirroredTopic(name="m", partitions=[item])]), 0)
    of = CreatableTopicConfig(name="mainstem.mirror.of", value="clusterA/AAAAAAAAAAAAAAAAAAAAAA")
    topic = CreatableTopic(name="m", num_partitions=1, replication_factor=1, assignments=(), configs=[of])
    with LogProcess(tmp_path / "data") as log, Raw(address_of(log)) as client:
        assert client.request(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == 0
        assert answers_in_a_second_of_work(log, client, asked) > 10


def test_a_long_name_is_not_repeated_for_each_of_its_partitions(tmp_path: Path) -> None:
    """A request of 600 kB had an answer of 600 MB: each partition's refusal quoted the name of its topic."""
    partitions = [MirroredPartition(index=number, expected_end_offset=0, records=b"") for number in range(20_000)]
    asked = MirrorAppendRequest(topics=[MirroredTopic(name="x" * 30_000, partitions=partitions)])
    with LogProcess(tmp_path / "data") as log, Raw(address_of(log)) as client:
        client.ping()
        before = peak_resident_bytes(log.pid)
        client.send(frame(asked, 0))
        assert len(client.receive_frame()) < 10 << 20
        assert peak_resident_bytes(log.pid) - before < 100 << 20


@pytest.mark.parametrize("timestamp", [2, -3], ids=["time", "greatest"])
def test_times_in_large_batches_are_searched_while_others_are_served(timestamp: int, tmp_path: Path) -> None:
    """Each look-up decompresses a batch and walks all of its records: the last one is the answer."""
    count = 100_000
    records = [NewRecord(None, b"", (), 2 if number == count - 1 else 1) for number in range(count)]
    batch = build_batch(records, compression=Compression.GZIP)
    data = PartitionProduceData(index=0, records=batch)
    produced = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=[data])]
    )
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)] * 8
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)])
    with LogProcess(tmp_path / "data") as log, Raw(address_of(log)) as client:
        create_topic(log, "t")
        assert client.request(produced, 9).responses[0].partition_responses[0].error_code == 0
        found: list[int] = []
        before_s = processor_s(log.pid)

        def attack() -> None:
            found.extend(each.offset for each in client.request(asked, 7).topics[0].partitions)

        answers = answers_meanwhile(log, attack)
        used_s = processor_s(log.pid) - before_s
        assert found == [count - 1] * 8
        assert answers > 10 * used_s, f"{answers} answers in {used_s:.1f} s of work"


def test_tags_without_end_close_the_connection_and_cost_nothing(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as log, Raw(address_of(log)) as good, Raw(address_of(log)) as attacker:
        good.ping()
        before_s = processor_s(log.pid)
        body = struct.pack(">hhih", 3, 12, 1, -1) + b"\x80\x80\x80\x10" + bytes(30_000_000)
        attacker.send(struct.pack(">i", len(body)) + body)
        assert attacker.is_closed()
        good.ping()
        assert processor_s(log.pid) < before_s + 2


def test_a_name_that_comes_again_is_answered_once(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as log, Raw(address_of(log)) as client:
        create_topic(log, "wide", 200)
        answer = client.request(MetadataRequest(topics=[MetadataRequestTopic(name="wide")] * 50), 12)
        assert [topic.name for topic in answer.topics] == ["wide"]
        broker = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
        assert len(client.request(DescribeConfigsRequest(resources=[broker] * 3_000), 4).results) == 1
        assert len(client.request(DescribeGroupsRequest(groups=["g"] * 100_000), 5).groups) == 1


@pytest.mark.parametrize("make", [many_configs, many_new_topics])
def test_an_answer_that_would_be_too_long_closes_its_connection_and_no_other(
    make: Callable[[], tuple[Message, int]], tmp_path: Path
) -> None:
    with (
        LogProcess(tmp_path / "data", mainstem_response_max_bytes="200000") as log,
        Raw(address_of(log)) as good,
        Raw(address_of(log)) as attacker,
    ):
        body, version = make()
        attacker.send(frame(body, version))
        assert attacker.is_closed()
        good.ping()


def test_the_answer_to_a_long_request_is_that_to_many_short_ones(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as log, Raw(address_of(log)) as client:
        create_topic(log, "t", 520)
        partitions = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(600)]
        topics = [ListOffsetsTopic(name=name, partitions=partitions) for name in ("none", "t")]
        answer = client.request(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
        assert [topic.name for topic in answer.topics] == ["none", "t"]
        numbers = [partition.partition_index for partition in answer.topics[1].partitions]
        assert numbers == list(range(600))
        codes = [partition.error_code for partition in answer.topics[1].partitions]
        assert codes == [0] * 520 + [3] * 80


def test_requests_behind_a_long_one_are_answered_after_it(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as log, Raw(address_of(log)) as client:
        body, version = many_groups()
        small = b"".join(encode_request(DescribeGroupsRequest(groups=["g"]), 5, correlation_id=2, client_id="c"))
        client.send(frame(body, version) + small)
        assert struct.unpack(">i", client.receive_frame()[:4]) == (1,)
        assert struct.unpack(">i", client.receive_frame()[:4]) == (2,)
