"""The DescribeProducers API (61): its request and response."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, int16, int32, int64, string


class TopicRequest(Struct):
    name: str = string()
    partition_indexes: Sequence[int] = array("int32")


class DescribeProducersRequest(Message, key=61, versions="0", flexible="0+"):
    topics: Sequence[TopicRequest] = array(TopicRequest)


class ProducerState(Struct):
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class PartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    active_producers: Sequence[ProducerState] = array(ProducerState)


class TopicResponse(Struct):
    name: str = string()
    partitions: Sequence[PartitionResponse] = array(PartitionResponse)


class DescribeProducersResponse(Message, key=61, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[TopicResponse] = array(TopicResponse)
