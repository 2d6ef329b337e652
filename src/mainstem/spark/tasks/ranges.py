"""A scan's work: ranges of offsets, cut and bundled into the input partitions of Spark's tasks. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from mainstem.model import Position, TopicPartition
from mainstem.spark.options.read_options import Splits

# So few records are not worth a task of their own: its round trip costs more than reading them.
BUNDLED_OFFSETS_MAX = 10_000
_NO_SPLITS = Splits()


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets [start, end) of one partition."""

    topic_partition: TopicPartition
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


class ScanPartition(InputPartition):
    """The input of one task: ranges, read one after the other.

    ``reader`` is the reader's name in records of losses, ``topic_ids`` the ids of the topics that the offsets belong
    to.
    """

    def __init__(
        self, ranges: Sequence[OffsetRange], reader: str = "", topic_ids: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)
        self.reader = reader
        self.topic_ids = dict(topic_ids or {})


class TableRead(InputPartition):
    """One partition of a table. Without ``end`` it ends where the checkpoint's current micro-batch says."""

    def __init__(self, topic_partition: TopicPartition, topic_id: str, end: int | None) -> None:
        super().__init__(None)
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.end = end


def ranges_of(start: Position, end: Position) -> list[OffsetRange]:
    """All that lies in between; empty ranges are left out."""
    return [OffsetRange(tp, start.get(tp, 0), offset) for tp, offset in end.items() if offset > start.get(tp, 0)]


def plan(
    start: Position,
    end: Position,
    splits: Splits = _NO_SPLITS,
    sizes: Mapping[TopicPartition, float] | None = None,
) -> list[ScanPartition]:
    """Input partitions for all that lies in between; none when there is nothing.

    ``sizes``, the bytes of one offset, weigh the partitions against each other; a partition without one counts like the
    average of the others.
    """
    ranges = ranges_of(start, end)
    if not splits.is_given and sum(map(len, ranges)) <= BUNDLED_OFFSETS_MAX:
        return [ScanPartition(ranges)] if ranges else []
    known = sizes or {}
    average = sum(known.values()) / len(known) if known else 1.0
    weights = [len(part) * known.get(part.topic_partition, average) for part in ranges]
    counts = _shared_out(ranges, weights, splits.partitions_min or 0)
    for number, (part, weight) in enumerate(zip(ranges, weights, strict=True)):
        by_records = -(-len(part) // splits.records_max) if splits.records_max is not None else 1
        by_bytes = -int(-weight // splits.bytes_max) if splits.bytes_max is not None and known else 1
        counts[number] = min(len(part), max(counts[number], by_records, by_bytes))
    return [ScanPartition([piece]) for part, count in zip(ranges, counts, strict=True) for piece in _cut(part, count)]


def _shared_out(ranges: Sequence[OffsetRange], weights: Sequence[float], least: int) -> list[int]:
    """Into how many pieces each range is cut so that there are ``least``: always the one with the largest pieces."""
    counts = [1] * len(ranges)
    heaviest = [(-weight, number) for number, weight in enumerate(weights) if len(ranges[number]) > 1]
    heapq.heapify(heaviest)
    for _ in range(least - len(ranges)):
        if not heaviest:
            break
        _, number = heapq.heappop(heaviest)
        counts[number] += 1
        if counts[number] < len(ranges[number]):
            heapq.heappush(heaviest, (-weights[number] / counts[number], number))
    return counts


def _cut(whole: OffsetRange, count: int) -> Iterable[OffsetRange]:
    bounds = [whole.start + len(whole) * number // count for number in range(count + 1)]
    return (OffsetRange(whole.topic_partition, *pair) for pair in pairwise(bounds))
