"""DescribeQuorum (55), versions 0–2: the quorum is this node, and its metadata log takes the place of Kafka's.

Tools describe ``__cluster_metadata`` to find the controller; every other partition has no quorum:
UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_cluster
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.log.node.metadata import METADATA_PARTITION
from mainstem.protocol.errors import ErrorCode, describe
from mainstem.protocol.messages import describe_quorum as messages

_TOPIC: Final = "__cluster_metadata"
_LISTENER: Final = "CONTROLLER"


def handle(node: Node, call: Call) -> messages.DescribeQuorumResponse:
    body: messages.DescribeQuorumRequest = call.body
    topics = [
        messages.ResponseTopicData(
            topic_name=asked.topic_name,
            partitions=[_describe(node, asked.topic_name, each.partition_index) for each in asked.partitions],
        )
        for asked in body.topics
    ]
    host, port = call.advertised
    nodes = [messages.Node(node_id=node.node_id, listeners=[messages.Listener(name=_LISTENER, host=host, port=port)])]
    return messages.DescribeQuorumResponse(error_code=ErrorCode.NONE, topics=topics, nodes=nodes)


def _describe(node: Node, topic: str, number: int) -> messages.ResponsePartitionData:
    if topic != _TOPIC or number != 0:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return messages.ResponsePartitionData(
            partition_index=number,
            error_code=code,
            error_message=describe(code).message,
            leader_id=0,
            leader_epoch=0,
            high_watermark=0,
            current_voters=[],
            observers=[],
        )
    log = node.log.directory.partitions[METADATA_PARTITION]
    now_ms = node.clock.time_ms()
    voter = messages.ReplicaState(
        replica_id=node.node_id,
        log_end_offset=log.log_end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return messages.ResponsePartitionData(
        partition_index=number,
        error_code=ErrorCode.NONE,
        leader_id=node.node_id,
        leader_epoch=log.leader_epoch,
        high_watermark=log.high_watermark,
        current_voters=[voter],
        observers=[],
    )


API = Api(messages.DescribeQuorumRequest, handle, on_cluster(Operation.DESCRIBE))
