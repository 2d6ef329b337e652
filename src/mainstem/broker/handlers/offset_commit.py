"""OffsetCommit (8), versions 2–10: stores a group's offsets; answered when they are durable.

An unknown partition or too long metadata is refused alone; the other offsets are stored with their metadata. Errors of
the group or the member are reported for all existing partitions.
A long request is written in pieces of some hundred offsets; the member is checked before each.
``retention_time_ms`` (versions 2–4) says when an offset expires; else the node's ``offsets.retention.minutes`` do.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access.acls import Operation, ResourceType
from mainstem.broker.access.guards import on_topics
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code, refusal
from mainstem.broker.groups.records import CommittedOffset
from mainstem.broker.node import Node
from mainstem.broker.slices import in_pieces, in_turns
from mainstem.broker.storage.topics import Topic
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_BY_ID_FROM: Final = 10


async def handle(node: Node, call: Call) -> OffsetCommitResponse:
    body: OffsetCommitRequest = call.body
    code = _check_member(node, call)
    kept: dict[tuple[str, int], CommittedOffset] = {}
    topics = []
    async for asked in in_turns(body.topics):
        topic, unknown = _find(node, call.api_version, asked)
        partitions = []
        async for item in in_turns(asked.partitions):
            answer = _find_partition(topic, unknown, item) or code or _check_metadata(node, item)
            partitions.append(OffsetCommitResponsePartition(partition_index=item.partition_index, error_code=answer))
            if topic is not None and answer is ErrorCode.NONE:
                kept[topic.name, item.partition_index] = _committed(node, topic, body.retention_time_ms, item)
        topics.append(OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=partitions))
    response = OffsetCommitResponse(topics=topics)
    if kept:
        try:
            for piece in in_pieces(list(kept.items())):
                if code := _check_member(node, call):
                    raise refusal(code)
                # What a topic that was deleted meanwhile had is gone, as if the deletion had come after this request.
                held = {place: each for place, each in piece if node.topics.by_id(each.topic_id)}
                if held:
                    await node.groups.commit_offsets(body.group_id, held)
        except MainstemError as error:
            _refuse(response, coordinator_code(error))
    return response


def _check_member(node: Node, call: Call) -> ErrorCode:
    body: OffsetCommitRequest = call.body
    return node.groups.check_commit(
        body.group_id,
        body.member_id,
        body.group_instance_id,
        body.generation_id_or_member_epoch,
        call.api_version,
    )


def _find(node: Node, version: int, asked: OffsetCommitRequestTopic) -> tuple[Topic | None, ErrorCode]:
    if version >= _BY_ID_FROM:
        return node.topics.by_id(asked.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return node.topics.get(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _find_partition(topic: Topic | None, unknown: ErrorCode, item: OffsetCommitRequestPartition) -> ErrorCode:
    if topic is None:
        return unknown
    exists = 0 <= item.partition_index < len(topic.partitions)
    return ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _check_metadata(node: Node, item: OffsetCommitRequestPartition) -> ErrorCode:
    if len((item.committed_metadata or "").encode()) > node.offset_metadata_bytes_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _committed(node: Node, topic: Topic, retention_ms: int, item: OffsetCommitRequestPartition) -> CommittedOffset:
    now_ms = node.clock.time_ms()
    return CommittedOffset(
        item.committed_offset,
        item.committed_leader_epoch,
        item.committed_metadata or "",
        now_ms,
        now_ms + retention_ms if retention_ms >= 0 else -1,
        topic.topic_id,
    )


def _refuse(response: OffsetCommitResponse, code: ErrorCode) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = partition.error_code or code


API = Api(
    OffsetCommitRequest,
    handle,
    on_topics(Operation.READ, named=(ResourceType.GROUP, Operation.READ, "group_id")),
)
