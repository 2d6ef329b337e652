"""``mainstem pipelines``: what it shows of a log's pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pytest

from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.control.commands import COMMANDS_TOPIC, newest_commands
from mainstem.pipelines.control.run_log import RUN_LOG_TOPIC, RunEvent, RunLogEntry, RunPlan
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.pipelines.state import ALWAYS, STATES_TOPIC, Status
from mainstem.testing.embedded import EmbeddedBroker
from tests.cli.commands import Commands
from tests.house.pages import ROOT, blocks_of, lines_of_console
from tests.pipelines.states import STATE


@pytest.fixture
def own_log(command: Commands, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """A log of its own that the commands talk to."""
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        monkeypatch.setenv("MAINSTEM_BOOTSTRAP", broker.bootstrap)
        yield log


@pytest.fixture
def told(own_log: Log) -> Log:
    """One pipeline has told of itself, long ago."""
    for topic in (PROGRESS_TOPIC, STATES_TOPIC, "orders"):
        own_log.create_topic(topic, partitions=1)
    source = Position.of("orders", 0, 0)
    progress = Progress("totals", 4, source, Position(), Position(), ("orders",), ("totals",))
    own_log.append_many(PROGRESS_TOPIC, [progress.to_record()])
    own_log.append_many(STATES_TOPIC, [STATE.to_record()])
    own_log.append("orders", "one")
    return own_log


def test_without_a_pipeline_the_next_step_is_said(command: Commands, own_log: Log) -> None:
    assert "mainstem run APP.py" in command.run("pipelines").out
    assert command.run("pipelines", "list", "--json").json == {"pipelines": []}


def test_pipelines_are_listed_with_what_went_wrong(command: Commands, told: Log) -> None:
    (found,) = command.run("pipelines", "--json").json["pipelines"]
    assert (found["name"], found["status"], found["lag"], found["batch_id"]) == ("totals", "not seen", 1, 4)
    text = " ".join(command.run("pipelines").out.split())
    assert "not seen since 1970-01-01T00:00:05Z" in text
    assert "1970-01-01T00:00:04Z ValueError: no" in text


def test_one_pipeline_is_shown_in_full(command: Commands, told: Log) -> None:
    text = command.run("pipelines", "show", "totals").out
    assert {"inputs: orders", "watermark: 2026-01-01T00:00:00.000Z", "state_rows: 7"} <= set(text.splitlines())
    assert "nulled_values: orders amount 3" in text.splitlines()
    assert "next try at 1970-01-01T00:00:06Z" in text
    assert "addBatch ms" in text
    assert command.run("pipelines", "show", "totals", "--json").json["recent"][0]["input_rows"] == 11


def test_a_pipeline_that_is_not_there_is_one_line(command: Commands, told: Log) -> None:
    done = command.run("pipelines", "show", "nope")
    assert (done.code, done.error) == (1, "there is no pipeline 'nope'; there are: totals")


def test_a_pause_holds_for_the_next_start_of_an_app_that_does_not_run(command: Commands, told: Log) -> None:
    assert (
        command.run("pipelines", "pause", "totals").out == "totals does not run now; pause holds when its App starts\n"
    )
    assert command.run("pipelines", "resume", "totals", "--json").json["status"] is None
    assert newest_commands(told)["totals"].action == "resume"


def test_a_command_waits_until_the_app_has_done_it(command: Commands, told: Log) -> None:
    state = replace(STATE, trigger=ALWAYS, seen_ms=2**42, status=Status.WAITING)
    told.append_many(STATES_TOPIC, [state.to_record()])
    late = command.run("pipelines", "pause", "totals", "--timeout", "0")
    assert "has not carried out pause within 0 s" in late.error
    told.append_many(STATES_TOPIC, [replace(state, status=Status.PAUSED, command=1).to_record()])
    assert command.run("pipelines", "pause", "totals").out == "totals is paused\n"


def test_what_takes_no_command_says_why(command: Commands, told: Log) -> None:
    assert "there is no pipeline 'total'; there are: totals" in command.run("pipelines", "pause", "total").error
    refused = command.run("pipelines", "restart", "totals")
    assert "pipeline totals is not seen: start its App with mainstem run APP.py" in refused.error
    told.append_many(STATES_TOPIC, [replace(STATE, database={"lsn": "0/1"}).to_record()])
    assert "totals is a capture of a database" in command.run("pipelines", "pause", "totals").error


def test_a_record_that_is_no_command_is_stepped_over(command: Commands, told: Log) -> None:
    command.run("pipelines", "pause", "totals")
    told.append_many(COMMANDS_TOPIC, [(b"totals", b"{}"), (b"totals", b'{"action": "fly", "at_ms": 1}')])
    assert newest_commands(told)["totals"].action == "pause"
    told.append(COMMANDS_TOPIC, None, key="totals")
    assert newest_commands(told) == {}


def test_a_log_is_shown_as_its_page_shows_it(command: Commands, told: Log) -> None:
    page = ROOT / "docs/reference/pipelines.md"
    consoles = (
        pair for block in blocks_of(page) if block.language == "console" for pair in lines_of_console(block.text)
    )
    [shown] = (shown for line, shown in consoles if line == "mainstem pipelines log carrier-delays")
    told.create_topic(RUN_LOG_TOPIC, partitions=1)
    for number, line in enumerate(reversed(shown.splitlines())):
        at, what = line.split(" ", 1)
        event, _, text = what.partition(": ")
        at_ms = int(datetime.fromisoformat(at).timestamp() * 1_000)
        told.append_many(RUN_LOG_TOPIC, [RunLogEntry("totals", number, at_ms, RunEvent(event), text).to_record()])
    assert command.run("pipelines", "log", "totals").out == shown


def test_a_pipelines_log_and_plan_are_shown(command: Commands, told: Log) -> None:
    assert "no plan yet" in command.run("pipelines", "plan", "totals").out
    assert "no entries yet" in command.run("pipelines", "log", "totals").out
    told.create_topic(RUN_LOG_TOPIC, partitions=1)
    entries = [
        RunLogEntry("totals", 0, 1_000, RunEvent.STARTED, ""),
        RunLogEntry("totals", 1, 2_000, RunEvent.GIVEN_UP, "app.py:3: ValueError: no\nTraceback"),
        RunPlan("totals", 3_000, 7, "== Physical Plan ==\nScan"),
    ]
    told.append_many(RUN_LOG_TOPIC, [entry.to_record() for entry in entries])
    assert command.run("pipelines", "plan", "totals").out == "== Physical Plan ==\nScan\n"
    assert command.run("pipelines", "log", "totals").out.splitlines() == [
        "1970-01-01T00:00:02Z given up: app.py:3: ValueError: no",
        "    Traceback",
        "1970-01-01T00:00:01Z started",
    ]
    assert command.run("pipelines", "plan", "totals", "--json").json["batch_id"] == 7
    assert [entry["at_ms"] for entry in command.run("pipelines", "log", "totals", "--json").json["entries"]] == [
        2_000,
        1_000,
    ]
    for what in ("plan", "log"):
        done = command.run("pipelines", what, "nope")
        assert (done.code, done.error) == (1, "there is no pipeline 'nope'; there are: totals")
