from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainstem.log.segments.file_ranges import FileRanges

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted), max_size=12)


@given(SPANS, st.integers(0, 30), st.integers(0, 30))
def test_it_covers_exactly_the_union(spans: list[list[int]], start: int, end: int) -> None:
    ranges, model = FileRanges(), set()
    for first, last in spans:
        ranges.add(first, last)
        model |= set(range(first, last))
    if start < end:
        assert ranges.covers(start, end) == (set(range(start, end)) <= model)


@given(SPANS, st.integers(0, 30))
def test_cutting_takes_the_end_away(spans: list[list[int]], cut: int) -> None:
    ranges, model = FileRanges(), set()
    for first, last in spans:
        ranges.add(first, last)
        model |= set(range(first, last))
    ranges.cut(cut)
    for at in range(30):
        assert ranges.covers(at, at + 1) == (at in model and at < cut)


def test_reading_on_keeps_one_range() -> None:
    ranges = FileRanges()
    for start in range(0, 1000, 10):
        ranges.add(start, start + 10)
    assert ranges.covers(0, 1000)
    assert not ranges.covers(0, 1001)
