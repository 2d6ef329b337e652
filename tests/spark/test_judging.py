"""What becomes of one key's records when a topic is compared with a batch."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pytest

from mainstem.spark.verification.comparison_rules import UNKNOWN, ComparisonRules, DifferenceKind, Rule, Side

RECORDS, KEYS = ComparisonRules(Rule.MULTISET), ComparisonRules(Rule.LATEST)
DOUBLES = ComparisonRules(Rule.MULTISET, {"mean": 1e-9})
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def judge(
    terms: ComparisonRules, *sides: tuple[str, int, int], key: bytes | None = b"k"
) -> list[tuple[DifferenceKind, int]]:
    values = [Side(value.encode(), expected, actual, 0, 7) for value, expected, actual in sides]
    return [(judged.finding, judged.count) for judged in terms.judge(key, values)]


@pytest.mark.parametrize(
    ("sides", "found"),
    [
        ([("a", 1, 1)], []),
        ([("a", 1, 2)], [(DifferenceKind.EXTRA, 1)]),  # appended twice
        ([("a", 3, 1)], [(DifferenceKind.MISSING, 2)]),
        ([("a", 1, 0), ("b", 0, 1)], [(DifferenceKind.CHANGED, 1)]),
        ([("a", 2, 0), ("b", 0, 1)], [(DifferenceKind.CHANGED, 1), (DifferenceKind.MISSING, 1)]),
    ],
)
def test_each_record_has_to_be_there_as_often_as_the_batch_gives_it(
    sides: Sequence[tuple[str, int, int]], found: list[tuple[DifferenceKind, int]]
) -> None:
    assert judge(RECORDS, *sides) == found


@pytest.mark.parametrize(
    ("sides", "found"),
    [
        ([("a", 1, 0), ("b", 1, 1)], []),  # which of several rows of a key is the last, no batch can tell
        ([("a", 1, 0), ("b", 0, 1)], [(DifferenceKind.CHANGED, 1)]),
        ([("a", 1, 0)], [(DifferenceKind.MISSING, 1)]),
        ([("b", 0, 1)], [(DifferenceKind.EXTRA, 1)]),
    ],
)
def test_the_latest_value_has_to_be_one_of_the_batch(
    sides: Sequence[tuple[str, int, int]], found: list[tuple[DifferenceKind, int]]
) -> None:
    assert judge(KEYS, *sides) == found


def test_records_without_a_key_are_not_taken_for_changed_ones() -> None:
    assert judge(RECORDS, ("a", 1, 0), ("b", 0, 1), key=None) == [
        (DifferenceKind.MISSING, 1),
        (DifferenceKind.EXTRA, 1),
    ]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ('{"n":1,"mean":0.30000000000000004}', '{"n":1,"mean":0.3}', True),
        ('{"n":1,"mean":[1.5,{"x":0.30000000000000004}]}', '{"n":1,"mean":[1.5,{"x":0.3}]}', True),
        ('{"n":1,"mean":0.3001}', '{"n":1,"mean":0.3}', False),
        ('{"n":1.0000000000001,"mean":1}', '{"n":1,"mean":1}', False),  # no floating column
        ('{"n":1,"mean":null}', '{"n":1,"mean":0.0}', False),
        ('{"n":1,"mean":true}', '{"n":1,"mean":1}', False),
        ('{"n":1}', '{"mean":1}', False),
        ("no JSON", '{"n":1}', False),
    ],
)
def test_floating_numbers_may_differ_in_their_last_digits(one: str, other: str, alike: bool) -> None:
    assert DOUBLES.alike(one.encode(), other.encode()) is alike
    found = judge(DOUBLES, (one, 1, 0), (other, 0, 1))
    assert found == [(DifferenceKind.ROUNDING if alike else DifferenceKind.CHANGED, 1)]


def test_of_many_records_each_finds_the_one_that_is_alike() -> None:
    batch = [(f'{{"n":{n},"mean":0.30000000000000004}}', 1, 0) for n in range(50)]
    topic = [(f'{{"n":{n},"mean":0.3}}', 0, 1) for n in reversed(range(50))]
    assert judge(DOUBLES, *batch, *topic, key=None) == [(DifferenceKind.ROUNDING, 1)] * 50


def test_many_records_that_differ_in_floating_columns_alone_are_each_compared_with_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[bytes | None] = []

    def alike(
        self: ComparisonRules, one: bytes | None, other: bytes | None, alike: Any = ComparisonRules.alike
    ) -> bool:
        compared.append(one)
        return bool(alike(self, one, other))

    monkeypatch.setattr(ComparisonRules, "alike", alike)
    batch = [(f'{{"mean":{n + 0.1 + 0.2}}}', 1, 0) for n in range(500)]
    topic = [(f'{{"mean":{n + 0.3}}}', 0, 1) for n in range(500)]
    found = judge(DOUBLES, *batch, *topic, key=None)
    assert {finding for finding, _ in found} <= {DifferenceKind.ROUNDING}
    assert len(compared) < 1_500


@pytest.mark.parametrize("foreign", ['{"mean":1' + 400 * "0" + "}", 50_000 * "[", '{"mean":NaN}', '{"mean":Infinity}'])
def test_a_foreign_record_of_any_size_is_one_more_difference(foreign: str) -> None:
    found = judge(DOUBLES, ('{"mean":0.30000000000000004}', 1, 0), (foreign, 0, 1), key=None)
    assert found == [(DifferenceKind.MISSING, 1), (DifferenceKind.EXTRA, 1)]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('{"window":{"start":"2026-01-01T12:00:00Z","end":"2026-01-01T13:00:00Z"}}', DifferenceKind.HELD_BACK),
        ('{"window":{"start":"2026-01-01T11:00:00Z","end":"2026-01-01T12:00:00Z"}}', DifferenceKind.MISSING),
        ('{"window":"2026-01-01T12:00:01"}', DifferenceKind.HELD_BACK),
        ('{"window":null}', DifferenceKind.MISSING),
        ("{}", DifferenceKind.MISSING),
    ],
)
def test_a_row_is_held_back_while_its_time_lies_behind_the_watermark(value: str, found: DifferenceKind) -> None:
    windows = ComparisonRules(Rule.MULTISET, watermark=NOON, event_time="window")
    assert judge(windows, (value, 1, 0)) == [(found, 1)]


def test_where_no_column_tells_the_time_whatever_is_missing_may_be_held_back() -> None:
    assert judge(ComparisonRules(Rule.MULTISET, watermark=NOON), ('{"a":1}', 2, 0)) == [(DifferenceKind.UNDECIDED, 2)]


def test_what_waits_for_a_watermark_that_nobody_knows_is_not_said_to_be_held_back() -> None:
    terms = ComparisonRules(Rule.MULTISET, watermark=UNKNOWN, event_time="at")
    assert judge(terms, ('{"at":"2013-01-01T00:00:00Z"}', 1, 0)) == [(DifferenceKind.UNDECIDED, 1)]
    assert judge(terms, ('{"at":null}', 1, 0)) == [(DifferenceKind.MISSING, 1)]


@pytest.mark.parametrize(
    ("hours", "found"),
    [
        ((13,), DifferenceKind.HELD_BACK),
        ((11,), DifferenceKind.MISSING),
        ((13, 11), DifferenceKind.MISSING),
        ((13, 14), DifferenceKind.HELD_BACK),
    ],
)
def test_a_key_of_which_all_rows_are_held_back_may_be_missing(hours: Sequence[int], found: DifferenceKind) -> None:
    terms = ComparisonRules(Rule.LATEST, watermark=NOON, event_time="at")
    assert judge(terms, *((f'{{"at":"2026-01-01T{hour}:00:00Z"}}', 1, 0) for hour in hours)) == [(found, 1)]


@pytest.mark.parametrize("foreign", ["5", "[1]", '"text"', "true", "null"])
def test_a_record_that_is_no_object_is_one_more_difference(foreign: str) -> None:
    found = judge(DOUBLES, ('{"mean":0.30000000000000004}', 1, 0), ('{"mean":0.3}', 0, 1), (foreign, 0, 1))
    assert found == [(DifferenceKind.ROUNDING, 1), (DifferenceKind.EXTRA, 1)]


def test_what_removed_records_may_explain_is_not_judged() -> None:
    terms = ComparisonRules(Rule.MULTISET, not_judged=frozenset({DifferenceKind.EXTRA}))
    assert judge(terms, ("a", 0, 1)) == [(DifferenceKind.NOT_JUDGED, 1)]
    assert judge(terms, ("a", 1, 0)) == [(DifferenceKind.MISSING, 1)]
