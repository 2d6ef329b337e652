"""The menu of a pipeline's page: pause, resume and restart, by keyboard and on a narrow screen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from mainstem.model import Position
from mainstem.pipelines.control.commands import newest_commands
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.pipelines.state import ALWAYS, STATES_TOPIC, PipelineState, Status
from tests.console.stage import Stage
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.console.conftest import Open

NAME = "con-paused"


def say(stage: Stage, state: PipelineState) -> None:
    stage.log.append_many(STATES_TOPIC, [state.to_record()])


@pytest.mark.browser
def test_a_pipeline_is_paused_and_resumed(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    source = Position.of("con-flights", 0, 0)
    progress = Progress(NAME, 1, source, Position(), Position(), ("con-flights",), ("con-carriers",))
    stage.log.append_many(PROGRESS_TOPIC, [progress.to_record()])
    runs = PipelineState(NAME, "con-flights", Status.WAITING, ALWAYS, 1, 2**42)
    say(stage, runs)
    page = open_at(f"/console/pipelines/{NAME}", 390)
    page.get_by_role("button", name="Change").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".q-menu").get_by_text("Resume …")).not_to_be_visible()
    page.locator(".q-menu").get_by_text("Pause …").click()
    expect(page.get_by_text("It derives nothing until it is resumed", exact=False)).to_be_visible()
    page.get_by_role("button", name="Pause it").click()
    expect(page.get_by_text("Pause is asked for", exact=False)).to_be_visible()
    asked = eventually(lambda: newest_commands(stage.log).get(NAME), "the command is in the log")
    assert asked.action == "pause"
    say(stage, replace(runs, status=Status.PAUSED, command=asked.offset))
    expect(page.locator(".state[data-state=paused]")).to_be_visible()
    expect(page.get_by_text("Pause is asked for", exact=False)).not_to_be_visible()
    page.get_by_role("button", name="Change").click()
    expect(page.locator(".q-menu").get_by_text("Restart …")).not_to_be_visible()
    page.locator(".q-menu").get_by_text("Resume …").click()
    page.get_by_role("button", name="Resume it").click()
    eventually(lambda: newest_commands(stage.log)[NAME].action == "resume", "it is to go on")
    stage.log.append_many(STATES_TOPIC, [(NAME.encode(), None)])
    stage.log.append_many(PROGRESS_TOPIC, [(NAME.encode(), None)])
