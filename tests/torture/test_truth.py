"""The checker finds what is wrong with results that are wrong on purpose."""

from __future__ import annotations

import pytest

from tests.torture.truth import Covered, Given, Seen, check, check_progress, check_rebuilt, check_totals, check_whole

GIVEN = [Given("a", 0, 0, 0), Given("a", 1, 0, 1), Given("b", 0, 1, 0), Given("b", 1)]
RIGHT = [Seen(0, 0, "a", 0), Seen(0, 5, "a", 1), Seen(1, 3, "b", 0)]


def kinds(seen: list[Seen]) -> list[str]:
    return [fault.kind for fault in check(GIVEN, seen).faults]


def test_each_record_once_in_its_order_is_right() -> None:
    verdict = check(GIVEN, RIGHT)
    assert verdict.faults == ()
    assert str(verdict) == "3 records given, 3 seen, 3 distinct: 0 duplicate, 0 lost"


def test_what_nobody_acknowledged_may_be_there_or_not() -> None:
    assert kinds([*RIGHT, Seen(1, 4, "b", 1)]) == []


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (RIGHT[:2], ["lost"]),
        ([*RIGHT, Seen(1, 9, "b", 0)], ["duplicate"]),
        ([*RIGHT, Seen(1, 9, "c", 0)], ["unexpected"]),
        ([Seen(0, 0, "a", 1), Seen(0, 5, "a", 0), RIGHT[2]], ["reordered"]),
        ([], ["lost"] * 3),
    ],
)
def test_a_result_that_is_wrong_is_found_out(seen: list[Seen], found: list[str]) -> None:
    assert kinds(seen) == found
    assert check(GIVEN, seen, is_ordered=False).faults == tuple(
        fault for fault in check(GIVEN, seen).faults if fault.kind != "reordered"
    )


def test_a_count_that_goes_back_or_ends_wrong_is_found_out() -> None:
    given = [Given("a", 0, 0, 0), Given("a", 1, 0, 1), Given("a", 2, 0, 2)]
    assert check_totals(given, [Seen(0, 0, "a", 2), Seen(0, 4, "a", 3)]).faults == ()
    twice = check_totals(given, [Seen(0, 0, "a", 2), Seen(0, 2, "a", 2), Seen(0, 4, "a", 3)])
    assert [fault.kind for fault in twice.faults] == ["went-back"]
    short = check_totals(given, [Seen(0, 0, "a", 2)])
    assert [fault.kind for fault in short.faults] == ["wrong-total"]


def test_a_rebuild_that_appends_twice_or_ends_wrong_is_found_out() -> None:
    given = [Given("a", 0, 0, 0), Given("a", 1, 0, 1)]
    assert check_rebuilt(given, [Seen(0, 0, "a", 2), Seen(0, 2, "a", 6)], 3).faults == ()
    twice = check_rebuilt(given, [Seen(0, 0, "a", 6), Seen(0, 2, "a", 6)], 3)
    assert [fault.kind for fault in twice.faults] == ["repeated"]
    assert [fault.kind for fault in check_rebuilt(given, [Seen(0, 0, "a", 2)], 3).faults] == ["wrong-total"]


def test_a_batch_write_of_which_a_part_is_visible_is_found_out() -> None:
    writes = {"w0": ["a#0", "a#1"], "w1": ["b#0"]}
    assert check_whole(writes, RIGHT[:2]).faults == ()
    assert [fault.kind for fault in check_whole(writes, RIGHT[1:]).faults] == ["torn"]
    assert [fault.kind for fault in check_whole(writes, [*RIGHT, RIGHT[2]]).faults] == ["duplicate"]
    assert [fault.kind for fault in check_whole({}, RIGHT[:1]).faults] == ["unexpected"]


def test_progress_that_is_ahead_of_the_output_is_found_out() -> None:
    said = Covered({0: 2}, {0: 6})
    assert list(check_progress(GIVEN, RIGHT, [said])) == []
    for wrong in (Covered({0: 2}, {0: 5}), Covered({0: 2, 1: 1}, {0: 6, 1: 3})):
        assert [fault.kind for fault in check_progress(GIVEN, RIGHT, [wrong])] == ["ahead"]
