"""The ListPartitionReassignments API (46): its request and response."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, int16, int32, string


class ListPartitionReassignmentsTopics(Struct):
    name: str = string()
    partition_indexes: Sequence[int] = array("int32")


class ListPartitionReassignmentsRequest(Message, key=46, versions="0", flexible="0+"):
    timeout_ms: int = int32(default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, default=None, nullable="0+"
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = int32()
    replicas: Sequence[int] = array("int32")
    adding_replicas: Sequence[int] = array("int32")
    removing_replicas: Sequence[int] = array("int32")


class OngoingTopicReassignment(Struct):
    name: str = string()
    partitions: Sequence[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(Message, key=46, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topics: Sequence[OngoingTopicReassignment] = array(OngoingTopicReassignment)
