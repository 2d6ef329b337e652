"""The OffsetFetch API (9): its request and response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int16, int32, int64, string, uuid_


class OffsetFetchRequestTopic(Struct):
    name: str = string("1-7", default="")
    partition_indexes: Sequence[int] = array("int32", "1-7", default=())


class OffsetFetchRequestTopics(Struct):
    name: str = string("8-9", default="")
    topic_id: uuid.UUID = uuid_("10+", default=ZERO_UUID)
    partition_indexes: Sequence[int] = array("int32", "8+", default=())


class OffsetFetchRequestGroup(Struct):
    group_id: str = string("8+", default="")
    member_id: str | None = string("9+", default=None, nullable="9+")
    member_epoch: int = int32("9+", default=-1)
    topics: Sequence[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, "8+", default=(), nullable="8+")


class OffsetFetchRequest(Message, key=9, versions="1-10", flexible="6+"):
    group_id: str = string("1-7", default="")
    topics: Sequence[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "1-7", default=(), nullable="2-7")
    groups: Sequence[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+", default=())
    require_stable: bool = boolean("7+", default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: int = int32("1-7", default=0)
    committed_offset: int = int64("1-7", default=0)
    committed_leader_epoch: int = int32("5-7", default=-1)
    metadata: str | None = string("1-7", default="", nullable="1-7")
    error_code: int = int16("1-7", default=0)


class OffsetFetchResponseTopic(Struct):
    name: str = string("1-7", default="")
    partitions: Sequence[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "1-7", default=())


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32("8+", default=0)
    committed_offset: int = int64("8+", default=0)
    committed_leader_epoch: int = int32("8+", default=-1)
    metadata: str | None = string("8+", default="", nullable="8+")
    error_code: int = int16("8+", default=0)


class OffsetFetchResponseTopics(Struct):
    name: str = string("8-9", default="")
    topic_id: uuid.UUID = uuid_("10+", default=ZERO_UUID)
    partitions: Sequence[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+", default=())


class OffsetFetchResponseGroup(Struct):
    group_id: str = string("8+", default="")
    topics: Sequence[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+", default=())
    error_code: int = int16("8+", default=0)


class OffsetFetchResponse(Message, key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: int = int32("3+", default=0)
    topics: Sequence[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "1-7", default=())
    error_code: int = int16("2-7", default=0)
    groups: Sequence[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+", default=())
