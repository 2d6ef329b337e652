"""The Produce API (0): its request and response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import (
    ZERO_UUID,
    Message,
    Records,
    Struct,
    array,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uuid_,
)


class PartitionProduceData(Struct):
    index: int = int32()
    records: Records | None = records(nullable="0+")


class TopicProduceData(Struct):
    name: str = string("3-12", default="")
    topic_id: uuid.UUID = uuid_("13+", default=ZERO_UUID)
    partition_data: Sequence[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Message, key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = string(default=None, nullable="0+")
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: Sequence[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32("8+", default=0)
    batch_index_error_message: str | None = string("8+", default=None, nullable="8+")


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: Sequence[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", default=())
    error_message: str | None = string("8+", default=None, nullable="8+")
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "10+", default=LeaderIdAndEpoch.of_defaults(), tag=0)


class TopicProduceResponse(Struct):
    name: str = string("3-12", default="")
    topic_id: uuid.UUID = uuid_("13+", default=ZERO_UUID)
    partition_responses: Sequence[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    node_id: int = int32("10+", default=0)
    host: str = string("10+", default="")
    port: int = int32("10+", default=0)
    rack: str | None = string("10+", default=None, nullable="10+")


class ProduceResponse(Message, key=0, versions="3-13", flexible="9+"):
    responses: Sequence[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(default=0)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, "10+", default=(), tag=0)
