"""The current ends of a stream's partitions: one small Fetch to each broker, which waits for new records.

A Fetch says more in one round trip than ListOffsets: the end, whether the offset is still there, and, since it names
the topic's id, whether the topic is still the same. It returns at once when there are new records, with one record
batch at most.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from mainstem.client.wire.cluster.cluster import LATEST, Isolation, WireClient
from mainstem.errors import CorruptBatchError, OffsetOutOfRangeError, UnknownTopicError
from mainstem.model import Position, TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """The ends of the partitions that answered, and the partitions whose offset is out of range.

    ``is_former``: a topic's id has changed. A partition whose leader does not answer is in neither.
    """

    ends: Position
    out_of_range: frozenset[TopicPartition]
    is_former: bool


def look(
    client: WireClient, offsets: Mapping[TopicPartition, int], isolation: Isolation, wait_ms: int
) -> PartitionEnds:
    """Look from ``offsets`` on; with nothing after any of them, wait up to ``wait_ms`` until there is.

    Ends are last stable offsets when reading what is committed: were they high watermarks, a transaction that commits
    later below them would be skipped. Raises LogUnavailableError.
    """
    if not offsets:  # a pattern that no topic matches yet
        time.sleep(wait_ms / 1000)
    is_committed = isolation is Isolation.READ_COMMITTED
    try:
        fetched = client.fetch(
            offsets, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1, partition_max_bytes=1, read_committed=is_committed
        )
    except UnknownTopicError:
        return PartitionEnds(Position(), frozenset(), is_former=True)
    ends: dict[TopicPartition, int] = {}
    out_of_range = set()
    is_former = False
    damaged: list[TopicPartition] = []  # the task that reads them says so, or skips them
    for tp, found in fetched.items():
        if found.error is None:
            ends[tp] = max(offsets[tp], found.last_stable_offset if is_committed else found.high_watermark)
        elif isinstance(found.error, OffsetOutOfRangeError):
            out_of_range.add(tp)
        elif isinstance(found.error, UnknownTopicError):
            is_former = True
        elif isinstance(found.error, CorruptBatchError):
            damaged.append(tp)
        elif not found.heals:
            raise found.error
    if damaged:
        ends |= client.list_offsets(damaged, LATEST, isolation)
    return PartitionEnds(Position(ends), frozenset(out_of_range), is_former)
