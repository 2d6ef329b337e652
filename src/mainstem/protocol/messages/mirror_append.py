"""The MirrorAppend API (32002), which is Mainstem's own: its request and response.

ApiVersions lists it only for clients with the software name mainstem.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Records, Struct, array, int16, int32, int64, records, string


class MirroredPartition(Struct):
    index: int = int32()
    expected_end_offset: int = int64()
    fill_to_offset: int = int64(default=-1)
    start_offset: int = int64(default=0)
    records: Records | None = records(nullable="0+")


class MirroredTopic(Struct):
    name: str = string()
    partitions: Sequence[MirroredPartition] = array(MirroredPartition)


class MirrorAppendRequest(Message, key=32002, versions="0", flexible="0+"):
    """Record batches of another log, each partition's after ``expected_end_offset``, at the offsets that they carry.

    Offsets without a batch are filled, also up to ``fill_to_offset``. ``start_offset`` is where the source begins.
    """

    topics: Sequence[MirroredTopic] = array(MirroredTopic)


class MirroredPartitionResult(Struct):
    index: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(default=None, nullable="0+")
    log_end_offset: int = int64(default=-1)


class MirroredTopicResult(Struct):
    name: str = string()
    partitions: Sequence[MirroredPartitionResult] = array(MirroredPartitionResult)


class MirrorAppendResponse(Message, key=32002, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(default=None, nullable="0+")
    topics: Sequence[MirroredTopicResult] = array(MirroredTopicResult, default=())
