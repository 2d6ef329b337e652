"""DescribeTopicPartitions (75), version 0: topics and their partitions, page by page.

Topics come in the order of their names; ``next_cursor`` says where the next page begins. Without names: all topics.
A cursor before a topic's first partition, or at a topic that is not among the names, is INVALID_REQUEST for each topic.
"""

from __future__ import annotations

from mainstem.broker.access import record_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.broker.storage.topics import Topic
from mainstem.model import is_topic_name
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import describe_topic_partitions as messages
from mainstem.protocol.schema import ZERO_UUID


def handle(node: Node, call: Call) -> messages.DescribeTopicPartitionsResponse:
    body: messages.DescribeTopicPartitionsRequest = call.body
    names = sorted({topic.name for topic in body.topics} or {topic.name for topic in node.topics.all()})
    first = 0
    if body.cursor is not None:
        if body.cursor.partition_index < 0 or (body.topics and body.cursor.topic_name not in names):
            refused = [_refused(name, ErrorCode.INVALID_REQUEST) for name in names]
            return messages.DescribeTopicPartitionsResponse(topics=refused)
        start = body.cursor.topic_name
        names = [name for name in names if name >= start]
        if names and names[0] == start:
            first = body.cursor.partition_index
    left = max(1, min(body.response_partition_limit, node.settings.described_partitions_max))
    topics: list[messages.DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        topic = node.topics.get(name)
        if left == 0:
            return messages.DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=messages.ResponseCursor(topic_name=name, partition_index=first)
            )
        if topic is None:
            is_possible = is_topic_name(name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_possible else ErrorCode.INVALID_TOPIC_EXCEPTION
            topics.append(_refused(name, code))
            continue
        numbers = range(first, min(first + left, len(topic.partitions)))
        topics.append(_described(node, topic, numbers))
        left -= len(numbers)
        if numbers.stop < len(topic.partitions):
            return messages.DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=messages.ResponseCursor(topic_name=name, partition_index=numbers.stop)
            )
        first = 0
    return messages.DescribeTopicPartitionsResponse(topics=topics)


def _refused(name: str, code: ErrorCode) -> messages.DescribeTopicPartitionsResponseTopic:
    return messages.DescribeTopicPartitionsResponseTopic(error_code=code, name=name, topic_id=ZERO_UUID, partitions=[])


def _described(node: Node, topic: Topic, numbers: range) -> messages.DescribeTopicPartitionsResponseTopic:
    return messages.DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(node, number, topic.partitions.leader_epoch(number)) for number in numbers],
    )


def _partition(node: Node, number: int, leader_epoch: int | None) -> messages.DescribeTopicPartitionsResponsePartition:
    nodes, is_online = (node.node_id,), leader_epoch is not None
    return messages.DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if is_online else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=node.node_id if is_online else -1,
        leader_epoch=-1 if leader_epoch is None else leader_epoch,
        replica_nodes=nodes,
        isr_nodes=nodes if is_online else (),
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=() if is_online else nodes,
    )


API = Api(
    messages.DescribeTopicPartitionsRequest, handle, record_guards.describe_topic_partitions, describes_permissions=True
)
