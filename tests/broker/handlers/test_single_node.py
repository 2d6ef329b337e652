"""What a single node cannot mean: elections, reassignments, quorums, and features that are not switched."""

from __future__ import annotations

from typing import Any

import pytest

from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import alter_partition_reassignments as reassignments
from mainstem.protocol.messages import describe_quorum, update_features
from mainstem.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from mainstem.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from mainstem.protocol.messages.list_config_resources import ListConfigResourcesRequest
from mainstem.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.broker.harness import Client, with_broker


@pytest.mark.parametrize("version", [0, 1, 2])
@with_broker()
async def test_no_partition_needs_an_election(client: Client, version: int) -> None:
    await client.create_topic("t")
    asked = [TopicPartitions(topic="t", partitions=[0, 5]), TopicPartitions(topic="nope", partitions=[0])]
    response = await client.request(ElectLeadersRequest(topic_partitions=asked), version)
    codes = [[each.error_code for each in topic.partition_result] for topic in response.replica_election_results]
    needless, unknown = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (response.error_code, codes) == (0, [[needless, unknown], [unknown]])


@with_broker()
async def test_an_election_of_all_partitions_names_none_and_an_unknown_kind_is_refused(client: Client) -> None:
    await client.create_topic("t")
    response = await client.request(ElectLeadersRequest(topic_partitions=None), 2)
    assert (response.error_code, list(response.replica_election_results)) == (0, [])
    asked = [TopicPartitions(topic="t", partitions=[0])]
    response = await client.request(ElectLeadersRequest(election_type=7, topic_partitions=asked), 2)
    (result,) = response.replica_election_results[0].partition_result
    assert (response.error_code, result.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize(
    ("topic", "partition", "replicas", "code"),
    [
        ("t", 0, [1], ErrorCode.NONE),
        ("t", 0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 9, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nope", 0, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
@with_broker()
async def test_a_partition_can_be_on_this_node_alone(
    client: Client, topic: str, partition: int, replicas: Any, code: int
) -> None:
    await client.create_topic("t")
    asked = reassignments.ReassignablePartition(partition_index=partition, replicas=replicas)
    request = reassignments.AlterPartitionReassignmentsRequest(
        topics=[reassignments.ReassignableTopic(name=topic, partitions=[asked])]
    )
    response = await client.request(request, 1)
    assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, code)
    listed = await client.request(ListPartitionReassignmentsRequest(), 0)
    assert (listed.error_code, list(listed.topics)) == (0, [])


@with_broker()
async def test_a_partition_is_moved_to_no_other_directory(client: Client) -> None:
    await client.create_topic("t")
    here = str(client.broker.config.data_dir)
    dirs = [
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name="t", partitions=[number])])
        for path, number in ((here, 0), (here, 5), ("/elsewhere", 0))
    ]
    response = await client.request(AlterReplicaLogDirsRequest(dirs=dirs), 2)
    (topic,) = response.results
    codes = [partition.error_code for partition in topic.partitions]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LOG_DIR_NOT_FOUND]


@pytest.mark.parametrize(
    ("version", "types", "expected"),
    [
        (0, (), []),  # client metrics, of which there are none
        (1, (), [("1", 4), ("a", 2), ("b", 2)]),
        (1, (2,), [("a", 2), ("b", 2)]),
        (1, (4,), [("1", 4)]),
        (1, (16,), []),
    ],
)
@with_broker()
async def test_what_has_configs_is_listed(
    client: Client, version: int, types: tuple[int, ...], expected: list[tuple[str, int]]
) -> None:
    for name in ("b", "a"):
        await client.create_topic(name)
    response = await client.request(ListConfigResourcesRequest(resource_types=types), version)
    assert [(each.resource_name, each.resource_type) for each in response.config_resources] == expected


@with_broker()
async def test_an_unknown_kind_of_resource_is_an_unsupported_version(client: Client) -> None:
    response = await client.request(ListConfigResourcesRequest(resource_types=[2, 99]), 1)
    assert (response.error_code, list(response.config_resources)) == (ErrorCode.UNSUPPORTED_VERSION, [])


@with_broker()
async def test_the_quorum_is_this_node(client: Client) -> None:
    asked = [
        describe_quorum.RequestTopicData(
            topic_name=topic, partitions=[describe_quorum.RequestPartitionData(partition_index=number)]
        )
        for topic, number in (("__cluster_metadata", 0), ("__cluster_metadata", 1), ("other", 0))
    ]
    response = await client.request(describe_quorum.DescribeQuorumRequest(topics=asked), 2)
    ours, *others = (topic.partitions[0] for topic in response.topics)
    assert (ours.error_code, ours.leader_id, [voter.replica_id for voter in ours.current_voters]) == (0, 1, [1])
    assert {other.error_code for other in others} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert [(node.node_id, node.listeners[0].port) for node in response.nodes] == [(1, client.address[1])]


@with_broker()
async def test_features_stay_as_they_are(client: Client) -> None:
    update = update_features.FeatureUpdateKey(feature="nope", max_version_level=1)
    for version in (0, 1, 2):
        request = update_features.UpdateFeaturesRequest(feature_updates=[update])
        response = await client.request(request, version)
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    listed = await client.request(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
    same = [
        update_features.FeatureUpdateKey(feature=each.name, max_version_level=each.max_version_level)
        for each in listed.finalized_features
    ]
    response = await client.request(update_features.UpdateFeaturesRequest(feature_updates=same), 1)
    assert (response.error_code, [each.error_code for each in response.results]) == (0, [0] * len(same))


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 5 + "."])
@with_broker()
async def test_a_client_must_give_its_software_a_name_that_can_be(client: Client, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    response = await client.request(request, 3)
    assert (response.error_code, list(response.api_keys)) == (ErrorCode.INVALID_REQUEST, [])
    assert any(each.api_key == ApiKey.FETCH for each in (await client.request(request, 2)).api_keys)
