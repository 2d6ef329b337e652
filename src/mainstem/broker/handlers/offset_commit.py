"""OffsetCommit (8), versions 2–10: stores a group's offsets; answered when they are durable.

An unknown partition or too long metadata is refused alone; the other offsets are stored with their metadata. Errors of
the group or the member are reported for all existing partitions, as is an older member epoch at which the member did
not have one of them (KIP-1251).
A long request is appended in pieces of some hundred offsets; the member is checked before each. The answer waits once
for all of them, and each partition's code says whether its own offset is stored.
``retention_time_ms`` (versions 2–4) says when an offset expires; else the node's ``offsets.retention.minutes`` do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

from mainstem.broker.access.acls import Operation, ResourceType
from mainstem.broker.access.guards import on_topics
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code, refusal
from mainstem.broker.groups.group_types import CommitCheck
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
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
Place: TypeAlias = "tuple[str, int]"
Answers: TypeAlias = "dict[Place, list[OffsetCommitResponsePartition]]"
"""The answers to the offsets that are not refused, by topic and partition; a request may repeat a partition."""


async def handle(node: Node, call: Call) -> OffsetCommitResponse:
    body: OffsetCommitRequest = call.body
    check = _check_member(node, call)
    code = ErrorCode.NONE
    kept: dict[Place, CommittedOffset] = {}
    answers: Answers = {}
    topics = []
    async for asked in in_turns(body.topics):
        topic, unknown = _find(node, call.api_version, asked)
        partitions = []
        async for item in in_turns(asked.partitions):
            answer = _find_partition(topic, unknown, item) or check.code or _check_metadata(node, item)
            partitions.append(OffsetCommitResponsePartition(partition_index=item.partition_index, error_code=answer))
            if topic is not None and answer is ErrorCode.NONE:
                place = (topic.name, item.partition_index)
                kept[place] = _committed(node, topic, body.retention_time_ms, item)
                answers.setdefault(place, []).append(partitions[-1])
                code = code or check.of(topic.topic_id, item.partition_index)
        topics.append(OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=partitions))
    if code:  # as in Kafka, one partition that the member had not at its epoch refuses the others, too
        known = (each for topic in topics for each in topic.partitions if each.error_code not in _UNKNOWN)
        for each in known:
            each.error_code = code
        return OffsetCommitResponse(topics=topics)
    unstored = await _append(node, call, kept, answers)
    if len(unstored) < len(kept):
        try:
            await node.groups.log.until_durable(body.group_id)
        except MainstemError as error:
            _refuse(answers, kept, coordinator_code(error))
    return OffsetCommitResponse(topics=topics)


async def _append(node: Node, call: Call, kept: Mapping[Place, CommittedOffset], answers: Answers) -> Collection[Place]:
    """Append the offsets; return those that are not, which are refused."""
    group_id = call.body.group_id
    unstored = set(kept)
    try:
        for number, piece in enumerate(in_pieces(list(kept.items()))):
            if number:
                await asyncio.sleep(0)
            check = _check_member(node, call)
            if kept and check.code:
                raise refusal(check.code)
            # What a topic that was deleted meanwhile had is gone, as if the deletion had come after this request.
            held = {place: each for place, each in piece if node.topics.by_id(each.topic_id)}
            if code := next(filter(None, (check.of(each.topic_id, place[1]) for place, each in held.items())), None):
                raise refusal(code)
            if held:
                node.groups.append_offsets(group_id, held)
            unstored.difference_update(place for place, _ in piece)
    except MainstemError as error:
        _refuse(answers, unstored, coordinator_code(error))
    return unstored


def _check_member(node: Node, call: Call) -> CommitCheck:
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
    if len((item.committed_metadata or "").encode()) > node.settings.offset_metadata_bytes_max:
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


def _refuse(answers: Answers, places: Iterable[Place], code: ErrorCode) -> None:
    for place in places:
        for answer in answers[place]:
            answer.error_code = code


API = Api(
    OffsetCommitRequest,
    handle,
    on_topics(Operation.READ, named=(ResourceType.GROUP, Operation.READ, "group_id")),
)
