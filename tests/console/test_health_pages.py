"""The sign in the header, the page of problems, the history, and the small lines in lists."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mainstem.console.health.history_charts import CHARTS, SHOWN_MAX, charts_of_pipeline, drawn, patterns
from mainstem.console.health.history_marks import MARKS_MAX, marks_of, shown_marks
from mainstem.console.health.trends import line
from mainstem.pipelines.control.run_log import RUN_LOG_TOPIC, RunEvent, RunLogEntry
from mainstem.pipelines.state import STATES_TOPIC, Status
from tests.console.stage import Stage
from tests.pipelines.states import STATE

if TYPE_CHECKING:
    from tests.console.conftest import Open


_HAS_MARK = """label => {
    const place = [...document.querySelectorAll('.chart')].find(each => each.offsetHeight > 0);
    const series = place ? getElement(Number(place.id.slice(1))).chart?.getOption().series ?? [] : [];
    return series.some(each => (each.markLine?.data ?? []).some(mark => mark.name === label));
}"""


def test_a_small_line_begins_at_zero_and_says_its_last_and_greatest_value() -> None:
    found = line([(0, 0), (50, 20), (100, 10)], 0, 100)
    assert found == {"points": "0.0,21.0 48.0,1.0 96.0,11.0", "label": "now 10, at most 20"}
    assert line([], 0, 100)["label"] == "nothing known"


def test_a_chart_shows_the_greatest_series_and_counts_the_others() -> None:
    chart = next(each for each in CHARTS if each.title == "Records in")
    series = {f"topic/t{n}/records_in_per_s": [[0, n], [1, n]] for n in range(20)}
    found = drawn(chart, {**series, "node/records_in_per_s": [[0, 1]], "view/v/lag": [[0, 9]]})
    names = [each["name"] for each in found.options["series"]]
    assert names == ["all topics", *(f"t{n}" for n in range(19, 19 - SHOWN_MAX + 1, -1))]
    assert found.left_out == 21 - SHOWN_MAX
    assert not drawn(chart, {}).has_points


def mark(at_ms: int, name: str, event: str = "started") -> dict[str, object]:
    return {"at_ms": at_ms, "name": name, "event": event, "text": ""}


def test_events_that_happened_together_are_one_mark() -> None:
    hour = 3_600_000
    marks = [mark(0, "p"), mark(9, "q"), mark(10, ""), mark(hour // 2, "p", "rebuilt"), mark(hour // 2 + 1, "p")]
    assert shown_marks([*marks, mark(hour // 2 + 60_000, "r"), mark(hour, "q")], hour).lines == [
        (0, "log, 2 pipelines started", True),
        (hour // 2, "p: 2 events", True),
        (hour // 2 + 60_000, "r started", False),  # its label would cover the one before
        (hour, "q started", True),
    ]


def test_too_many_marks_are_left_out_restarts_first() -> None:
    def every_minute(name: str, event: str, number: int) -> list[dict[str, object]]:
        return [mark(n * 60_000, name, event) for n in range(number)]

    failing = every_minute("p", "restarted", 1_000)
    found = shown_marks(sorted([*failing, mark(30_000, "q")], key=lambda each: int(str(each["at_ms"]))), 3_600_000)
    assert found == ([(30_000, "q started", True)], 1_000)
    assert shown_marks(every_minute("p", "started", MARKS_MAX), 3_600_000).left_out == 0
    assert shown_marks(every_minute("p", "started", MARKS_MAX + 1), 3_600_000) == ([], MARKS_MAX + 1)


def test_a_chart_without_marks_has_only_its_lines() -> None:
    chart = next(each for each in CHARTS if each.title == "Records in")
    series = {"node/records_in_per_s": [[0, 1]]}
    assert len(drawn(chart, series).options["series"]) == 1
    lines = drawn(chart, series, [(5, "p started", True)]).options["series"][-1]["markLine"]["data"]
    assert lines == [{"xAxis": 5, "name": "p started", "label": {"show": True}}]


def test_the_charts_of_a_pipeline_show_that_pipeline_alone_and_state_only_where_there_is_any() -> None:
    found = charts_of_pipeline("p")
    assert set(patterns(found)) >= {"pipeline/p/lag", "pipeline/p/rows_in_per_s", "pipeline/p/batch_ms"}
    zero: dict[str, list[list[float]]] = {name: [[0, 0], [1, 0]] for name in (*patterns(found), "pipeline/q/lag")}
    shown = {each.title for each in found if drawn(each, zero).has_points}
    assert shown == {"Rows in", "Lag", "Micro-batches"}
    state = next(each for each in found if each.title == "State")
    assert drawn(state, {"pipeline/p/state_rows": [[0, 0], [1, 7]]}).has_points
    assert [each["name"] for each in marks_of([mark(0, "p"), mark(0, "q"), mark(0, "")], "p")] == ["p", ""]


@pytest.mark.browser
def test_a_problem_shows_in_the_header_of_every_page_and_leads_to_what_to_do(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    broken = replace(STATE, pipeline="con-broken", status=Status.FAILED, seen_ms=int(time.time() * 1000))
    key, value = broken.to_record()
    stage.log.append(STATES_TOPIC, value, key=key)
    try:
        page = open_at("/console/config", 390)
        sign = page.locator(".health")
        expect(sign).to_have_text(re.compile(r"✕ \d+ problems?"))
        sign.click()
        shown = page.locator(".trouble[data-rule=pipeline-failed]")
        expect(shown).to_contain_text("Pipeline con-broken failed and is not started again. ValueError: no")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        shown.get_by_role("link", name="Show pipeline con-broken").click()
        expect(page.locator("h1")).to_have_text("con-broken")
    finally:
        stage.log.append(STATES_TOPIC, None, key=key)


@pytest.mark.browser
def test_the_history_is_drawn_and_lists_have_a_line(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    stage.log.append("con-dots", {"id": "history"}, key="history")
    page = open_at("/console/history?since=1h")
    expect(page.get_by_role("heading", name="Records in, records/s")).to_be_visible(timeout=20_000)
    expect(page.get_by_role("link", name="Hour", exact=True)).to_have_attribute("aria-current", "page")
    now_ms = int(time.time() * 1000)
    entry = RunLogEntry("con-marked", 0, now_ms - 1_800_000, RunEvent.STARTED, "").to_record()
    stage.log.append_many(RUN_LOG_TOPIC, [entry])
    try:
        page = open_at("/console/history?since=1h", 390)
        page.wait_for_function(_HAS_MARK, arg="con-marked started")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    finally:
        stage.log.append_many(RUN_LOG_TOPIC, [(entry[0], None)])
    page.goto(f"{stage.url}/console/pipelines/con-count")
    expect(page.get_by_role("link", name="Day", exact=True)).to_have_attribute("aria-current", "page")
    page.get_by_role("link", name="15 minutes").click()
    page.wait_for_url("**/pipelines/con-count?since=15m")
    expect(page.get_by_role("heading", name="Lag, records")).to_be_visible(timeout=20_000)
    expect(page.get_by_role("img", name="Micro-batches over time, in ms")).to_be_visible()
    expect(page.get_by_role("heading", name="Dead letters, records")).to_be_hidden()  # the pipeline has none
    page.goto(stage.url + "/console/topics")
    drawn_line = page.get_by_role("row", name="con-dots").get_by_role("img")
    expect(drawn_line).to_have_attribute("aria-label", re.compile("at most"))
