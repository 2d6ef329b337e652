"""The partitions of a topic by the Kafka protocol: ends, sizes, leaders, and the deletion of their oldest records.

Functions over a ``WireClient``, whose contract they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST, Isolation, WireClient
from mainstem.client.wire.cluster.coordinated import wherever_it_is
from mainstem.client.wire.cluster.listed_offsets import list_offsets_request
from mainstem.client.wire.cluster.metadata import NO_LEADER, PartitionMetadata
from mainstem.errors import UnknownTopicError
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode, describe
from mainstem.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from mainstem.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

_MAX_TIMESTAMP: Final = -3
_QUESTIONS: Final = (
    (EARLIEST, Isolation.READ_UNCOMMITTED),
    (LATEST, Isolation.READ_UNCOMMITTED),
    (LATEST, Isolation.READ_COMMITTED),
    (_MAX_TIMESTAMP, Isolation.READ_UNCOMMITTED),
)


class PartitionDetails(NamedTuple):
    """One partition. None: it has no leader, or its brokers do not say. ``error``: why its offsets are not known.

    ``newest_ms`` is the greatest timestamp of its records.
    """

    topic_partition: TopicPartition
    beginning: int | None
    end: int | None
    committed_end: int | None
    newest_ms: int | None
    size_bytes: int | None
    leader_id: int | None
    leader_epoch: int
    error: str | None


def partition_states(client: WireClient, topic: str, after: int, limit: int) -> tuple[list[PartitionDetails], int]:
    """At most ``limit`` partitions with numbers above ``after``, and how many partitions the topic has.

    An error of one partition does not hide the others. Raises UnknownTopicError.
    """
    return wherever_it_is(client, lambda: _partition_states(client, topic, after, limit))


def _partition_states(client: WireClient, topic: str, after: int, limit: int) -> tuple[list[PartitionDetails], int]:
    found = client.metadata([topic])
    if topic not in found:
        raise UnknownTopicError(f"topic {topic!r} does not exist; mainstem topics list shows all")
    partitions = found[topic].partitions
    shown = [number for number in sorted(partitions) if number > after][:limit]
    by_leader: dict[int, list[int]] = {}
    for number in shown:
        by_leader.setdefault(partitions[number].leader_id, []).append(number)
    asked = [
        (list_offsets_request([TopicPartition(topic, number) for number in numbers], *question), leader)
        for leader, numbers in by_leader.items()
        if leader != NO_LEADER
        for question in _QUESTIONS
    ]
    answers = iter(client.request_all(asked))
    results: dict[int, list[Any]] = {number: [] for number in shown}
    for leader in by_leader:
        for _ in _QUESTIONS if leader != NO_LEADER else ():
            for of_topic in next(answers).topics:
                for result in of_topic.partitions:
                    results[result.partition_index].append(result)
    sizes = partition_sizes(client, topic, shown)
    states = [
        _state(
            TopicPartition(topic, number), partitions[number], results[number], sizes.get(TopicPartition(topic, number))
        )
        for number in shown
    ]
    return states, len(partitions)


def _state(
    tp: TopicPartition, known: PartitionMetadata, results: Sequence[Any], size_bytes: int | None
) -> PartitionDetails:
    if len(results) < len(_QUESTIONS):
        return PartitionDetails(tp, None, None, None, None, size_bytes, None, known.leader_epoch, "it has no leader")
    *ends, newest = results
    failed = next((each.error_code for each in ends if each.error_code != ErrorCode.NONE), None)
    beginning, end, committed_end = (each.offset if each.error_code == ErrorCode.NONE else None for each in ends)
    has_newest = newest.error_code == ErrorCode.NONE and newest.timestamp >= 0
    return PartitionDetails(
        tp,
        beginning,
        end,
        committed_end,
        newest.timestamp if has_newest else None,
        size_bytes,
        known.leader_id,
        known.leader_epoch,
        None if failed is None else describe(failed)[2],
    )


def partition_sizes(
    client: WireClient, topic: str | None = None, numbers: Iterable[int] = ()
) -> dict[TopicPartition, int]:
    """Bytes on disk, of the largest replica of each partition: of all topics, or of these partitions of ``topic``.

    What the brokers do not tell us is left out.
    """
    topics = None if topic is None else [DescribableLogDirTopic(topic=topic, partitions=list(numbers))]
    largest: dict[TopicPartition, int] = {}
    asked = [(DescribeLogDirsRequest(topics=topics), broker) for broker in sorted(client.brokers)]
    for answer in client.request_all(asked):
        for directory in answer.results:
            if directory.error_code != ErrorCode.NONE:
                continue
            for of_topic in directory.topics:
                for partition in of_topic.partitions:
                    tp = TopicPartition(of_topic.name, partition.partition_index)
                    largest[tp] = max(largest.get(tp, 0), partition.partition_size)
    return largest


def delete_records(client: WireClient, topic: str, offsets: Mapping[int, int]) -> dict[int, int]:
    """Delete the records before an offset of each partition; return where the partitions begin now.

    Raises UnknownTopicError, OffsetOutOfRangeError, AuthorizationError, InputError for an internal topic, ConfigError
    for one that is only compacted (Apache Kafka).
    """
    partitions = client.metadata([topic], wait=True)[topic].partitions
    by_leader: dict[int, list[DeleteRecordsPartition]] = {}
    for number, offset in offsets.items():
        asked = DeleteRecordsPartition(partition_index=number, offset=offset)
        by_leader.setdefault(partitions[number].leader_id, []).append(asked)
    begin: dict[int, int] = {}
    for leader, of_leader in by_leader.items():
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=of_leader)], timeout_ms=int(client.timeout_s * 1000)
        )
        for of_topic in client.request(request, leader, resends=True).topics:
            for result in of_topic.partitions:
                tp = TopicPartition(topic, result.partition_index)
                if result.error_code != ErrorCode.NONE:
                    raise error_of(result.error_code, f"{tp}: its records cannot be deleted", _why(result.error_code))
                begin[tp.partition] = result.low_watermark
    return begin


def _why(code: int) -> str | None:
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return "the topic is internal; its records stay"
    if code == ErrorCode.POLICY_VIOLATION:
        return "the topic is only compacted; set cleanup.policy=delete or compact,delete first"
    return None
