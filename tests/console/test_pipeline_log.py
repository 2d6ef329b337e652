"""The log and the Spark plan of a pipeline's page, by keyboard and on a narrow screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mainstem.pipelines.control.run_log import RUN_LOG_TOPIC, RunEvent, RunLogEntry, RunPlan
from tests.console.stage import Stage

if TYPE_CHECKING:
    from tests.console.conftest import Open

NAME = "con-count"
PLAN = "== Physical Plan ==\n" + "\n".join(f"{'  ' * depth}+- Project [{'carrier#1, ' * 30}]" for depth in range(9))


def write(stage: Stage, *entries: RunLogEntry | RunPlan) -> None:
    stage.log.append_many(RUN_LOG_TOPIC, [entry.to_record() for entry in entries])


@pytest.mark.browser
def test_a_pipelines_page_shows_its_log_and_its_plan(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    page = open_at(f"/console/pipelines/{NAME}", 390)
    expect(page.get_by_text("No entries yet.", exact=False)).to_be_visible()
    page.locator("summary", has_text="Spark plan").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("No plan yet.")).to_be_visible()
    page.keyboard.press("Enter")
    error = "app.py:12, in divide: ZeroDivisionError: <b>no</b>; again in 1 s\nTraceback (most recent call last)"
    write(stage, RunLogEntry(NAME, 0, 1_000, RunEvent.STARTED, ""), RunPlan(NAME, 4_000, 7, PLAN))
    write(stage, RunLogEntry(NAME, 1, 2_000, RunEvent.FAILED, error))
    lines = page.locator(".run-log li")
    expect(lines).to_have_count(2)
    expect(lines.first).to_contain_text("failed")
    expect(lines.first).to_contain_text("ZeroDivisionError: <b>no</b>")
    expect(lines.last).to_contain_text("1970-01-01 00:00:01")
    lines.first.locator("summary").click()
    expect(lines.first.get_by_text("Traceback")).to_be_visible()
    page.locator("summary", has_text="Spark plan").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("== Physical Plan ==")).to_be_visible()
    expect(page.get_by_text("Micro-batch 7, 1970-01-01 00:00:04")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    codes = page.locator(".requests code", has_text="mainstem pipelines log con-count")
    expect(codes).to_have_count(1)
    keys = (*(f"{NAME}/log/{number:03}" for number in range(2)), f"{NAME}/plan")
    stage.log.append_many(RUN_LOG_TOPIC, [(key.encode(), None) for key in keys])
