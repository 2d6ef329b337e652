"""Single groups by the Kafka protocol: describe, delete, set offsets; functions over a ``WireClient``, whose contract
they have. Groups of all types look alike here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from mainstem.client.failures import error_of
from mainstem.client.wire.admin.groups import list_groups
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.coordinated import GROUP, ask_coordinator
from mainstem.errors import GroupNotEmptyError, UnknownGroupError
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, Member
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.protocol.messages.describe_groups import DescribeGroupsRequest
from mainstem.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mainstem.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from mainstem.protocol.schema import Message

_COMMIT_BY_NAME_MAX: Final = 9
_NOBODY: Final = -1
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class GroupMember(NamedTuple):
    """A member of a group, and the partitions that it consumes."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: frozenset[TopicPartition]


class DescribedGroup(NamedTuple):
    """A group with its members; ``kind`` is classic, consumer, share or streams, ``state`` Kafka's word."""

    name: str
    kind: str
    state: str
    members: tuple[GroupMember, ...]


def describe_group(client: WireClient, name: str) -> DescribedGroup:
    """One group with its members. Raises UnknownGroupError."""
    listed = {group.name: group for group in list_groups(client)}.get(name)
    if listed is None:
        raise UnknownGroupError(f"there is no group {name!r}; mainstem groups list shows the groups")
    kind = listed.kind.lower() or "classic"
    members = _MEMBERS_OF[kind](client, name) if kind in _MEMBERS_OF else ()
    return DescribedGroup(name, kind, listed.state, members)


def _described(client: WireClient, name: str, request: Message) -> Any:
    """The one group that is asked for. Raises RemoteError."""
    answer = ask_coordinator(client, request, name, GROUP, lambda answer: [group.error_code for group in answer.groups])
    (group,) = answer.groups
    if group.error_code != ErrorCode.NONE:
        raise error_of(group.error_code, f"group {name!r} cannot be described", group.error_message)
    return group


def _consumer_members(client: WireClient, name: str) -> tuple[GroupMember, ...]:
    request = ConsumerGroupDescribeRequest(group_ids=[name], include_authorized_operations=False)
    group = _described(client, name, request)
    return tuple(
        GroupMember(each.member_id, each.instance_id, each.client_id, each.client_host, _assigned(each))
        for each in group.members
    )


def _assigned(member: Member) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, number)
        for topic in member.assignment.topic_partitions
        for number in topic.partitions
    )


def _classic_members(client: WireClient, name: str) -> tuple[GroupMember, ...]:
    group = _described(client, name, DescribeGroupsRequest(groups=[name]))
    return tuple(
        GroupMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            assigned_by(bytes(each.member_assignment)) if group.protocol_type == "consumer" else frozenset(),
        )
        for each in group.members
    )


def _streams_members(client: WireClient, name: str) -> tuple[GroupMember, ...]:
    """The members of a Kafka Streams program; each consumes the source partitions of its active tasks."""
    request = StreamsGroupDescribeRequest(group_ids=[name], include_authorized_operations=False)
    group = _described(client, name, request)
    subtopologies = () if group.topology is None else group.topology.subtopologies or ()
    sources = {
        each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for each in subtopologies
    }
    existing = client.metadata({topic for topics in sources.values() for topic in topics})
    return tuple(
        GroupMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            frozenset(
                TopicPartition(topic, number)
                for task in each.assignment.active_tasks
                for topic in sources.get(task.subtopology_id, ())
                for number in task.partitions
                if topic in existing and number in existing[topic].partitions
            ),
        )
        for each in group.members
    )


def assigned_by(assignment: bytes) -> frozenset[TopicPartition]:
    """The partitions in an assignment of the classic consumer protocol; none for bytes that are not an assignment."""
    found: set[TopicPartition] = set()
    try:
        (topics,), at = _INT32.unpack_from(assignment, _INT16.size), _INT16.size + _INT32.size
        for _ in range(topics):
            (length,) = _INT16.unpack_from(assignment, at)
            at += _INT16.size + length
            name = assignment[at - length : at].decode()
            (count,) = _INT32.unpack_from(assignment, at)
            at += _INT32.size
            if not 0 <= count * _INT32.size <= len(assignment) - at:
                return frozenset()
            found.update(TopicPartition(name, number) for number in struct.unpack_from(f">{count}i", assignment, at))
            at += count * _INT32.size
    except (struct.error, UnicodeDecodeError):
        return frozenset()
    return frozenset(found)


_MEMBERS_OF: Final[Mapping[str, Callable[[WireClient, str], tuple[GroupMember, ...]]]] = {
    "classic": _classic_members,
    "consumer": _consumer_members,
    "streams": _streams_members,
}


def delete_group(client: WireClient, name: str) -> None:
    """Delete a group and its committed offsets. Raises GroupNotEmptyError, UnknownGroupError."""
    request = DeleteGroupsRequest(groups_names=[name])
    answer = ask_coordinator(
        client, request, name, GROUP, lambda answer: [each.error_code for each in answer.results], resends=False
    )
    (result,) = answer.results
    if result.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise UnknownGroupError(f"there is no group {name!r}; mainstem groups list shows the groups")
    if result.error_code == ErrorCode.NON_EMPTY_GROUP:
        raise GroupNotEmptyError(f"group {name!r} has members: stop them first")
    if result.error_code != ErrorCode.NONE:
        raise error_of(result.error_code, f"group {name!r} cannot be deleted")


def commit_offsets(client: WireClient, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set the committed offsets of a group without members. Raises GroupNotEmptyError when it has some."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for tp, offset in offsets.items():
        item = OffsetCommitRequestPartition(
            partition_index=tp.partition, committed_offset=offset, committed_leader_epoch=_NOBODY, committed_metadata=""
        )
        by_topic.setdefault(tp.topic, []).append(item)
    request = OffsetCommitRequest(
        group_id=name,
        generation_id_or_member_epoch=_NOBODY,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=topic, partitions=items) for topic, items in by_topic.items()],
    )
    answer = ask_coordinator(client, request, name, GROUP, _codes, version_max=_COMMIT_BY_NAME_MAX)
    for code in _codes(answer):
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            raise GroupNotEmptyError(f"group {name!r} has members: stop them first")
        if code != ErrorCode.NONE:
            raise error_of(code, f"the offsets of group {name!r} cannot be set")


def _codes(answer: object) -> list[int]:
    topics = getattr(answer, "topics", ())
    return [partition.error_code for topic in topics for partition in topic.partitions]
