"""The Fetch API (1): its request and response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import (
    ZERO_UUID,
    Message,
    Records,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uuid_,
)


class ReplicaState(Struct):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: uuid.UUID = uuid_("17+", default=ZERO_UUID, tag=0)
    high_watermark: int = int64("18+", default=9223372036854775807, tag=1)


class FetchTopic(Struct):
    topic: str = string("4-12", default="")
    topic_id: uuid.UUID = uuid_("13+", default=ZERO_UUID)
    partitions: Sequence[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    topic: str = string("7-12", default="")
    topic_id: uuid.UUID = uuid_("13+", default=ZERO_UUID)
    partitions: Sequence[int] = array("int32", "7+", default=())


class FetchRequest(Message, key=1, versions="4-18", flexible="12+"):
    cluster_id: str | None = string("12+", default=None, nullable="12+", tag=0)
    replica_id: int = int32("4-14", default=-1)
    replica_state: ReplicaState = nested(ReplicaState, "15+", default=ReplicaState.of_defaults(), tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2147483647)
    isolation_level: int = int8(default=0)
    session_id: int = int32("7+", default=0)
    session_epoch: int = int32("7+", default=-1)
    topics: Sequence[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: Sequence[ForgottenTopic] = array(ForgottenTopic, "7+", default=())
    rack_id: str = string("11+", default="")


class EpochEndOffset(Struct):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Struct):
    """PartitionData, a part of FetchResponse.

    ``next_readable_offset`` is Mainstem's own, under a tag that clients pass over which do not know it: with the error
    CORRUPT_MESSAGE, where reading can go on after the damage.
    """

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: EpochEndOffset = nested(EpochEndOffset, "12+", default=EpochEndOffset.of_defaults(), tag=0)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, "12+", default=LeaderIdAndEpoch.of_defaults(), tag=1)
    snapshot_id: SnapshotId = nested(SnapshotId, "12+", default=SnapshotId.of_defaults(), tag=2)
    next_readable_offset: int = int64("12+", default=-1, tag=32001)
    aborted_transactions: Sequence[AbortedTransaction] | None = array(AbortedTransaction, nullable="0+")
    preferred_read_replica: int = int32("11+", default=-1)
    records: Records | None = records(nullable="0+")


class FetchableTopicResponse(Struct):
    topic: str = string("4-12", default="")
    topic_id: uuid.UUID = uuid_("13+", default=ZERO_UUID)
    partitions: Sequence[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32("16+", default=0)
    host: str = string("16+", default="")
    port: int = int32("16+", default=0)
    rack: str | None = string("16+", default=None, nullable="16+")


class FetchResponse(Message, key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("7+", default=0)
    session_id: int = int32("7+", default=0)
    responses: Sequence[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, "16+", default=(), tag=0)
