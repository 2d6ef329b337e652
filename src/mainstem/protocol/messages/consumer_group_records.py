"""The records of ``__consumer_offsets`` that keep consumer groups (KIP-848), as Apache Kafka 4.3 declares them.

A record's key is the key struct after two bytes that say its type (``__api_key__``); its value is the value struct
after two bytes that say its version, which is 0 for all of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, bytestring, int8, int32, int64, nested, string, uuid_


class ConsumerGroupMetadataKey(Message, key=3, versions="0"):
    group_id: str = string()


class ConsumerGroupMetadataValue(Message, key=3, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64("0+", default=0, tag=0)


class ConsumerGroupMemberMetadataKey(Message, key=5, versions="0"):
    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Struct):
    """ClassicProtocol: a protocol that a member of the classic protocol supports, and its subscription."""

    name: str = string()
    metadata: bytes = bytestring()


class ClassicMemberMetadata(Struct):
    """ClassicMemberMetadata: of a member that speaks the classic protocol."""

    session_timeout_ms: int = int32()
    supported_protocols: Sequence[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message, key=5, versions="0", flexible="0+"):
    """ConsumerGroupMemberMetadataValue: a member, and what it subscribes to.

    ``classic_member_metadata`` is None for a member of the consumer protocol. Its default is not None but a struct of
    defaults, as in Kafka, which writes None in full: it takes a member without the tag for one of the classic protocol.
    """

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array("string")
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = nested(ClassicMemberMetadata, nullable="0+", tag=0)


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, versions="0"):
    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions="0", flexible="0+"):
    assignment_epoch: int = int32()


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions="0"):
    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Struct):
    """TopicPartitions, a part of the target assignment."""

    topic_id: uuid.UUID = uuid_()
    partitions: Sequence[int] = array("int32")


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, versions="0", flexible="0+"):
    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions="0"):
    group_id: str = string()
    member_id: str = string()


class CurrentTopicPartitions(Struct):
    """TopicPartitions of the current assignment. ``assignment_epochs``: one for each partition, or none (KIP-1251)."""

    topic_id: uuid.UUID = uuid_()
    partitions: Sequence[int] = array("int32")
    assignment_epochs: Sequence[int] | None = array("int32", default=(), nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: Sequence[CurrentTopicPartitions] = array(CurrentTopicPartitions)
    partitions_pending_revocation: Sequence[CurrentTopicPartitions] = array(CurrentTopicPartitions)


class ConsumerGroupRegularExpressionKey(Message, key=16, versions="0"):
    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, key=16, versions="0", flexible="0+"):
    topics: Sequence[str] = array("string")
    version: int = int64()
    timestamp: int = int64()
