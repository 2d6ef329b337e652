"""Read limits: kept, and fair to every partition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainstem.model import Position, TopicPartition
from mainstem.spark.planning.limits import backlog, limited, limited_by_bytes

COUNTS = st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(0, 1000)), min_size=1)


def span(counts: dict[int, tuple[int, int]]) -> tuple[Position, Position]:
    start = Position({TopicPartition("t", p): first for p, (first, _) in counts.items()})
    return start, Position({TopicPartition("t", p): first + more for p, (first, more) in counts.items()})


@given(COUNTS, st.integers(1, 3000))
def test_a_limit_is_kept_and_used_up(counts: dict[int, tuple[int, int]], offsets_max: int) -> None:
    start, ends = span(counts)
    end = limited(start, ends, offsets_max)
    read = sum(end[tp] - start[tp] for tp in end)
    assert read == min(offsets_max, sum(more for _, more in counts.values()))
    assert end.covers(start)
    assert ends.covers(end)


@given(COUNTS, st.integers(6, 3000))
def test_a_limit_lets_every_backlog_shrink(counts: dict[int, tuple[int, int]], offsets_max: int) -> None:
    start, ends = span(counts)
    end = limited(start, ends, offsets_max)
    assert all(end[tp] > start[tp] for tp, count in backlog(start, ends).items() if count)


@given(COUNTS, st.integers(1, 100_000), st.floats(0.5, 500.0))
def test_a_limit_in_bytes_is_kept_but_for_an_offset_of_each(
    counts: dict[int, tuple[int, int]], bytes_max: int, size: float
) -> None:
    start, ends = span(counts)
    sizes = {tp: size * (tp.partition + 1) for tp in ends}
    end = limited_by_bytes(start, ends, bytes_max, sizes)
    assert ends.covers(end)
    assert all(end[tp] > start[tp] for tp, count in backlog(start, ends).items() if count)
    assert sum((end[tp] - start[tp]) * sizes[tp] for tp in end) <= bytes_max * 1.000001 + sum(sizes.values())


def test_a_backlog_within_the_limits_is_taken_whole() -> None:
    start, ends = span({0: (0, 10), 1: (5, 10)})
    assert limited(start, ends, 20) == ends
    assert limited_by_bytes(start, ends, 20, dict.fromkeys(ends, 1.0)) == ends
