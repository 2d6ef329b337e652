"""Filters that Spark hands down: what they leave out could not have passed, and nothing else is left out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.client.wire.cluster.cluster import Isolation
from mainstem.model import Position, TopicPartition
from mainstem.spark.features import HAS_FILTERS
from mainstem.spark.options.columns import PLACE_COLUMNS, RECORD_COLUMNS
from mainstem.spark.planning.filters import Narrowing, narrowed, narrowing

if not HAS_FILTERS:
    pytest.skip("this PySpark hands no filters down", allow_module_level=True)
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

COLUMNS = {name: name for name in RECORD_COLUMNS}
COMPARISONS = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)


def at(milliseconds: float) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "offset": st.integers(-2, 12),
    "partition": st.integers(-1, 4),
    "topic": st.sampled_from(["a", "b", "c"]),
    "timestamp": st.integers(-4, 40).map(lambda quarters: at(quarters / 4)),
}


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    column = draw(st.sampled_from(sorted(VALUES)))
    kind = draw(st.sampled_from([*COMPARISONS, In, Not]))
    value = draw(VALUES[column])
    if kind is In:
        return In((column,), tuple(draw(st.lists(VALUES[column], max_size=3))))
    return Not(EqualTo((column,), value)) if kind is Not else kind((column,), value)


def passes(row: dict[str, Any], each: Filter) -> bool:
    """As Spark has it."""
    if isinstance(each, Not):
        return not passes(row, each.child)
    column, value = row[each.attribute[0]], each.value  # type: ignore[attr-defined]
    if isinstance(each, In):
        return column in value
    compare = {
        GreaterThan: lambda: column > value,
        GreaterThanOrEqual: lambda: column >= value,
        LessThan: lambda: column < value,
        LessThanOrEqual: lambda: column <= value,
    }
    return bool(compare.get(type(each), lambda: column == value)())


class Times:
    """A log's answer to the question at which offset a time begins, of records in any order of time."""

    def __init__(self, times: dict[TopicPartition, list[int]]) -> None:
        self.times = times

    def list_offsets(self, tps: Iterable[TopicPartition], time_ms: int, _: Isolation) -> dict[TopicPartition, int]:
        assert time_ms > 0, "the log takes this for a word"
        found = {tp: [n for n, stamp in enumerate(self.times[tp]) if stamp >= time_ms] for tp in tps}
        return {tp: offsets[0] for tp, offsets in found.items() if offsets}


TIMES = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 3)),
    st.lists(st.integers(-1, 10), max_size=10),
)


@given(TIMES, st.lists(filters(), max_size=3))
def test_what_is_left_out_could_not_have_passed(times: dict[TopicPartition, list[int]], given: list[Filter]) -> None:
    start, end = Position(dict.fromkeys(times, 0)), Position({tp: len(stamps) for tp, stamps in times.items()})
    first, last = narrowed(Times(times), start, end, narrowing(given, COLUMNS), Isolation.READ_COMMITTED)  # type: ignore[arg-type]
    for tp, stamps in times.items():
        for offset, stamp in enumerate(stamps):
            row = {"topic": tp.topic, "partition": tp.partition, "offset": offset, "timestamp": at(stamp)}
            if all(passes(row, each) for each in given):
                assert tp in first
                assert first[tp] <= offset < last[tp]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([GreaterThan(("offset",), 4), LessThanOrEqual(("offset",), 9)], Narrowing(5, 10)),
        ([In(("offset",), (7, 3))], Narrowing(3, 8)),
        ([EqualTo(("partition",), 1)], Narrowing(partitions=frozenset({1}))),
        ([In(("topic",), ("a", "b")), EqualTo(("topic",), "a")], Narrowing(topics=frozenset({"a"}))),
        ([GreaterThanOrEqual(("timestamp",), at(1500.9))], Narrowing(time_ms_min=1500)),
        ([LessThan(("timestamp",), at(1500))], Narrowing()),
        ([IsNotNull(("offset",)), Not(EqualTo(("offset",), 5)), EqualTo(("key",), b"k")], Narrowing()),
        ([EqualTo(("headers", "offset"), 5)], Narrowing()),
    ],
)
def test_a_filter_narrows(given: list[Filter], wanted: Narrowing) -> None:
    assert narrowing(given, COLUMNS) == wanted


def test_typed_rows_are_narrowed_by_their_place_alone() -> None:
    given = [GreaterThan(("offset",), 4), EqualTo(("_partition",), 1)]
    assert narrowing(given, PLACE_COLUMNS) == Narrowing(partitions=frozenset({1}))
