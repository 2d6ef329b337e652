"""OffsetForLeaderEpoch (23), versions 2–4: where a leader epoch ended, so that a reader learns what was cut off.

An epoch ends with each unclean stop: what was written after the recovery point may then be gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.api import Api, Call
from mainstem.log.partition_log import PartitionLog
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from mainstem.protocol.schema import Versions

if TYPE_CHECKING:
    from mainstem.broker.node import Node


def handle(node: Node, call: Call) -> OffsetForLeaderEpochResponse:
    """Serve one request; the top of the file says how."""
    body: OffsetForLeaderEpochRequest = call.body
    topics = []
    for asked in body.topics:
        topic = node.topics.get(asked.topic)
        partitions = [
            _find(topic.partition(item.partition) if topic is not None else None, item) for item in asked.partitions
        ]
        topics.append(OffsetForLeaderTopicResult(topic=asked.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def _find(log: PartitionLog | None, item: OffsetForLeaderPartition) -> EpochEndOffset:
    if log is None:
        return EpochEndOffset(partition=item.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if 0 <= item.current_leader_epoch < log.leader_epoch:
        return EpochEndOffset(partition=item.partition, error_code=ErrorCode.FENCED_LEADER_EPOCH)
    if item.current_leader_epoch > log.leader_epoch:
        return EpochEndOffset(partition=item.partition, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
    epoch, end_offset = log.end_offset_for_epoch(item.leader_epoch)
    return EpochEndOffset(
        partition=item.partition, error_code=ErrorCode.NONE, leader_epoch=epoch, end_offset=end_offset
    )


API = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, Versions(2, 4), handle)
