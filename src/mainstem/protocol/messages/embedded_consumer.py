"""The consumer protocol that clients define among themselves, inside JoinGroup and SyncGroup: a version, then a struct.

A coordinator reads it where it assigns partitions to members of the classic protocol.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, bytestring, int32, string


class EmbeddedTopicPartitions(Struct):
    """TopicPartition: the partitions of one topic, by its name."""

    topic: str = string()
    partitions: Sequence[int] = array("int32")


class ConsumerProtocolSubscription(Message, key=-1, versions="0-3"):
    topics: Sequence[str] = array("string")
    user_data: bytes | None = bytestring(nullable="0+", default=None)
    owned_partitions: Sequence[EmbeddedTopicPartitions] = array(EmbeddedTopicPartitions, "1+", default=())
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


class ConsumerProtocolAssignment(Message, key=-1, versions="0-3"):
    assigned_partitions: Sequence[EmbeddedTopicPartitions] = array(EmbeddedTopicPartitions)
    user_data: bytes | None = bytestring(nullable="0+", default=None)
