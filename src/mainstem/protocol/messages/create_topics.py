"""The CreateTopics API (19): its request and response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int8, int16, int32, string, uuid_


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32()
    broker_ids: Sequence[int] = array("int32")


class CreatableTopicConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")


class CreatableTopic(Struct):
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: Sequence[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: Sequence[CreatableTopicConfig] = array(CreatableTopicConfig)


class CreateTopicsRequest(Message, key=19, versions="2-7", flexible="5+"):
    topics: Sequence[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean(default=False)


class CreatableTopicConfigs(Struct):
    name: str = string("5+", default="")
    value: str | None = string("5+", default="", nullable="5+")
    read_only: bool = boolean("5+", default=False)
    config_source: int = int8("5+", default=-1)
    is_sensitive: bool = boolean("5+", default=False)


class CreatableTopicResult(Struct):
    name: str = string()
    topic_id: uuid.UUID = uuid_("7+", default=ZERO_UUID)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topic_config_error_code: int = int16("5+", default=0, tag=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: Sequence[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", default=(), nullable="5+")


class CreateTopicsResponse(Message, key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[CreatableTopicResult] = array(CreatableTopicResult)
