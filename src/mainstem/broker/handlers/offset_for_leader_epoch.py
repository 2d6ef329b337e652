"""OffsetForLeaderEpoch (23), versions 2–4: the end of a leader epoch, so that a reader learns what was truncated.

An epoch ends with each unclean stop: records written after the recovery point may then be lost.
"""

from __future__ import annotations

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_topics
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.broker.slices import Slices
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import offset_for_leader_epoch as messages
from mainstem.record.constants import NO_LEADER_EPOCH


def handle(node: Node, call: Call) -> messages.OffsetForLeaderEpochResponse:
    body: messages.OffsetForLeaderEpochRequest = call.body
    topics = [
        messages.OffsetForLeaderTopicResult(
            topic=asked.topic, partitions=[_find(node, asked.topic, item) for item in asked.partitions]
        )
        for asked in body.topics
    ]
    return messages.OffsetForLeaderEpochResponse(topics=topics)


def _find(node: Node, name: str, item: messages.OffsetForLeaderPartition) -> messages.EpochEndOffset:
    answer = messages.EpochEndOffset(partition=item.partition, error_code=ErrorCode.NONE)
    try:
        log = node.topics.existing(name).partition(item.partition)
        if NO_LEADER_EPOCH != item.current_leader_epoch < log.leader_epoch:
            raise refusal(ErrorCode.FENCED_LEADER_EPOCH)
        if item.current_leader_epoch > log.leader_epoch:
            raise refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)
        answer.leader_epoch, answer.end_offset = log.end_offset_for_epoch(item.leader_epoch)
    except MainstemError as error:
        answer.error_code = error_code(error)
    return answer


API = Api(
    messages.OffsetForLeaderEpochRequest,
    handle,
    on_topics(Operation.DESCRIBE),
    slices=Slices("topics", "topics", partitions="partitions"),
)
