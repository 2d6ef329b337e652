"""The StreamsGroupHeartbeat API (88): its request and response."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, int64, nested, string, uint16


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: Sequence[KeyValue] = array(KeyValue)


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class TaskOffset(Struct):
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class TaskIds(Struct):
    subtopology_id: str = string()
    partitions: Sequence[int] = array("int32")


class CopartitionGroup(Struct):
    source_topics: Sequence[int] = array("int16")
    source_topic_regex: Sequence[int] = array("int16")
    repartition_source_topics: Sequence[int] = array("int16")


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: Sequence[str] = array("string")
    source_topic_regex: Sequence[str] = array("string")
    state_changelog_topics: Sequence[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: Sequence[str] = array("string")
    repartition_source_topics: Sequence[TopicInfo] = array(TopicInfo)
    copartition_groups: Sequence[CopartitionGroup] = array(CopartitionGroup)


class Topology(Struct):
    epoch: int = int32()
    subtopologies: Sequence[Subtopology] = array(Subtopology)


class StreamsGroupHeartbeatRequest(Message, key=88, versions="0", flexible="0+"):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(default=None, nullable="0+")
    rack_id: str | None = string(default=None, nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    topology: Topology | None = nested(Topology, default=None, nullable="0+")
    active_tasks: Sequence[TaskIds] | None = array(TaskIds, default=None, nullable="0+")
    standby_tasks: Sequence[TaskIds] | None = array(TaskIds, default=None, nullable="0+")
    warmup_tasks: Sequence[TaskIds] | None = array(TaskIds, default=None, nullable="0+")
    process_id: str | None = string(default=None, nullable="0+")
    user_endpoint: Endpoint | None = nested(Endpoint, default=None, nullable="0+")
    client_tags: Sequence[KeyValue] | None = array(KeyValue, default=None, nullable="0+")
    task_offsets: Sequence[TaskOffset] | None = array(TaskOffset, default=None, nullable="0+")
    task_end_offsets: Sequence[TaskOffset] | None = array(TaskOffset, default=None, nullable="0+")
    shutdown_application: bool = boolean(default=False)


class Status(Struct):
    status_code: int = int8()
    status_detail: str = string()


class TopicPartition(Struct):
    topic: str = string()
    partitions: Sequence[int] = array("int32")


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = nested(Endpoint)
    active_partitions: Sequence[TopicPartition] = array(TopicPartition)
    standby_partitions: Sequence[TopicPartition] = array(TopicPartition)


class StreamsGroupHeartbeatResponse(Message, key=88, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag: int = int32()
    task_offset_interval_ms: int = int32()
    status: Sequence[Status] | None = array(Status, nullable="0+")
    active_tasks: Sequence[TaskIds] | None = array(TaskIds, default=None, nullable="0+")
    standby_tasks: Sequence[TaskIds] | None = array(TaskIds, default=None, nullable="0+")
    warmup_tasks: Sequence[TaskIds] | None = array(TaskIds, default=None, nullable="0+")
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: Sequence[EndpointToPartitions] | None = array(
        EndpointToPartitions, default=None, nullable="0+"
    )
