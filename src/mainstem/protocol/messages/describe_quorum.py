"""The DescribeQuorum API (55): its request and response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, int64, string, uint16, uuid_


class RequestPartitionData(Struct):
    partition_index: int = int32()


class RequestTopicData(Struct):
    topic_name: str = string()
    partitions: Sequence[RequestPartitionData] = array(RequestPartitionData)


class DescribeQuorumRequest(Message, key=55, versions="0-2", flexible="0+"):
    topics: Sequence[RequestTopicData] = array(RequestTopicData)


class ReplicaState(Struct):
    replica_id: int = int32()
    replica_directory_id: uuid.UUID = uuid_("2+", default=ZERO_UUID)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


class ResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", default="", nullable="2+")
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: Sequence[ReplicaState] = array(ReplicaState)
    observers: Sequence[ReplicaState] = array(ReplicaState)


class ResponseTopicData(Struct):
    topic_name: str = string()
    partitions: Sequence[ResponsePartitionData] = array(ResponsePartitionData)


class Listener(Struct):
    name: str = string("2+", default="")
    host: str = string("2+", default="")
    port: int = uint16("2+", default=0)


class Node(Struct):
    node_id: int = int32("2+", default=0)
    listeners: Sequence[Listener] = array(Listener, "2+", default=())


class DescribeQuorumResponse(Message, key=55, versions="0-2", flexible="0+"):
    error_code: int = int16()
    error_message: str | None = string("2+", default="", nullable="2+")
    topics: Sequence[ResponseTopicData] = array(ResponseTopicData)
    nodes: Sequence[Node] = array(Node, "2+", default=())
