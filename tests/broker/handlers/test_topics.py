"""Topics over the wire: metadata, creating, deleting, growing, configs, and where their records begin and end."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from mainstem.log.partition.checkpoints import encode_uuid
from mainstem.log.partition.config import CONFIGS
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from mainstem.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from mainstem.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from mainstem.protocol.messages.describe_cluster import DescribeClusterRequest
from mainstem.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from mainstem.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from mainstem.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from mainstem.protocol.messages.find_coordinator import FindCoordinatorRequest
from mainstem.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from mainstem.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mainstem.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mainstem.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.harness import Client, with_broker


def creatable(name: str, partitions: int = 1, replication: int = 1, **more: Any) -> CreatableTopic:
    more = {"assignments": (), "configs": (), **more}
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication, **more)


async def create(client: Client, *topics: CreatableTopic, validate_only: bool = False) -> list[Any]:
    response = await client.request(CreateTopicsRequest(topics=topics, validate_only=validate_only), 7)
    return list(response.topics)


async def metadata(client: Client, *names: str, may_create: bool = False) -> list[Any]:
    topics = [MetadataRequestTopic(name=name) for name in names]
    response = await client.request(MetadataRequest(topics=topics, allow_auto_topic_creation=may_create), 12)
    return list(response.topics)


@with_broker(num_partitions="3")
async def test_a_topic_that_a_client_asks_for_is_created_and_complete_in_the_answer(client: Client) -> None:
    (topic,) = await metadata(client, "new", may_create=True)
    assert (topic.error_code, len(topic.partitions), topic.topic_id.int > 0) == (0, 3, True)
    assert {partition.leader_id for partition in topic.partitions} == {1}


@with_broker(auto_create_topics_enable="false")
async def test_no_topic_is_created_when_that_is_switched_off(client: Client) -> None:
    (topic,) = await metadata(client, "new", may_create=True)
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@with_broker()
async def test_an_unknown_topic_is_an_error_when_the_client_does_not_want_it_created(client: Client) -> None:
    codes = [topic.error_code for topic in await metadata(client, "unknown", "bad name")]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION]


@with_broker()
async def test_metadata_finds_topics_by_id(client: Client) -> None:
    (made,) = await create(client, creatable("t"))
    asked = [MetadataRequestTopic(name=None, topic_id=id_) for id_ in (made.topic_id, uuid.uuid4())]
    response = await client.request(MetadataRequest(topics=asked), 12)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("t", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@with_broker()
async def test_an_empty_list_means_all_topics_in_version_0_and_none_later(client: Client) -> None:
    await client.create_topic("t")
    counts = [len((await client.request(MetadataRequest(topics=[]), version)).topics) for version in (0, 1, 12)]
    assert counts == [1, 0, 0]


BAD_TOPICS = {
    "a name with a space": (creatable("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no name": (creatable(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "the node's own name": (creatable("__mainstem_metadata"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name that differs in a dot": (creatable("old_topic"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name that is taken": (creatable("old.topic"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "no partitions": (creatable("t", 0), ErrorCode.INVALID_PARTITIONS),
    "too many partitions": (creatable("t", 2**31 - 1), ErrorCode.INVALID_PARTITIONS),
    "three replicas": (creatable("t", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
    "another node": (
        creatable("t", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[2])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "an unknown config": (
        creatable("t", configs=[CreatableTopicConfig(name="x", value="1")]),
        ErrorCode.INVALID_CONFIG,
    ),
    "a config out of range": (
        creatable("t", configs=[CreatableTopicConfig(name="segment.bytes", value="-1")]),
        ErrorCode.INVALID_CONFIG,
    ),
}


@pytest.mark.parametrize("case", BAD_TOPICS)
@with_broker()
async def test_a_topic_that_cannot_be_is_refused_with_a_reason(client: Client, case: str) -> None:
    await create(client, creatable("old.topic"))
    topic, code = BAD_TOPICS[case]
    for validate_only in (True, False):
        (result,) = await create(client, topic, validate_only=validate_only)
        assert (result.error_code, bool(result.error_message)) == (code, True)


@with_broker()
async def test_each_topic_of_a_request_fails_alone_and_a_doubled_one_is_refused(client: Client) -> None:
    results = await create(client, creatable("a"), creatable("b", 0), creatable("c"), creatable("c"))
    codes = {result.name: result.error_code for result in results}
    assert codes == {"a": 0, "b": ErrorCode.INVALID_PARTITIONS, "c": ErrorCode.INVALID_REQUEST}


@with_broker(num_partitions="4")
async def test_what_is_left_open_takes_the_nodes_defaults(client: Client) -> None:
    (result,) = await create(client, creatable("t", -1, -1))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 4, 1)
    assert {config.name for config in result.configs} == set(CONFIGS)


@with_broker()
async def test_validating_changes_nothing(client: Client) -> None:
    (result,) = await create(client, creatable("t"), validate_only=True)
    assert result.error_code == 0
    assert (await metadata(client, "t"))[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@with_broker()
async def test_topics_are_deleted_by_name_and_by_id(client: Client) -> None:
    first, second = await create(client, creatable("a"), creatable("b"))
    states = [DeleteTopicState(name="a"), DeleteTopicState(topic_id=second.topic_id), DeleteTopicState(name="c")]
    response = await client.request(DeleteTopicsRequest(topics=states, timeout_ms=1), 6)
    assert [item.error_code for item in response.responses] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert response.responses[0].topic_id == first.topic_id
    assert (await client.request(MetadataRequest(topics=None), 12)).topics == []


@with_broker()
async def test_a_topic_made_anew_is_empty_and_has_another_id(client: Client) -> None:
    (first,) = await create(client, creatable("t"))
    await client.produce("t", b"a")
    await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)
    (second,) = await create(client, creatable("t"))
    assert first.topic_id != second.topic_id
    assert await client.values("t") == []
    assert (await client.produce("t", b"b")).base_offset == 0


@with_broker(delete_topic_enable="false")
async def test_deleting_can_be_switched_off(client: Client) -> None:
    await client.create_topic("t")
    response = await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)
    assert response.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED


@with_broker()
async def test_partitions_are_added_and_there_is_an_answer_for_each_topic(client: Client) -> None:
    await client.create_topic("t", 2)

    async def grow(name: str, count: int, *, validate_only: bool = False) -> int:
        topics = [CreatePartitionsTopic(name=name, count=count, assignments=None)]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=1, validate_only=validate_only)
        response = await client.request(request, 3)
        (result,) = response.results
        return int(result.error_code)

    assert await grow("t", 4, validate_only=True) == 0
    assert await grow("t", 2) == ErrorCode.INVALID_PARTITIONS
    assert await grow("unknown", 2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await grow("t", 4) == 0
    assert (await client.produce("t", b"a", partition=3)).error_code == 0


async def alter(client: Client, operation: int, name: str, value: str | None, topic: str = "t") -> int:
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    response = await client.request(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    return int(response.responses[0].error_code)


async def described(client: Client, resource_type: int, name: str) -> dict[str, Any]:
    resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    response = await client.request(request, 4)
    assert response.results[0].error_code == 0
    return {config.name: config for config in response.results[0].configs}


@with_broker(log_retention_ms="1000")
async def test_every_config_of_a_topic_is_described_with_its_source_type_and_doc(client: Client) -> None:
    await client.create_topic("t")
    await alter(client, 0, "segment.bytes", " 1048576 ")
    configs = await described(client, 2, "t")
    assert set(configs) == set(CONFIGS)
    assert all(config.documentation and config.config_type for config in configs.values())
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("1048576", 1)
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1000", 4)
    assert (configs["flush"].value, configs["flush"].config_source) == ("commit", 5)


@with_broker(num_partitions="7")
async def test_every_setting_of_the_node_is_described(client: Client) -> None:
    configs = await described(client, 4, "1")
    assert (configs["num.partitions"].value, configs["num.partitions"].read_only) == ("7", True)
    assert configs["log.retention.ms"].config_source == 5


@with_broker()
async def test_configs_are_set_deleted_and_lists_added_to(client: Client) -> None:
    await client.create_topic("t")
    assert await alter(client, 2, "cleanup.policy", "compact") == 0
    assert (await described(client, 2, "t"))["cleanup.policy"].value == "delete,compact"
    assert await alter(client, 3, "cleanup.policy", "delete") == 0
    assert (await described(client, 2, "t"))["cleanup.policy"].value == "compact"
    assert await alter(client, 1, "cleanup.policy", None) == 0
    assert (await described(client, 2, "t"))["cleanup.policy"].value == "delete"
    assert await alter(client, 2, "segment.bytes", "1") == ErrorCode.INVALID_CONFIG
    assert await alter(client, 0, "segment.bytes", "x") == ErrorCode.INVALID_CONFIG


@with_broker()
async def test_a_config_holds_from_the_next_append_on(client: Client) -> None:
    await client.create_topic("t")
    await alter(client, 0, "max.message.bytes", "100")
    assert (await client.produce("t", b"x" * 200)).error_code == ErrorCode.MESSAGE_TOO_LARGE


async def list_offset(client: Client, timestamp: int, version: int = 7) -> Any:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsTopic(name="t", partitions=[partition])]
    response = await client.request(ListOffsetsRequest(replica_id=-1, topics=topics), version)
    return response.topics[0].partitions[0]


@with_broker()
async def test_offsets_are_listed_by_place_and_by_time(client: Client) -> None:
    await client.create_topic("t")
    for value in (b"a", b"b", b"c"):
        await client.produce("t", value)
    assert [(await list_offset(client, at)).offset for at in (-2, -1)] == [0, 3]
    newest = await list_offset(client, -3)
    assert newest.timestamp > 0
    assert (await list_offset(client, newest.timestamp)).offset <= newest.offset
    assert (await list_offset(client, newest.timestamp + 1)).offset == -1
    assert (await list_offset(client, 0)).offset == 0
    assert (await list_offset(client, -3, version=6)).error_code == ErrorCode.UNSUPPORTED_VERSION


@with_broker()
async def test_records_are_deleted_up_to_an_offset(client: Client) -> None:
    await client.create_topic("t")
    for _ in range(3):
        await client.produce("t", b"a")

    async def delete(offset: int) -> Any:
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        topics = [DeleteRecordsTopic(name="t", partitions=[partition])]
        response = await client.request(DeleteRecordsRequest(topics=topics, timeout_ms=1), 2)
        return response.topics[0].partitions[0]

    assert (await delete(2)).low_watermark == 2
    assert (await list_offset(client, -2)).offset == 2
    assert (await delete(9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await client.fetch("t", 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await delete(-1)).low_watermark == 3


@with_broker()
async def test_the_end_of_the_current_leader_epoch_is_the_end_of_the_log(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"a")
    partition = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[partition])])
    answer = (await client.request(request, 4)).topics[0].partitions[0]
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 1)


@pytest.mark.parametrize(("epoch", "error"), [(-1, 0), (-2, 74), (0, 0), (1, 75)])
@with_broker()
async def test_only_minus_one_stands_for_any_current_leader_epoch(client: Client, epoch: int, error: int) -> None:
    await client.create_topic("t")
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=0, current_leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])])
    assert (await client.request(request, 4)).topics[0].partitions[0].error_code == error
    item = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
    listed = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[item])])
    assert (await client.request(listed, 7)).topics[0].partitions[0].error_code == error


@with_broker()
async def test_partitions_are_described_page_by_page(client: Client) -> None:
    await client.create_topic("a", 3)
    await client.create_topic("b", 2)
    seen, cursor = [], None
    while True:
        request = DescribeTopicPartitionsRequest(topics=(), response_partition_limit=2, cursor=cursor)
        response = await client.request(request, 0)
        seen += [(topic.name, item.partition_index) for topic in response.topics for item in topic.partitions]
        if response.next_cursor is None:
            break
        at = response.next_cursor
        cursor = RequestCursor(topic_name=at.topic_name, partition_index=at.partition_index)
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


@with_broker()
async def test_an_unknown_topic_has_its_place_in_the_pages(client: Client) -> None:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="x"), TopicRequest(name="a b")])
    codes = [topic.error_code for topic in (await client.request(request, 0)).topics]
    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@with_broker()
async def test_the_cluster_is_this_node(client: Client) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    response = await client.request(request, 2)
    assert [(node.host, node.port) for node in response.brokers] == [client.address]
    request.endpoint_type = 2
    assert (await client.request(request, 1)).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


@with_broker()
async def test_this_node_coordinates_every_group(client: Client) -> None:
    response = await client.request(FindCoordinatorRequest(coordinator_keys=["a", "b"]), 4)
    assert [(item.key, item.port, item.error_code) for item in response.coordinators] == [
        ("a", client.address[1], 0),
        ("b", client.address[1], 0),
    ]
    response = await client.request(FindCoordinatorRequest(coordinator_keys=["t"], key_type=2), 6)
    assert response.coordinators[0].error_code == ErrorCode.INVALID_REQUEST


@with_broker()
async def test_internal_topics_are_listed_once_their_coordinator_was_asked_for(client: Client) -> None:
    async def internal() -> set[str]:
        every = (await client.request(MetadataRequest(topics=None), 12)).topics
        names = [topic.name for topic in every if topic.is_internal]
        paged = await client.request(DescribeTopicPartitionsRequest(topics=[]), 0)
        assert [topic.name for topic in paged.topics if topic.is_internal] == sorted(names)
        return set(names)

    assert await internal() == set()
    share_key = f"g:{encode_uuid(uuid.UUID(int=1))}:0"
    listed: set[str] = set()
    for key_type, key, topic in [
        (0, "g", "__consumer_offsets"),
        (1, "t", "__transaction_state"),
        (2, share_key, "__share_group_state"),
    ]:
        await client.request(FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type), 6)
        listed.add(topic)
        assert await internal() == listed


@with_broker()
async def test_internal_topics_are_read_by_clients_and_not_written(client: Client) -> None:
    await client.request(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    assert (await client.fetch("__consumer_offsets", 0)).error_code == 0
    assert (await client.produce("__consumer_offsets", b"a")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@with_broker()
async def test_the_data_directory_is_described_with_its_sizes(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"x" * 1000)
    (result,) = (await client.request(DescribeLogDirsRequest(topics=None), 4)).results
    assert result.topics[0].partitions[0].partition_size > 1000
    unknown = DescribableLogDirTopic(topic="t", partitions=[-1, 7])
    (result,) = (await client.request(DescribeLogDirsRequest(topics=[unknown]), 4)).results
    assert result.topics == []


@with_broker()
async def test_a_topic_that_stands_twice_in_a_deletion_is_not_deleted(client: Client) -> None:
    await client.create_topic("t")
    topic_id = client.broker.node.topics.find("t").topic_id
    by_name, by_id = DeleteTopicState(name="t"), DeleteTopicState(name=None, topic_id=topic_id)
    both, neither = DeleteTopicState(name="t", topic_id=topic_id), DeleteTopicState(name=None)
    for topics in ([by_name, by_id], [by_name, by_name], [both], [neither]):
        response = await client.request(DeleteTopicsRequest(topics=topics, topic_names=(), timeout_ms=1), 6)
        assert {result.error_code for result in response.responses} == {ErrorCode.INVALID_REQUEST}
    response = await client.request(DeleteTopicsRequest(topics=[by_id], topic_names=(), timeout_ms=1), 6)
    assert [(result.name, result.error_code) for result in response.responses] == [("t", 0)]


@pytest.mark.parametrize("cursor", [("t", -1), ("zzz", 0)])
@with_broker()
async def test_a_cursor_that_cannot_be_is_refused(client: Client, cursor: tuple[str, int]) -> None:
    await client.create_topic("t")
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="t")], cursor=RequestCursor(topic_name=cursor[0], partition_index=cursor[1])
    )
    response = await client.request(request, 0)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST]


@with_broker()
async def test_the_earliest_offset_comes_with_the_epoch_of_its_record(client: Client) -> None:
    await client.create_topic("t")
    log = client.broker.node.topics.partition("t", 0)
    earliest = ListOffsetsPartition(partition_index=0, timestamp=-2)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[earliest])])
    seen = []
    for epoch in (2, 5):
        log.leader_epoch = epoch
        await client.produce("t", b"a")
        seen.append((await client.request(request, 11)).topics[0].partitions[0].leader_epoch)
    deleted = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    await client.request(DeleteRecordsRequest(topics=[deleted], timeout_ms=1000), 2)
    seen.append((await client.request(request, 11)).topics[0].partitions[0].leader_epoch)
    assert seen == [2, 2, 5]


@with_broker()
async def test_what_is_deleted_is_unknown_also_under_a_name_that_no_topic_can_have(client: Client) -> None:
    records = DeleteRecordsTopic(name="a b", partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])
    answer = await client.request(DeleteRecordsRequest(topics=[records], timeout_ms=1), 2)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    deleted = await client.request(DeleteTopicsRequest(topic_names=["a b"], timeout_ms=1), 4)
    assert deleted.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
