"""The records of ``__consumer_offsets`` that keep streams groups (KIP-1071), as Apache Kafka 4.3 declares them.

A record's key is the key struct after two bytes that say its type (``__api_key__``); its value is the value struct
after two bytes that say its version, which is 0 for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, int8, int16, int32, int64, nested, string, uint16


class StreamsGroupMetadataKey(Message, key=17, versions="0"):
    group_id: str = string()


class LastAssignmentConfig(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupMetadataValue(Message, key=17, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(default=-1, tag=0)
    last_assignment_configs: Sequence[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, default=None, nullable="0+", tag=1
    )


class StreamsGroupMemberMetadataKey(Message, key=19, versions="0"):
    group_id: str = string()
    member_id: str = string()


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupMemberMetadataValue(Message, key=19, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = nested(Endpoint, default=None, nullable="0+")
    client_tags: Sequence[KeyValue] = array(KeyValue)


class StreamsGroupTargetAssignmentMetadataKey(Message, key=20, versions="0"):
    group_id: str = string()


class StreamsGroupTargetAssignmentMetadataValue(Message, key=20, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(default=0, tag=0)


class StreamsGroupTargetAssignmentMemberKey(Message, key=21, versions="0"):
    group_id: str = string()
    member_id: str = string()


class TaskIds(Struct):
    subtopology_id: str = string()
    partitions: Sequence[int] = array("int32")


class StreamsGroupTargetAssignmentMemberValue(Message, key=21, versions="0", flexible="0+"):
    active_tasks: Sequence[TaskIds] = array(TaskIds)
    standby_tasks: Sequence[TaskIds] = array(TaskIds)
    warmup_tasks: Sequence[TaskIds] = array(TaskIds)


class StreamsGroupCurrentMemberAssignmentKey(Message, key=22, versions="0"):
    group_id: str = string()
    member_id: str = string()


class CurrentTaskIds(Struct):
    subtopology_id: str = string()
    partitions: Sequence[int] = array("int32")
    assignment_epochs: Sequence[int] | None = array("int32", default=None, nullable="0+", tag=0)


class StreamsGroupCurrentMemberAssignmentValue(Message, key=22, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: Sequence[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks: Sequence[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks: Sequence[CurrentTaskIds] = array(CurrentTaskIds)
    active_tasks_pending_revocation: Sequence[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks_pending_revocation: Sequence[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks_pending_revocation: Sequence[CurrentTaskIds] = array(CurrentTaskIds)


class StreamsGroupTopologyKey(Message, key=23, versions="0"):
    group_id: str = string()


class TopicConfig(Struct):
    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: Sequence[TopicConfig] = array(TopicConfig)


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


class StreamsGroupTopologyValue(Message, key=23, versions="0", flexible="0+"):
    epoch: int = int32()
    subtopologies: Sequence[Subtopology] = array(Subtopology)
