"""The DescribeTopicPartitions API (75): its request and response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, boolean, int16, int32, nested, string, uuid_


class TopicRequest(Struct):
    name: str = string()


class RequestCursor(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(Message, key=75, versions="0", flexible="0+"):
    topics: Sequence[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: RequestCursor | None = nested(RequestCursor, default=None, nullable="0+")


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: Sequence[int] = array("int32")
    isr_nodes: Sequence[int] = array("int32")
    eligible_leader_replicas: Sequence[int] | None = array("int32", default=None, nullable="0+")
    last_known_elr: Sequence[int] | None = array("int32", default=None, nullable="0+")
    offline_replicas: Sequence[int] = array("int32")


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: uuid.UUID = uuid_()
    is_internal: bool = boolean(default=False)
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition)
    topic_authorized_operations: int = int32(default=-2147483648)


class ResponseCursor(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsResponse(Message, key=75, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: ResponseCursor | None = nested(ResponseCursor, default=None, nullable="0+")
