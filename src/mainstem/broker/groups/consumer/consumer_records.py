"""The records of consumer groups in ``__consumer_offsets``, in the format of Apache Kafka 4.3, and what they say.

A group is its epoch (3), its members (5), the epoch of its target assignment (6), each member's target (7) and current
assignment (8), and the matches of its regular expressions (16). What Kafka wrote before 4.1 about the partitions of
subscribed topics (4) is not written: the hash in (3) takes its place, as in 4.3. That hash is of our own making; a
coordinator only compares it with the one that it made before.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.groups.consumer.assignors import Assignment
from mainstem.protocol.codec import decode_message, encode_message
from mainstem.protocol.messages import consumer_group_records as kafka
from mainstem.protocol.schema import Message

if TYPE_CHECKING:
    from mainstem.broker.groups.consumer.consumer_group import ClassicSide, ConsumerGroup, ConsumerMember, MatchedTopics

_INT16: Final = struct.Struct(">h")
_VERSION: Final = 0

KEYS: Final[dict[int, type[Message]]] = {
    3: kafka.ConsumerGroupMetadataKey,
    5: kafka.ConsumerGroupMemberMetadataKey,
    6: kafka.ConsumerGroupTargetAssignmentMetadataKey,
    7: kafka.ConsumerGroupTargetAssignmentMemberKey,
    8: kafka.ConsumerGroupCurrentMemberAssignmentKey,
    16: kafka.ConsumerGroupRegularExpressionKey,
}
"""The key of each record type of a consumer group."""
VALUES: Final[dict[int, type[Message]]] = {
    3: kafka.ConsumerGroupMetadataValue,
    5: kafka.ConsumerGroupMemberMetadataValue,
    6: kafka.ConsumerGroupTargetAssignmentMetadataValue,
    7: kafka.ConsumerGroupTargetAssignmentMemberValue,
    8: kafka.ConsumerGroupCurrentMemberAssignmentValue,
    16: kafka.ConsumerGroupRegularExpressionValue,
}


def read_record(key: bytes, value: bytes | None) -> tuple[Message, Message | None]:
    """The key and the value of a record whose type is in ``KEYS``. Raises FrameError for one that is damaged."""
    kind: int = _INT16.unpack_from(key)[0]
    name = decode_message(KEYS[kind], 0, key, 2)
    if value is None:
        return name, None
    return name, decode_message(VALUES[kind], _VERSION, value, 2)


def epoch_record(group: ConsumerGroup) -> StateRecord:
    """The group's epoch, and a hash of the topics that it is about."""
    value = kafka.ConsumerGroupMetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash)
    return _record(kafka.ConsumerGroupMetadataKey(group_id=group.group_id), value)


def epoch_tombstone(group_id: str) -> StateRecord:
    """The group is gone."""
    return _record(kafka.ConsumerGroupMetadataKey(group_id=group_id), None)


def member_record(group_id: str, member: ConsumerMember) -> StateRecord:
    """The record of a member's identity and subscription."""
    value = kafka.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=_classic(member.classic),
    )
    return _record(kafka.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[StateRecord]:
    """The member is gone, and with it all that it had and was to have."""
    keys: tuple[Message, ...] = (
        kafka.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        kafka.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        kafka.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
    )
    return [_record(key, None) for key in keys]


def target_epoch_record(group: ConsumerGroup) -> StateRecord:
    """The epoch of the target assignment."""
    value = kafka.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=group.assignment_epoch)
    return _record(kafka.ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id), value)


def target_epoch_tombstone(group_id: str) -> StateRecord:
    """The tombstone of the target assignment's epoch."""
    return _record(kafka.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def target_record(group_id: str, member_id: str, target: Assignment) -> StateRecord:
    """The record of a member's target assignment."""
    value = kafka.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=_partitions(target))
    return _record(kafka.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def current_record(group_id: str, member: ConsumerMember) -> StateRecord:
    """The record of a member's current assignment, and of the partitions that it still has to give up."""
    value = kafka.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_current(member, member.assigned),
        partitions_pending_revocation=_current(member, member.pending_revocation),
    )
    key = kafka.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(key, value)


def pattern_record(group_id: str, pattern: str, matched: MatchedTopics) -> StateRecord:
    """The record of the topics that a regular expression matched."""
    value = kafka.ConsumerGroupRegularExpressionValue(
        topics=sorted(matched.topics), version=matched.version, timestamp=matched.timestamp_ms
    )
    return _record(kafka.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), value)


def pattern_tombstone(group_id: str, pattern: str) -> StateRecord:
    """The tombstone of a regular expression without subscribers."""
    return _record(kafka.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), None)


def _classic(side: ClassicSide | None) -> kafka.ClassicMemberMetadata | None:
    if side is None:
        return None
    protocols = [kafka.ClassicProtocol(name=name, metadata=metadata) for name, metadata in side.protocols]
    return kafka.ClassicMemberMetadata(session_timeout_ms=side.session_timeout_ms, supported_protocols=protocols)


def _partitions(assignment: Assignment) -> list[kafka.TopicPartitions]:
    return [kafka.TopicPartitions(topic_id=id_, partitions=sorted(assignment[id_])) for id_ in sorted(assignment)]


def _current(member: ConsumerMember, assignment: Assignment) -> list[kafka.CurrentTopicPartitions]:
    return [
        kafka.CurrentTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(numbers),
            assignment_epochs=[
                member.assignment_epochs.get((topic_id, number), member.member_epoch) for number in sorted(numbers)
            ],
        )
        for topic_id, numbers in sorted(assignment.items())
    ]


def _record(key: Message, value: Message | None) -> StateRecord:
    name = _INT16.pack(key.__api_key__) + encode_message(key, 0)
    return StateRecord(name, None if value is None else _INT16.pack(_VERSION) + encode_message(value, _VERSION))
