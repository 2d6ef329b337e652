"""The records of share groups in ``__consumer_offsets``, in Kafka's own format, so that Kafka's tools read them.

Key: two bytes that say its type, then the key's struct. Value: two bytes that say its version, then the value's struct;
a tombstone removes what the key names.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.groups.records import key_type
from mainstem.errors import FrameError
from mainstem.protocol.codec import decode_message, encode_message
from mainstem.protocol.messages import share_records as messages
from mainstem.protocol.schema import Message

if TYPE_CHECKING:
    from mainstem.broker.share.assignor import Assignment
    from mainstem.broker.share.group import ShareGroup, ShareMember

_INT16: Final = struct.Struct(">h")
_VERSION: Final = 0
_STABLE: Final = 0

MEMBER_TYPE: Final = 10
GROUP_TYPE: Final = 11
TARGET_TYPE: Final = 12
TARGET_MEMBER_TYPE: Final = 13
CURRENT_MEMBER_TYPE: Final = 14
SHARED_TYPE: Final = 15


class SharedTopic(NamedTuple):
    """A topic of which a group keeps state, and the partitions of which it does."""

    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShareGroupChange:
    """A record of a group or of one of its members. ``value`` is the struct of its type; None is a tombstone."""

    group_id: str
    member_id: str | None
    record_type: int
    value: Any


_GROUP_TYPES: Final[dict[int, tuple[Any, type[Message]]]] = {
    GROUP_TYPE: (messages.ShareGroupMetadataKey, messages.ShareGroupMetadataValue),
    TARGET_TYPE: (messages.ShareGroupTargetAssignmentMetadataKey, messages.ShareGroupTargetAssignmentMetadataValue),
    SHARED_TYPE: (messages.ShareGroupStatePartitionMetadataKey, messages.ShareGroupStatePartitionMetadataValue),
}
_MEMBER_TYPES: Final[dict[int, tuple[Any, type[Message]]]] = {
    MEMBER_TYPE: (messages.ShareGroupMemberMetadataKey, messages.ShareGroupMemberMetadataValue),
    TARGET_MEMBER_TYPE: (messages.ShareGroupTargetAssignmentMemberKey, messages.ShareGroupTargetAssignmentMemberValue),
    CURRENT_MEMBER_TYPE: (
        messages.ShareGroupCurrentMemberAssignmentKey,
        messages.ShareGroupCurrentMemberAssignmentValue,
    ),
}
RECORD_TYPES: Final = frozenset({*_GROUP_TYPES, *_MEMBER_TYPES})


def member_record(group_id: str, member: ShareMember) -> StateRecord:
    """The record of a member's identity and subscription."""
    value = messages.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
    )
    return _record(messages.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def epoch_record(group: ShareGroup) -> StateRecord:
    """The group's epoch."""
    value = messages.ShareGroupMetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash)
    return _record(messages.ShareGroupMetadataKey(group_id=group.group_id), value)


def target_record(group_id: str, member_id: str, assignment: Assignment) -> StateRecord:
    """The record of a member's target assignment."""
    value = messages.ShareGroupTargetAssignmentMemberValue(topic_partitions=_topic_partitions(assignment))
    return _record(messages.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_epoch_record(group: ShareGroup, time_ms: int) -> StateRecord:
    """The epoch for which the target was made."""
    value = messages.ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=group.assignment_epoch, assignment_timestamp=time_ms
    )
    return _record(messages.ShareGroupTargetAssignmentMetadataKey(group_id=group.group_id), value)


def current_record(group_id: str, member: ShareMember) -> StateRecord:
    """The record of a member's current assignment."""
    value = messages.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=_STABLE,
        assigned_partitions=_topic_partitions(member.assigned),
    )
    return _record(messages.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def shared_record(group_id: str, shared: Mapping[UUID, SharedTopic]) -> StateRecord:
    """The partitions whose state the group keeps."""
    topics = [
        messages.TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=list(topic.partitions))
        for topic_id, topic in shared.items()
    ]
    value = messages.ShareGroupStatePartitionMetadataValue(
        initializing_topics=[], initialized_topics=topics, deleting_topics=[]
    )
    return _record(messages.ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[StateRecord]:
    """The records that remove a member, in Kafka's order."""
    return [
        _record(messages.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        _record(messages.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        _record(messages.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group_id: str) -> list[StateRecord]:
    """The records that remove a group without members."""
    return [
        _record(messages.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        _record(messages.ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        _record(messages.ShareGroupMetadataKey(group_id=group_id), None),
    ]


def read_share_group_change(key: bytes, value: bytes | None) -> ShareGroupChange:
    """Decode a record of ``RECORD_TYPES``. Raises FrameError for a damaged record."""
    kind = key_type(key)
    key_class, value_class = (_GROUP_TYPES | _MEMBER_TYPES)[kind]
    name: Any = decode_message(key_class, 0, key, 2)
    body = None if value is None else decode_message(value_class, _version_of(value), value, 2)
    return ShareGroupChange(name.group_id, name.member_id if kind in _MEMBER_TYPES else None, kind, body)


def assignment_of(topics: Iterable[messages.TopicPartitions]) -> Assignment:
    """An assignment as a record has it."""
    return {topic.topic_id: tuple(topic.partitions) for topic in topics}


def shared_of(value: messages.ShareGroupStatePartitionMetadataValue) -> dict[UUID, SharedTopic]:
    """The partitions whose state is kept, as a record has them."""
    return {
        topic.topic_id: SharedTopic(topic.topic_name, tuple(topic.partitions)) for topic in value.initialized_topics
    }


def _topic_partitions(assignment: Assignment) -> list[messages.TopicPartitions]:
    return [
        messages.TopicPartitions(topic_id=topic_id, partitions=list(numbers))
        for topic_id, numbers in sorted(assignment.items())
    ]


def _record(key: Message, value: Message | None) -> StateRecord:
    framed_key = _INT16.pack(key.__api_key__) + encode_message(key, 0)
    return StateRecord(framed_key, None if value is None else _INT16.pack(_VERSION) + encode_message(value, _VERSION))


def _version_of(value: bytes) -> int:
    if len(value) < 2:
        raise FrameError(f"a share group record's value is {len(value)} bytes long")
    number: int = _INT16.unpack_from(value)[0]
    return number
