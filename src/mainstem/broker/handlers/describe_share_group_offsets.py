"""DescribeShareGroupOffsets (90), versions 0–1: start offsets of share groups, and from version 1 the lag.

A group that is not there shares nothing: no error. A partition that the group does not share has start offset -1.
Without topics: all that the group shares. The lag is how many offsets, up to the high watermark, still need a delivery.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainstem.broker.access import group_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code, reported_in
from mainstem.broker.node import Node
from mainstem.broker.share.state_records import ShareKey
from mainstem.broker.slices import Slices
from mainstem.broker.storage.topics import Topic
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from mainstem.protocol.schema import ZERO_UUID


async def handle(node: Node, call: Call) -> DescribeShareGroupOffsetsResponse:
    body: DescribeShareGroupOffsetsRequest = call.body
    return DescribeShareGroupOffsetsResponse(groups=[await _describe(node, asked) for asked in body.groups])


async def _describe(node: Node, asked: DescribeShareGroupOffsetsRequestGroup) -> DescribeShareGroupOffsetsResponseGroup:
    answer = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=[], error_code=ErrorCode.NONE)
    try:
        is_known = node.share.coordinator.group(asked.group_id) is not None
        names_any = any(node.topics.get(each.topic_name) is not None for each in asked.topics or ())
        names_nothing = not asked.group_id and not names_any
        if names_nothing or (asked.group_id and not is_known):
            # As in Kafka: a request that names partitions gets an answer without offsets for each.
            asked_topics = asked.topics or ()
            answer.topics = [_topic(node, asked.group_id, each.topic_name, each.partitions) for each in asked_topics]
            return answer
        group = node.share.coordinator.find(asked.group_id)
        if asked.topics is None:
            wanted = [(topic.name, topic.partitions) for topic in group.shared.values()]
        else:
            wanted = [(topic.topic_name, tuple(topic.partitions)) for topic in asked.topics]
        answer.topics = [_topic(node, asked.group_id, name, numbers) for name, numbers in wanted]
        await node.share.state.until_durable(partition.key for partition in node.share.state.of_group(asked.group_id))
    except MainstemError as error:
        answer.topics, answer.error_code, answer.error_message = [], coordinator_code(error), str(error)
    return answer


def _topic(node: Node, group_id: str, name: str, numbers: Iterable[int]) -> DescribeShareGroupOffsetsResponseTopic:
    topic = node.topics.get(name)
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic.topic_id if topic is not None else ZERO_UUID,
        partitions=[_partition(node, group_id, topic, number) for number in numbers],
    )


def _partition(
    node: Node, group_id: str, topic: Topic | None, number: int
) -> DescribeShareGroupOffsetsResponsePartition:
    answer = DescribeShareGroupOffsetsResponsePartition(
        partition_index=number, start_offset=-1, leader_epoch=0, lag=-1, error_code=ErrorCode.NONE
    )
    if topic is None:
        return answer
    with reported_in(answer):
        key = ShareKey(group_id, topic.topic_id, number)
        node.share.state.check(key)
        partition = node.share.state.get(key)
        if partition is not None:
            log = topic.partition(number)
            node.share.partitions.refresh(partition, log)
            state = partition.in_flight
            answer.start_offset, answer.leader_epoch = state.start_offset, log.leader_epoch
            answer.lag = max(0, log.high_watermark - state.start_offset - state.delivery_complete_count)
    return answer


API = Api(
    DescribeShareGroupOffsetsRequest,
    handle,
    group_guards.describe_share_group_offsets,
    slices=Slices("groups", "groups"),
)
