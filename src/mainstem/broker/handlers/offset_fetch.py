"""OffsetFetch (9), versions 1–10: the committed offsets of groups; -1 where nothing was committed.

From version 8 a request may name several groups; from 10 topics by id. A committed offset is returned only when it is
durable. With ``require_stable`` an offset that an open transaction is about to change is refused
(UNSTABLE_OFFSET_COMMIT), so that a consumer does not begin with what that transaction has processed (KIP-447).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from mainstem.broker.access import group_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code
from mainstem.broker.groups.records import CommittedOffset
from mainstem.broker.node import Node
from mainstem.broker.slices import Slices
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_OWN_ERROR_FROM: Final = 2
_GROUPS_FROM: Final = 8
_BY_ID_FROM: Final = 10
_NOTHING: Final = CommittedOffset(-1, -1, "", -1)
_UNSTABLE: Final = CommittedOffset(-1, -1, "", -2)
_Held: TypeAlias = Mapping[tuple[str, int], CommittedOffset]


async def handle(node: Node, call: Call) -> OffsetFetchResponse:
    body: OffsetFetchRequest = call.body
    if call.api_version >= _GROUPS_FROM:
        groups = [await _fetch_group(node, call, group) for group in body.groups]
        return OffsetFetchResponse(groups=groups)
    held, code = await _held(node, call, body.group_id)
    if code and call.api_version >= _OWN_ERROR_FROM:
        return OffsetFetchResponse(error_code=code)
    wanted = _all(held) if body.topics is None else [(topic.name, topic.partition_indexes) for topic in body.topics]
    topics = [
        OffsetFetchResponseTopic(
            name=name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=number,
                    committed_offset=(found := held.get((name, number), _NOTHING)).offset,
                    committed_leader_epoch=found.leader_epoch,
                    metadata=found.metadata,
                    error_code=_code(found, code),
                )
                for number in numbers
            ],
        )
        for name, numbers in wanted
    ]
    return OffsetFetchResponse(topics=topics)


async def _fetch_group(node: Node, call: Call, group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    held, code = await _held(node, call, group.group_id, group.member_id, group.member_epoch)
    if code:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
    version = call.api_version
    topics = []
    if group.topics is None:
        for name, numbers in _all(held):
            topic = node.topics.get(name)
            if topic is not None or version < _BY_ID_FROM:
                answer = OffsetFetchResponseTopics(name=name, partitions=_partitions(held, name, numbers, code))
                if topic is not None:
                    answer.topic_id = topic.topic_id
                topics.append(answer)
    else:
        for asked in group.topics:
            name, unknown = asked.name, ErrorCode.NONE
            if version >= _BY_ID_FROM:
                topic = node.topics.by_id(asked.topic_id)
                name = topic.name if topic is not None else ""
                unknown = ErrorCode.NONE if topic is not None else ErrorCode.UNKNOWN_TOPIC_ID
            partitions = _partitions(held, name, asked.partition_indexes, unknown)
            topics.append(OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id, partitions=partitions))
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


async def _held(
    node: Node, call: Call, group_id: str, member_id: str | None = None, member_epoch: int = -1
) -> tuple[_Held, ErrorCode]:
    # Asked for in the same turn as the offsets: what ends while they become durable was open when they were read.
    unstable = node.groups.transactional.unstable(group_id) if call.body.require_stable else ()
    try:
        held = await node.groups.fetch_offsets(group_id, member_id, member_epoch)
    except MainstemError as error:
        return {}, coordinator_code(error)
    return {**held, **dict.fromkeys(unstable, _UNSTABLE)}, ErrorCode.NONE


def _code(found: CommittedOffset, code: ErrorCode) -> ErrorCode:
    return ErrorCode.UNSTABLE_OFFSET_COMMIT if found is _UNSTABLE else code


def _all(held: _Held) -> list[tuple[str, list[int]]]:
    by_topic: dict[str, list[int]] = {}
    for name, number in sorted(held):
        by_topic.setdefault(name, []).append(number)
    return list(by_topic.items())


def _partitions(held: _Held, name: str, numbers: Iterable[int], code: ErrorCode) -> list[OffsetFetchResponsePartitions]:
    answers = []
    for number in numbers:
        found = held.get((name, number), _NOTHING)
        answers.append(
            OffsetFetchResponsePartitions(
                partition_index=number,
                committed_offset=found.offset,
                committed_leader_epoch=found.leader_epoch,
                metadata=found.metadata,
                error_code=_code(found, code),
            )
        )
    return answers


API = Api(OffsetFetchRequest, handle, group_guards.offset_fetch, slices=Slices("groups", "groups"))
