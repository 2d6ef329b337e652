"""The past of a view in the console: a slider, its marks, and what changed between two moments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from mainstem.console.time_machine.changes_table import cells, what_happened
from mainstem.console.time_machine.time_axis import STEPS, TimeAxis

if TYPE_CHECKING:
    from tests.console.conftest import Open
    from tests.console.stage import Stage

BUILT = {"what": "built", "position": "t/0:0", "time_ms": 1_000}
SNAPSHOT = {"what": "snapshot", "position": "t/0:7", "time_ms": 6_000}


def axis(moments: list[dict[str, Any]], first_ms: int | None, *, whole: bool = True) -> TimeAxis:
    return TimeAxis.of({"moments": moments, "whole": whole}, first_ms, 11_000)


def test_the_axis_begins_with_the_first_record() -> None:
    made = axis([BUILT, SNAPSHOT], 1_000)
    assert [mark.share for mark in made.marks] == [0.0, 0.5]
    assert made.marks[1].asks == "t/0:7"
    assert [made.at(place) for place in (0, STEPS / 2, STEPS)] == [
        "1970-01-01T00:00:01.000Z", "1970-01-01T00:00:06.000Z", "",
    ]  # fmt: skip


def test_where_records_were_removed_the_axis_begins_with_the_oldest_snapshot() -> None:
    made = axis([BUILT, SNAPSHOT], 1_000, whole=False)
    assert made.oldest_ms == 6_000
    assert [mark.asks for mark in made.marks] == ["t/0:7"]


@pytest.mark.parametrize("first_ms", [None, -1, 99_000])
def test_an_axis_without_a_past_is_a_point(first_ms: int | None) -> None:
    assert axis([], first_ms).at(0) == "1970-01-01T00:00:11.000Z"


def test_a_changed_row_tells_what_each_field_was_and_is() -> None:
    change = {"key": "k", "before": {"a": 1, "b": None}, "after": {"a": 2, "b": None, "c": "x"}}
    assert cells(change, ["a", "b", "c"]) == {
        "key": "k",
        "what": "changed",
        "field a": {"was": "1", "is": "2"},
        "field b": "null",
        "field c": {"was": None, "is": "x"},
    }
    assert what_happened({**change, "before": None}) == "added"
    assert what_happened({**change, "after": None}) == "removed"


@pytest.mark.browser
def test_two_moments_of_a_view_are_compared(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    before = stage.log.describe_topic("con-dots").committed_end
    stage.log.append("con-dots", {"id": "time-machine"}, key="time-machine")
    page = open_at("/console/views/con-dots", 390)
    page.get_by_text("The past begins").wait_for()
    page.locator(".q-slider__track-container").press("Home")
    expect(page.get_by_label("As of (a position or a time)")).to_have_value(re.compile("20.*Z"))
    page.get_by_label("From").fill(str(before))
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".changes ins", has_text="time-machine")).to_be_visible()
    page.locator(".q-slider__track-container").press("End")
    expect(page.get_by_label("As of (a position or a time)")).to_have_value("")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
