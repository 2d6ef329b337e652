"""A scan's offsets become the work of tasks: all of them, once."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from mainstem.model import Position, TopicPartition
from mainstem.spark.ranges import BUNDLED_OFFSETS_MAX, plan


def position(*ends: int) -> Position:
    return Position({TopicPartition("t", number): end for number, end in enumerate(ends)})


@given(st.lists(st.integers(0, 50_000), min_size=1, max_size=5), st.none() | st.integers(1, 20))
def test_every_offset_is_read_by_exactly_one_task(counts: list[int], partitions_min: int | None) -> None:
    read = [
        (part.topic_partition.partition, part.start, part.end)
        for task in plan(position(), position(*counts), partitions_min)
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
    assert len(plan(position(), position(1000, 0), partitions_min=8)) == 8


def test_nothing_new_is_no_task() -> None:
    assert plan(position(5), position(5)) == []


def test_a_task_can_be_sent_to_a_worker() -> None:
    task = plan(position(), position(7))[0]
    assert pickle.loads(pickle.dumps(task)).ranges == task.ranges
