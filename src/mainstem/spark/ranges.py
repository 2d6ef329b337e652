"""A scan's work: ranges of offsets, cut and bundled into the input partitions of Spark's tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from mainstem.model import Position, TopicPartition

# So few records are not worth a task of their own: its round trip costs more than reading them.
BUNDLED_OFFSETS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets [start, end) of one partition."""

    topic_partition: TopicPartition
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


class ScanPartition(InputPartition):
    """What one task reads: ranges, one after the other."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)


def plan(start: Position, end: Position, partitions_min: int | None = None) -> list[ScanPartition]:
    """Input partitions for all that lies in between; none when there is nothing."""
    ranges = [OffsetRange(tp, start.get(tp, 0), offset) for tp, offset in end.items() if offset > start.get(tp, 0)]
    if partitions_min is None and sum(map(len, ranges)) <= BUNDLED_OFFSETS_MAX:
        return [ScanPartition(ranges)] if ranges else []
    pieces = _cut(ranges, partitions_min) if partitions_min is not None and ranges else ranges
    return [ScanPartition([piece]) for piece in pieces]


def _cut(ranges: Sequence[OffsetRange], partitions_min: int) -> Iterable[OffsetRange]:
    """At least so many pieces (if there are offsets enough), each range cut by its share of all offsets."""
    total = sum(map(len, ranges))
    for whole in ranges:
        count = min(len(whole), max(1, -(-len(whole) * partitions_min // total)))
        bounds = [whole.start + len(whole) * number // count for number in range(count + 1)]
        yield from (OffsetRange(whole.topic_partition, *pair) for pair in pairwise(bounds))
