"""The sign in the header, the page of problems, the history, and the small lines in lists."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mainstem.console.health.history_charts import CHARTS, SHOWN_MAX, drawn
from mainstem.console.health.trends import line
from mainstem.pipelines.state import STATES_TOPIC, Status
from tests.console.stage import Stage
from tests.pipelines.states import STATE

if TYPE_CHECKING:
    from tests.console.conftest import Open


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


@pytest.mark.browser
def test_a_problem_shows_in_the_header_of_every_page_and_leads_to_what_to_do(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    broken = replace(STATE, pipeline="con-broken", status=Status.FAILED, seen_ms=int(time.time() * 1000))
    key, value = broken.to_record()
    stage.log.append(STATES_TOPIC, value, key=key)
    try:
        page = open_at("/console/config", 390)
        sign = page.locator(".health")
        expect(sign).to_have_text(re.compile(r"✕ \d+ problems?"), timeout=20_000)
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
    page.goto(stage.url + "/console/topics")
    drawn_line = page.get_by_role("row", name="con-dots").get_by_role("img")
    expect(drawn_line).to_have_attribute("aria-label", re.compile("at most"), timeout=20_000)
