"""Guards of admin requests (topics, configs, transactions) that need more than the common shapes of ``guards``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mainstem.broker.access.acls import CLUSTER_NAME, Operation
from mainstem.broker.access.acls import ResourceType as Resource
from mainstem.broker.access.authorizer import Access
from mainstem.broker.access.guards import REFUSAL_OF, Guard, Steps, split
from mainstem.broker.access.refusals import refused_items, refused_request
from mainstem.broker.call import Call
from mainstem.protocol.apis import entity
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
)
from mainstem.protocol.messages.alter_client_quotas import AlterClientQuotasResponse
from mainstem.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from mainstem.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsResponse
from mainstem.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from mainstem.protocol.messages.describe_transactions import DescribeTransactionsResponse
from mainstem.protocol.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from mainstem.protocol.messages.init_producer_id import InitProducerIdRequest
from mainstem.protocol.messages.list_transactions import ListTransactionsResponse
from mainstem.protocol.messages.write_txn_markers import WritableTxnMarkerResult, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from mainstem.broker.storage.topics import Topics

_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
# Kafka's numbers of what has configs: they are not the numbers of what has ACLs.
_TOPIC_CONFIGS: Final = 2
_GROUP_CONFIGS: Final = 32
_MANY_TRANSACTIONS_FROM: Final = 4


def create_topics(topics: Topics, call: Call, access: Access) -> Steps:
    """Create on the cluster, or on each topic; the answer has a topic's configs only for users that may see them."""
    body: CreateTopicsRequest = call.body
    refused: list[Any] = []
    if not access.allows_on_cluster(Operation.CREATE):
        body.topics, refused = split(topics, access, Resource.TOPIC, Operation.CREATE, body.topics)
    answer: CreateTopicsResponse = yield
    for topic in answer.topics:
        if not topic.error_code and not access.allows(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name):
            topic.topic_config_error_code = _TOPIC_DENIED
            topic.configs, topic.num_partitions, topic.replication_factor = (), -1, -1
    answer.topics = [*answer.topics, *refused_items(CreateTopicsResponse, "topics", refused, _TOPIC_DENIED)]
    return answer


def delete_topics(topics: Topics, call: Call, access: Access) -> Steps:
    """Delete on each topic, by name or by id."""
    body: DeleteTopicsRequest = call.body
    body.topics, by_state = split(topics, access, Resource.TOPIC, Operation.DELETE, body.topics)
    body.topic_names, by_name = split(topics, access, Resource.TOPIC, Operation.DELETE, body.topic_names)
    answer: DeleteTopicsResponse = yield
    refused = refused_items(DeleteTopicsResponse, "responses", [*by_state, *by_name], _TOPIC_DENIED)
    answer.responses = [*answer.responses, *refused]
    return answer


def on_configs(operation: Operation, answered: str) -> Guard:
    """An operation on each resource whose configs are meant: a topic, a group, or the cluster for all else."""

    def guard(topics: Topics, call: Call, access: Access) -> Steps:
        kept, refused = [], []
        response = entity(call.api_key, call.api_version, False)
        for item in call.body.resources:
            resource, name = Resource.CLUSTER, CLUSTER_NAME
            if item.resource_type == _TOPIC_CONFIGS:
                resource, name = Resource.TOPIC, item.resource_name
            elif item.resource_type == _GROUP_CONFIGS:
                resource, name = Resource.GROUP, item.resource_name
            if access.allows(operation, resource, name):
                kept.append(item)
            else:
                refused += refused_items(response, answered, [item], REFUSAL_OF[resource])
        call.body.resources = kept
        answer = yield
        setattr(answer, answered, [*getattr(answer, answered), *refused])
        return answer

    return guard


def init_producer_id(topics: Topics, call: Call, access: Access) -> Steps:
    """Write on the transactional id; without one IdempotentWrite on the cluster, or Write on any topic at all."""
    body: InitProducerIdRequest = call.body
    if body.transactional_id is not None:
        wanted = [Operation.WRITE]
        if getattr(body, "enable2_pc", False):
            wanted.append(Operation.TWO_PHASE_COMMIT)
        if not all(access.allows(each, Resource.TRANSACTIONAL_ID, body.transactional_id) for each in wanted):
            return _producer_refused(call, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not access.allows_on_cluster(Operation.IDEMPOTENT_WRITE) and not access.allows_some(
        Operation.WRITE, Resource.TOPIC
    ):
        return _producer_refused(call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return (yield)


def _producer_refused(call: Call, code: ErrorCode) -> Any:
    answer: Any = refused_request(call.api_key, call.api_version, code)
    answer.producer_epoch = -1
    return answer


def add_partitions_to_txn(topics: Topics, call: Call, access: Access) -> Steps:
    """Write on the transactional id and on every topic: one that is refused keeps the others from being added.

    From version 4 a request names several transactions and comes from brokers: ClusterAction on the cluster.
    """
    body: AddPartitionsToTxnRequest = call.body
    if call.api_version >= _MANY_TRANSACTIONS_FROM:
        if not access.allows_on_cluster(Operation.CLUSTER_ACTION):
            return refused_request(call.api_key, call.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return (yield)
    asked: list[Any] = list(body.v3_and_below_topics)
    field = "topic_results"
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    kept: list[Any] = []
    refused = asked
    if access.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, body.v3_and_below_transactional_id):
        kept, refused = split(topics, access, Resource.TOPIC, Operation.WRITE, asked)
        code = _TOPIC_DENIED
    if not refused:
        return (yield)
    results = refused_items(AddPartitionsToTxnResult, field, refused, code)
    results += refused_items(AddPartitionsToTxnResult, field, kept, ErrorCode.OPERATION_NOT_ATTEMPTED)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


def describe_transactions(topics: Topics, call: Call, access: Access) -> Steps:
    """Describe on each transactional id; the topics of a transaction that may not be described are left out."""
    ids, operation = call.body.transactional_ids, Operation.DESCRIBE
    call.body.transactional_ids, refused = split(topics, access, Resource.TRANSACTIONAL_ID, operation, ids)
    answer: DescribeTransactionsResponse = yield
    for state in answer.transaction_states:
        state.topics = split(topics, access, Resource.TOPIC, operation, state.topics)[0]
    for transactional_id in refused:
        (state,) = refused_items(
            DescribeTransactionsResponse, "transaction_states", [_Nameless()], REFUSAL_OF[Resource.TRANSACTIONAL_ID]
        )
        state.transactional_id = transactional_id
        answer.transaction_states = [*answer.transaction_states, state]
    return answer


class _Nameless:
    """An item of which nothing is copied into its refusal."""


def list_transactions(topics: Topics, call: Call, access: Access) -> Steps:
    """Describe on each transactional id; the others are left out."""
    answer: ListTransactionsResponse = yield
    answer.transaction_states = split(
        topics, access, Resource.TRANSACTIONAL_ID, Operation.DESCRIBE, answer.transaction_states
    )[0]
    return answer


def write_txn_markers(topics: Topics, call: Call, access: Access) -> Steps:
    """ClusterAction or Alter on the cluster; the answer says so for each partition, for it has no other place."""
    if access.allows_on_cluster(Operation.CLUSTER_ACTION) or access.allows_on_cluster(Operation.ALTER):
        return (yield)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    markers: list[Any] = []
    for marker in call.body.markers:
        refused = refused_items(WritableTxnMarkerResult, "topics", marker.topics, code)
        markers.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=refused))
    return WriteTxnMarkersResponse(markers=markers)


def alter_replica_log_dirs(topics: Topics, call: Call, access: Access) -> Steps:
    """Alter on the cluster; the answer says so for each partition, for it has no other place."""
    if access.allows_on_cluster(Operation.ALTER):
        return (yield)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    results = [
        AlterReplicaLogDirTopicResult(
            topic_name=topic.name,
            partitions=[
                AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                for number in topic.partitions
            ],
        )
        for directory in call.body.dirs
        for topic in directory.topics
    ]
    return AlterReplicaLogDirsResponse(results=results)


def elect_leaders(topics: Topics, call: Call, access: Access) -> Steps:
    """Alter on the cluster; version 0 has no other place to say so than each partition."""
    if access.allows_on_cluster(Operation.ALTER):
        return (yield)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=number, error_code=code, error_message=None) for number in topic.partitions
            ],
        )
        for topic in call.body.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def on_acls(asked: str, answered: str) -> Guard:
    """Alter on the cluster; the answer says so for each item, for it has no other place."""

    def guard(topics: Topics, call: Call, access: Access) -> Steps:
        if access.allows_on_cluster(Operation.ALTER):
            return (yield)
        answer = entity(call.api_key, call.api_version, False).of_defaults()
        refused = refused_items(type(answer), answered, [_Nameless()], ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        setattr(answer, answered, refused * len(getattr(call.body, asked)))
        return answer

    return guard


def alter_client_quotas(topics: Topics, call: Call, access: Access) -> Steps:
    """AlterConfigs on the cluster; the answer has an error for each entity."""
    if access.allows_on_cluster(Operation.ALTER_CONFIGS):
        return (yield)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    entries = refused_items(AlterClientQuotasResponse, "entries", [_Nameless()] * len(call.body.entries), code)
    for answer, asked in zip(entries, call.body.entries, strict=True):
        answer.entity = asked.entity
    return AlterClientQuotasResponse(entries=entries)


def alter_user_scram_credentials(topics: Topics, call: Call, access: Access) -> Steps:
    """Alter on the cluster; the answer has an error for each user."""
    if access.allows_on_cluster(Operation.ALTER):
        return (yield)
    users = dict.fromkeys(each.name for each in (*call.body.deletions, *call.body.upsertions))
    answer = AlterUserScramCredentialsResponse(results=[])
    for user in users:
        (result,) = refused_items(
            AlterUserScramCredentialsResponse, "results", [_Nameless()], ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )
        result.user = user
        answer.results = [*answer.results, result]
    return answer
