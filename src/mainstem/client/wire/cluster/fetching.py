"""Fetch: the request for several partitions, and what comes back for each. Pure functions over protocol messages.

Partitions are asked for by topic id where the broker knows ids, so that a topic that was deleted and recreated is
never read at offsets of the deleted topic.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mainstem.client.failures import error_of, heals
from mainstem.client.wire.cluster.metadata import TopicMetadata
from mainstem.errors import DamagedRecordsError, MainstemError
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from mainstem.protocol.schema import ZERO_UUID
from mainstem.record.reader import AbortedTransaction

VERSION_MAX_BY_NAME = 12
"""From version 13 on topics are named by their ids."""
NO_RECORDS = memoryview(b"")


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bounds of a fetch: how long it waits, for how many bytes, and its most bytes (one whole batch in any case)."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    partition_max_bytes: int = 8 * 1024 * 1024
    read_committed: bool = True


class FetchedPartition(NamedTuple):
    """The result of a fetch for one partition.

    ``records`` holds whole record batches in the log's format, and perhaps an incomplete one at the end; the first
    batch may begin before the requested offset. ``error`` is the log's error for the partition, or None.
    """

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: tuple[AbortedTransaction, ...]
    error: MainstemError | None = None
    heals: bool = False
    """Whether the error may be gone at the next fetch."""

    @classmethod
    def failed(cls, error: MainstemError, *, heals: bool = False) -> FetchedPartition:
        return cls(NO_RECORDS, -1, -1, -1, (), error, heals)


def fetch_request(
    offsets: Mapping[TopicPartition, int], topics: Mapping[str, TopicMetadata], limits: FetchLimits
) -> tuple[FetchRequest, int | None]:
    """The request for the partitions of one broker, and the highest version that it may be sent in."""
    by_topic: dict[str, list[FetchPartition]] = {}
    for tp, offset in offsets.items():
        partition = FetchPartition(
            partition=tp.partition, fetch_offset=offset, partition_max_bytes=limits.partition_max_bytes
        )
        by_topic.setdefault(tp.topic, []).append(partition)
    asked = [
        FetchTopic(topic=name, topic_id=topics[name].topic_id, partitions=partitions)
        for name, partitions in by_topic.items()
    ]
    request = FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=1 if limits.read_committed else 0,
        topics=asked,
    )
    has_ids = all(topic.topic_id != ZERO_UUID for topic in asked)
    return request, None if has_ids else VERSION_MAX_BY_NAME


def asked_in(request: FetchRequest) -> Iterator[TopicPartition]:
    """The partitions that a request asks for."""
    for topic in request.topics:
        for partition in topic.partitions:
            yield TopicPartition(topic.topic, partition.partition)


def read_response(response: FetchResponse, asked: FetchRequest) -> Iterator[tuple[TopicPartition, FetchedPartition]]:
    """Yield what came back of each partition. Raises the error of the response as a whole."""
    if response.error_code != ErrorCode.NONE:
        raise error_of(response.error_code, "the log refuses the fetch")
    names: dict[uuid.UUID, str] = {topic.topic_id: topic.topic for topic in asked.topics}
    offsets = {(topic.topic, p.partition): p.fetch_offset for topic in asked.topics for p in topic.partitions}
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        for partition in topic.partitions:
            tp = TopicPartition(name, partition.partition_index)
            yield tp, _fetched(tp, offsets.get((name, tp.partition), -1), partition)


def _fetched(tp: TopicPartition, offset: int, data: PartitionData) -> FetchedPartition:
    if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        said = "it was removed (by retention or by request), or never written"
        return FetchedPartition.failed(error_of(data.error_code, f"{tp} has no offset {offset}", said))
    if data.error_code == ErrorCode.CORRUPT_MESSAGE:
        last = data.next_readable_offset - 1 if data.next_readable_offset > offset else None
        return FetchedPartition.failed(DamagedRecordsError(tp, offset, last, "the log reports damage in its files"))
    if data.error_code != ErrorCode.NONE:
        error = error_of(data.error_code, f"{tp} cannot be read from offset {offset}")
        return FetchedPartition.failed(error, heals=heals(data.error_code))
    aborted = tuple(
        AbortedTransaction(entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()
    )
    records = data.records
    return FetchedPartition(
        records if isinstance(records, memoryview) else NO_RECORDS,
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
        aborted,
    )
