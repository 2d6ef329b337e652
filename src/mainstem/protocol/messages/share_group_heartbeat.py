"""The ShareGroupHeartbeat API (76): its request and response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, int16, int32, nested, string, uuid_


class ShareGroupHeartbeatRequest(Message, key=76, versions="1", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(default=None, nullable="0+")
    subscribed_topic_names: Sequence[str] | None = array("string", default=None, nullable="0+")


class TopicPartitions(Struct):
    topic_id: uuid.UUID = uuid_()
    partitions: Sequence[int] = array("int32")


class Assignment(Struct):
    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


class ShareGroupHeartbeatResponse(Message, key=76, versions="1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    member_id: str | None = string(default=None, nullable="0+")
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, default=None, nullable="0+")
