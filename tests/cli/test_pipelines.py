"""``mainstem pipelines``: what it shows of a log's pipelines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.pipelines.state import STATES_TOPIC
from mainstem.testing.embedded import EmbeddedBroker
from tests.cli.commands import Commands
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
