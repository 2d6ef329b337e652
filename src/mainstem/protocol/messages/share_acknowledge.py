"""The ShareAcknowledge API (79): its request and response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, nested, string, uuid_


class AcknowledgementBatch(Struct):
    """AcknowledgementBatch, a part of ShareAcknowledgeRequest."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: Sequence[int] = array("int8")


class AcknowledgePartition(Struct):
    """AcknowledgePartition, a part of ShareAcknowledgeRequest."""

    partition_index: int = int32()
    acknowledgement_batches: Sequence[AcknowledgementBatch] = array(AcknowledgementBatch)


class AcknowledgeTopic(Struct):
    """AcknowledgeTopic, a part of ShareAcknowledgeRequest."""

    topic_id: uuid.UUID = uuid_()
    partitions: Sequence[AcknowledgePartition] = array(AcknowledgePartition)


class ShareAcknowledgeRequest(Message, key=79, versions="1-2", flexible="0+"):
    """ShareAcknowledgeRequest."""

    group_id: str | None = string(default=None, nullable="0+")
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+", default=False)
    topics: Sequence[AcknowledgeTopic] = array(AcknowledgeTopic)


class LeaderIdAndEpoch(Struct):
    """LeaderIdAndEpoch, a part of ShareAcknowledgeResponse."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class PartitionData(Struct):
    """PartitionData, a part of ShareAcknowledgeResponse."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    """ShareAcknowledgeTopicResponse, a part of ShareAcknowledgeResponse."""

    topic_id: uuid.UUID = uuid_()
    partitions: Sequence[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    """NodeEndpoint, a part of ShareAcknowledgeResponse."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(default=None, nullable="0+")


class ShareAcknowledgeResponse(Message, key=79, versions="1-2", flexible="0+"):
    """ShareAcknowledgeResponse."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    acquisition_lock_timeout_ms: int = int32("2+", default=0)
    responses: Sequence[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint)
