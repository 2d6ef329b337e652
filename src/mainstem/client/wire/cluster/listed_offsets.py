"""ListOffsets: its requests of a bounded size, and what an answer says. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mainstem.model import TopicPartition
from mainstem.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_PARTITIONS_MAX: Final = 2_000
"""Of one request: it and its answer, 60 kB, fit into the buffers of a socket while each side is still writing."""
_TIMEOUT_MS: Final = 30_000


def parts(topic_partitions: list[TopicPartition]) -> list[list[TopicPartition]]:
    """The partitions of each request."""
    return [topic_partitions[at : at + _PARTITIONS_MAX] for at in range(0, len(topic_partitions), _PARTITIONS_MAX)]


def list_offsets_request(topic_partitions: list[TopicPartition], at: int, isolation: int) -> ListOffsetsRequest:
    """The request for the offsets at a time, or at one of Kafka's negative numbers, as EARLIEST."""
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for topic, number in topic_partitions:
        partition = ListOffsetsPartition(partition_index=number, timestamp=at)
        by_topic.setdefault(topic, []).append(partition)
    topics = [ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics, timeout_ms=_TIMEOUT_MS)


def listed_offsets(answer: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, int, int]]:
    """Each partition with its error code and its offset, -1 where there is none."""
    for topic in answer.topics:
        for each in topic.partitions:
            yield TopicPartition(topic.name, each.partition_index), each.error_code, each.offset
