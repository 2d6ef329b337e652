"""Cuts a read into tasks: by its options or, without them, by the machine.

A stream's partition is one task unless an option says otherwise: a task reads its records in order, and a pipeline that
derives a topic by key relies on that. A batch read of much is cut, with nothing said, into as many pieces as there are
cores, when there are fewer partitions than those; cut further it was slower, as each task starts with a fetch of its
own.
"""

from __future__ import annotations

import os
from dataclasses import replace

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.model import Position
from mainstem.spark.options.read_options import ReadOptions, Splits
from mainstem.spark.planning.sizes import bytes_per_offset
from mainstem.spark.tasks.ranges import ScanPartition, plan, ranges_of

# A batch read of fewer records is not cut unasked.
UNASKED_OFFSETS_MIN = 200_000


def split(client: WireClient, start: Position, end: Position, options: ReadOptions) -> list[ScanPartition]:
    """The tasks of a batch read."""
    splits = options.splits
    offsets = sum(map(len, ranges_of(start, end)))
    if not splits.is_given and offsets >= UNASKED_OFFSETS_MIN and len(end) < _cores():
        splits = replace(splits, partitions_min=_cores())
    return split_by(client, start, end, options, splits)


def split_by(
    client: WireClient, start: Position, end: Position, options: ReadOptions, splits: Splits
) -> list[ScanPartition]:
    """The tasks that ``splits`` asks for; looks at sizes only where they decide."""
    ranges = ranges_of(start, end)
    weighs = splits.bytes_max is not None or (splits.partitions_min is not None and len(ranges) > 1)
    if not weighs or not ranges:
        return plan(start, end, splits)
    middles = {part.topic_partition: (part.start + part.end) // 2 for part in ranges}
    return plan(start, end, splits, bytes_per_offset(client, middles, options.isolation))


def _cores() -> int:
    """The cores that this process may use: with a local master, those of the tasks."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
