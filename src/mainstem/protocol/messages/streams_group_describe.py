"""The StreamsGroupDescribe API (89): its request and response."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, nested, string, uint16


class StreamsGroupDescribeRequest(Message, key=89, versions="0", flexible="0+"):
    group_ids: Sequence[str] = array("string")
    include_authorized_operations: bool = boolean()


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


class Assignment(Struct):
    active_tasks: Sequence[TaskIds] = array(TaskIds)
    standby_tasks: Sequence[TaskIds] = array(TaskIds)
    warmup_tasks: Sequence[TaskIds] = array(TaskIds)


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: Sequence[KeyValue] = array(KeyValue)


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: Sequence[str] = array("string")
    repartition_sink_topics: Sequence[str] = array("string")
    state_changelog_topics: Sequence[TopicInfo] = array(TopicInfo)
    repartition_source_topics: Sequence[TopicInfo] = array(TopicInfo)


class Topology(Struct):
    epoch: int = int32()
    subtopologies: Sequence[Subtopology] | None = array(Subtopology, default=None, nullable="0+")


class Member(Struct):
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(default=None, nullable="0+")
    rack_id: str | None = string(default=None, nullable="0+")
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = nested(Endpoint, default=None, nullable="0+")
    client_tags: Sequence[KeyValue] = array(KeyValue)
    task_offsets: Sequence[TaskOffset] = array(TaskOffset)
    task_end_offsets: Sequence[TaskOffset] = array(TaskOffset)
    assignment: Assignment = nested(Assignment)
    target_assignment: Assignment = nested(Assignment)
    is_classic: bool = boolean()


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: Topology | None = nested(Topology, default=None, nullable="0+")
    members: Sequence[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


class StreamsGroupDescribeResponse(Message, key=89, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    groups: Sequence[DescribedGroup] = array(DescribedGroup)
