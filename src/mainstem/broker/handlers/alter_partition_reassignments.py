"""AlterPartitionReassignments (45), versions 0–1: every partition stays on this node, the only one.

Assigning it there changes nothing and succeeds; other nodes are refused with INVALID_REPLICA_ASSIGNMENT, as Kafka
refuses nodes that it does not know; there is never a reassignment to cancel: NO_REASSIGNMENT_IN_PROGRESS.
"""

from __future__ import annotations

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_cluster
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import refusal, reported_in
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import alter_partition_reassignments as messages


def handle(node: Node, call: Call) -> messages.AlterPartitionReassignmentsResponse:
    body: messages.AlterPartitionReassignmentsRequest = call.body
    responses = [
        messages.ReassignableTopicResponse(
            name=topic.name, partitions=[_reassign(node, topic.name, asked) for asked in topic.partitions]
        )
        for topic in body.topics
    ]
    return messages.AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=body.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=responses,
    )


def _reassign(node: Node, topic: str, asked: messages.ReassignablePartition) -> messages.ReassignablePartitionResponse:
    answer = messages.ReassignablePartitionResponse(
        partition_index=asked.partition_index, error_code=ErrorCode.NONE, error_message=None
    )
    with reported_in(answer):
        node.topics.existing(topic).require(asked.partition_index)
        if asked.replicas is None:
            raise refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        if list(asked.replicas) != [node.node_id]:
            raise refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"a partition can only be on node {node.node_id}")
    return answer


API = Api(messages.AlterPartitionReassignmentsRequest, handle, on_cluster(Operation.ALTER))
