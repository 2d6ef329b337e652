"""The ConsumerGroupHeartbeat API (68): its request and response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, int16, int32, nested, string, uuid_


class RequestTopicPartitions(Struct):
    topic_id: uuid.UUID = uuid_()
    partitions: Sequence[int] = array("int32")


class ConsumerGroupHeartbeatRequest(Message, key=68, versions="0-1", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(default=None, nullable="0+")
    rack_id: str | None = string(default=None, nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: Sequence[str] | None = array("string", default=None, nullable="0+")
    subscribed_topic_regex: str | None = string("1+", default=None, nullable="1+")
    server_assignor: str | None = string(default=None, nullable="0+")
    topic_partitions: Sequence[RequestTopicPartitions] | None = array(
        RequestTopicPartitions, default=None, nullable="0+"
    )


class ResponseTopicPartitions(Struct):
    topic_id: uuid.UUID = uuid_()
    partitions: Sequence[int] = array("int32")


class Assignment(Struct):
    topic_partitions: Sequence[ResponseTopicPartitions] = array(ResponseTopicPartitions)


class ConsumerGroupHeartbeatResponse(Message, key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    member_id: str | None = string(default=None, nullable="0+")
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, default=None, nullable="0+")
