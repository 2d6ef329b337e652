"""Every API at every version that ApiVersions lists: it is answered, and the answer can be read."""

from __future__ import annotations

import asyncio
import struct
import uuid
from pathlib import Path

import pytest

from mainstem.broker.apis import APIS
from mainstem.protocol.apis import OWN_APIS, ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import (
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_topics,
    describe_acls,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    streams_group_describe,
    streams_group_heartbeat,
    sync_group,
    txn_offset_commit,
    update_features,
)
from mainstem.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from mainstem.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from mainstem.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from mainstem.protocol.messages.describe_cluster import DescribeClusterRequest
from mainstem.protocol.messages.describe_groups import DescribeGroupsRequest
from mainstem.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from mainstem.protocol.messages.describe_transactions import DescribeTransactionsRequest
from mainstem.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from mainstem.protocol.messages.end_txn import EndTxnRequest
from mainstem.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from mainstem.protocol.messages.init_producer_id import InitProducerIdRequest
from mainstem.protocol.messages.list_config_resources import ListConfigResourcesRequest
from mainstem.protocol.messages.list_groups import ListGroupsRequest
from mainstem.protocol.messages.list_key_offsets import ListKeyOffsetsRequest
from mainstem.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from mainstem.protocol.messages.list_transactions import ListTransactionsRequest
from mainstem.protocol.messages.mirror_append import MirrorAppendRequest, MirroredPartition, MirroredTopic
from mainstem.protocol.messages.push_telemetry import PushTelemetryRequest
from mainstem.protocol.messages.read_tree import ReadTreeRequest
from mainstem.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from mainstem.protocol.messages.sasl_handshake import SaslHandshakeRequest
from mainstem.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from mainstem.record.writer import NewRecord, build_batch
from tests.broker.harness import Client, api_name, running, with_broker
from tests.broker.share.requests import SHARE_REQUESTS

_BATCH = build_batch([NewRecord(None, b"v", (), -1)])
_TXN_TOPICS = [add_partitions_to_txn.AddPartitionsToTxnTopic(name="t", partitions=[0])]
_GROUP = {"group_id": "g", "member_id": "nobody"}

REQUESTS = {
    ApiKey.PRODUCE: produce.ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            produce.TopicProduceData(name="t", partition_data=[produce.PartitionProduceData(index=0, records=_BATCH)])
        ],
    ),
    ApiKey.FETCH: fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            fetch.FetchTopic(
                topic="t",
                partitions=[fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
            )
        ],
    ),
    ApiKey.LIST_OFFSETS: list_offsets.ListOffsetsRequest(
        replica_id=-1,
        topics=[
            list_offsets.ListOffsetsTopic(
                name="t", partitions=[list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
            )
        ],
    ),
    ApiKey.METADATA: metadata.MetadataRequest(topics=[]),
    ApiKey.OFFSET_COMMIT: offset_commit.OffsetCommitRequest(
        group_id="g",
        member_id="",
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=1, committed_metadata="m"
                    )
                ],
            )
        ],
    ),
    ApiKey.OFFSET_FETCH: offset_fetch.OffsetFetchRequest(
        group_id="g",
        topics=[offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[0])],
        groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)],
    ),
    ApiKey.FIND_COORDINATOR: find_coordinator.FindCoordinatorRequest(key="g", coordinator_keys=["g"]),
    ApiKey.JOIN_GROUP: join_group.JoinGroupRequest(
        session_timeout_ms=10_000, protocol_type="consumer", protocols=[], **_GROUP
    ),
    ApiKey.HEARTBEAT: heartbeat.HeartbeatRequest(generation_id=1, **_GROUP),
    ApiKey.LEAVE_GROUP: leave_group.LeaveGroupRequest(**_GROUP),
    ApiKey.SYNC_GROUP: sync_group.SyncGroupRequest(generation_id=1, assignments=[], **_GROUP),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=["g"], include_authorized_operations=False
    ),
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        group_id="streams",
        member_id="m",
        member_epoch=0,
        endpoint_information_epoch=0,
        rebalance_timeout_ms=1000,
        process_id="p",
        topology=streams_group_heartbeat.Topology(
            epoch=0,
            subtopologies=[
                streams_group_heartbeat.Subtopology(
                    subtopology_id="0",
                    source_topics=["t"],
                    source_topic_regex=[],
                    state_changelog_topics=[],
                    repartition_sink_topics=[],
                    repartition_source_topics=[],
                    copartition_groups=[],
                )
            ],
        ),
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: streams_group_describe.StreamsGroupDescribeRequest(
        group_ids=["streams"], include_authorized_operations=False
    ),
    ApiKey.DESCRIBE_GROUPS: DescribeGroupsRequest(groups=["g", "other"]),
    ApiKey.LIST_GROUPS: ListGroupsRequest(),
    ApiKey.API_VERSIONS: ApiVersionsRequest(client_software_name="me", client_software_version="1"),
    ApiKey.CREATE_TOPICS: create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=(), configs=())
        ],
        validate_only=True,
    ),
    ApiKey.DELETE_TOPICS: delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(name="gone")], topic_names=["gone"], timeout_ms=1000
    ),
    ApiKey.DELETE_RECORDS: delete_records.DeleteRecordsRequest(
        topics=[
            delete_records.DeleteRecordsTopic(
                name="t", partitions=[delete_records.DeleteRecordsPartition(partition_index=0, offset=0)]
            )
        ],
        timeout_ms=1000,
    ),
    ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(
                topic="t", partitions=[offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)]
            )
        ]
    ),
    ApiKey.DESCRIBE_CONFIGS: describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
        ]
    ),
    ApiKey.ALTER_CONFIGS: alter_configs.AlterConfigsRequest(
        resources=[alter_configs.AlterConfigsResource(resource_type=2, resource_name="t", configs=[])],
        validate_only=True,
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=[
            alter_replica_log_dirs.AlterReplicaLogDir(
                path="/", topics=[alter_replica_log_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])]
            )
        ]
    ),
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.DescribeLogDirsRequest(topics=None),
    ApiKey.CREATE_PARTITIONS: create_partitions.CreatePartitionsRequest(
        topics=[create_partitions.CreatePartitionsTopic(name="t", count=2, assignments=None)],
        timeout_ms=1000,
        validate_only=True,
    ),
    ApiKey.DELETE_GROUPS: DeleteGroupsRequest(groups_names=["other"]),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name="t", configs=[])],
        validate_only=True,
    ),
    ApiKey.ELECT_LEADERS: elect_leaders.ElectLeadersRequest(
        topic_partitions=[elect_leaders.TopicPartitions(topic="t", partitions=[0])]
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[]),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ListPartitionReassignmentsRequest(),
    ApiKey.DESCRIBE_QUORUM: describe_quorum.DescribeQuorumRequest(topics=[]),
    ApiKey.UPDATE_FEATURES: update_features.UpdateFeaturesRequest(feature_updates=[]),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: GetTelemetrySubscriptionsRequest(client_instance_id=uuid.UUID(int=0)),
    ApiKey.PUSH_TELEMETRY: PushTelemetryRequest(
        client_instance_id=uuid.UUID(int=0), subscription_id=1, terminating=False, compression_type=0, metrics=b""
    ),
    ApiKey.LIST_CONFIG_RESOURCES: ListConfigResourcesRequest(),
    ApiKey.OFFSET_DELETE: offset_delete.OffsetDeleteRequest(group_id="other", topics=[]),
    ApiKey.DESCRIBE_CLUSTER: DescribeClusterRequest(include_cluster_authorized_operations=False),
    ApiKey.DESCRIBE_ACLS: describe_acls.DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
        pattern_type_filter=1,
    ),
    ApiKey.CREATE_ACLS: create_acls.CreateAclsRequest(
        creations=[
            create_acls.AclCreation(
                resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
            )
        ]
    ),
    ApiKey.DELETE_ACLS: delete_acls.DeleteAclsRequest(
        filters=[
            delete_acls.DeleteAclsFilter(
                resource_type_filter=2,
                resource_name_filter="none",
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ]
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn.AddPartitionsToTxnRequest(
        transactions=[
            add_partitions_to_txn.AddPartitionsToTxnTransaction(
                transactional_id="tx", producer_id=0, producer_epoch=0, topics=_TXN_TOPICS
            )
        ],
        v3_and_below_transactional_id="tx",
        v3_and_below_topics=_TXN_TOPICS,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: AddOffsetsToTxnRequest(
        transactional_id="tx", producer_id=0, producer_epoch=0, group_id="g"
    ),
    ApiKey.END_TXN: EndTxnRequest(transactional_id="tx", producer_id=0, producer_epoch=0, committed=True),
    ApiKey.WRITE_TXN_MARKERS: WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=0,
                producer_epoch=0,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
                coordinator_epoch=0,
            )
        ]
    ),
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=0,
        producer_epoch=0,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    txn_offset_commit.TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=1, committed_metadata=None
                    )
                ],
            )
        ],
    ),
    ApiKey.DESCRIBE_PRODUCERS: describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name="t", partition_indexes=[0])]
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: DescribeTransactionsRequest(transactional_ids=["tx"]),
    ApiKey.LIST_TRANSACTIONS: ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: DescribeClientQuotasRequest(components=[], strict=False),
    ApiKey.ALTER_CLIENT_QUOTAS: AlterClientQuotasRequest(
        entries=[
            RequestEntryData(
                entity=[RequestEntityData(entity_type="user", entity_name="nobody")],
                ops=[OpData(key="producer_byte_rate", value=1e12, remove=False)],
            )
        ],
        validate_only=True,
    ),
    ApiKey.SASL_HANDSHAKE: SaslHandshakeRequest(mechanism="PLAIN"),
    ApiKey.SASL_AUTHENTICATE: SaslAuthenticateRequest(auth_bytes=b""),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: DescribeUserScramCredentialsRequest(users=[UserName(name="nobody")]),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="nobody", mechanism=1)], upsertions=[]
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]),
    **SHARE_REQUESTS,
    ApiKey.MIRROR_APPEND: MirrorAppendRequest(
        topics=[MirroredTopic(name="t", partitions=[MirroredPartition(index=0, expected_end_offset=0, records=b"")])]
    ),
    ApiKey.LIST_KEY_OFFSETS: ListKeyOffsetsRequest(
        topic="t", partition=0, key=b"k", start_offset=0, end_offset=1, max_offsets=10
    ),
    ApiKey.READ_TREE: ReadTreeRequest(topic="t", partition=0, path="checkpoint"),
}


@pytest.mark.parametrize("key", sorted(APIS), ids=api_name)
def test_every_version_that_is_served_is_answered(key: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "data") as client:
            await client.create_topic("t")
            first, last = APIS[key].versions
            for version in range(first, last + 1):
                await client.request(REQUESTS[ApiKey(key)], version)

    asyncio.run(scenario())


def test_the_table_serves_no_version_that_is_not_declared() -> None:
    for api in APIS.values():
        first, last = REQUESTS[api.key].__versions__
        assert first <= api.versions.first <= api.versions.last <= last


@with_broker()
async def test_api_versions_lists_what_the_handlers_serve(client: Client) -> None:
    response = await client.request(REQUESTS[ApiKey.API_VERSIONS], 3)
    listed = {item.api_key: (item.min_version, item.max_version) for item in response.api_keys}
    assert listed == {key: tuple(api.advertised or api.versions) for key, api in APIS.items() if key not in OWN_APIS}


@with_broker()
async def test_own_apis_are_listed_for_clients_that_know_of_them_alone(client: Client) -> None:
    for name, expected in (("mainstem", OWN_APIS), ("librdkafka", frozenset())):
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        response = await client.request(request, 4)
        assert {item.api_key for item in response.api_keys} & OWN_APIS == expected


@pytest.mark.parametrize("version", [5, 99, 32767])
@with_broker()
async def test_an_unknown_version_of_api_versions_is_told_ours_in_version_0(client: Client, version: int) -> None:
    client.writer.write(struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, version, 1, -1))
    response = await client.receive(ApiKey.API_VERSIONS, 0)
    assert response.body.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert any(item.api_key == ApiKey.API_VERSIONS and item.max_version == 4 for item in response.body.api_keys)
    assert (await client.request(REQUESTS[ApiKey.API_VERSIONS], 4)).error_code == 0


@pytest.mark.parametrize(("key", "version"), [(ApiKey.PRODUCE, 2), (ApiKey.FETCH, 99), (ApiKey.END_TXN, 6), (999, 0)])
@with_broker()
async def test_an_unknown_api_or_version_closes_the_connection(client: Client, key: int, version: int) -> None:
    client.writer.write(struct.pack(">ihhih", 10, key, version, 1, -1))
    assert await client.is_closed()
