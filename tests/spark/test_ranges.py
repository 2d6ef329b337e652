"""A scan's offsets become the work of tasks: all of them, once."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from mainstem.model import Position, TopicPartition
from mainstem.spark.options.read_options import Splits
from mainstem.spark.tasks.ranges import BUNDLED_OFFSETS_MAX, plan


def position(*ends: int) -> Position:
    return Position({TopicPartition("t", number): end for number, end in enumerate(ends)})


SPLITS = st.builds(
    Splits,
    *(st.none() | numbers for numbers in (st.integers(1, 20), st.integers(500, 90_000), st.integers(5000, 10**6))),
)
SIZES = st.dictionaries(st.integers(0, 4).map(lambda number: TopicPartition("t", number)), st.floats(0.01, 5000.0))


@given(st.lists(st.integers(0, 50_000), min_size=1, max_size=5), SPLITS, SIZES)
def test_every_offset_is_read_by_exactly_one_task(
    counts: list[int], splits: Splits, sizes: dict[TopicPartition, float]
) -> None:
    read = [
        (part.topic_partition.partition, part.start, part.end)
        for task in plan(position(), position(*counts), splits, sizes)
        for part in task.ranges
    ]
    for number, count in enumerate(counts):
        pieces = sorted((start, end) for partition, start, end in read if partition == number)
        assert [start for start, _ in pieces] == [0, *(end for _, end in pieces[:-1])][: len(pieces)]
        assert (pieces[-1][1] if pieces else 0) == count


def test_a_handful_of_records_is_one_task() -> None:
    assert len(plan(position(1, 1, 1, 1), position(9, 9, 9, 9))) == 1


def test_many_records_are_a_task_for_each_partition() -> None:
    assert len(plan(position(), position(BUNDLED_OFFSETS_MAX, 1, 1))) == 3


def test_more_tasks_than_partitions_are_made_when_asked_for() -> None:
    assert len(plan(position(), position(1000, 0), Splits(partitions_min=8))) == 8


def test_no_task_reads_more_records_than_asked_for() -> None:
    tasks = plan(position(), position(1000, 30), Splits(records_max=300))
    assert [len(task.ranges[0]) for task in tasks] == [250, 250, 250, 250, 30]


def test_no_task_reads_more_bytes_than_asked_for() -> None:
    sizes = {TopicPartition("t", 0): 10.0, TopicPartition("t", 1): 1000.0}
    tasks = plan(position(), position(100, 100), Splits(bytes_max=50_000), sizes)
    assert [len(task.ranges[0]) for task in tasks] == [100, 50, 50]


def test_large_records_are_cut_finer_than_small_ones() -> None:
    sizes = {TopicPartition("t", 0): 100.0, TopicPartition("t", 1): 700.0}
    tasks = plan(position(), position(1000, 1000), Splits(partitions_min=8), sizes)
    assert [task.ranges[0].topic_partition.partition for task in tasks] == [0, *[1] * 7]


def test_nothing_new_is_no_task() -> None:
    assert plan(position(5), position(5)) == []


def test_a_task_can_be_sent_to_a_worker() -> None:
    task = plan(position(), position(7))[0]
    assert pickle.loads(pickle.dumps(task)).ranges == task.ranges
