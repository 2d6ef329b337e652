"""Every pipeline of a log, put together from its progress, its state and the log's ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.overview import NOT_SEEN, Overview
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.pipelines.state import LOST_AFTER_MS, STATES_TOPIC, Status
from mainstem.testing.clock import ManualClock
from mainstem.testing.embedded import EmbeddedBroker
from tests.pipelines.states import STATE


@pytest.fixture
def own_log() -> Iterator[Log]:
    """A log that no other test tells of pipelines in, with the topic that they read."""
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        log.create_topic("a", partitions=1)
        yield log


def say_progress(log: Log, name: str, offset: int) -> None:
    log.create_topic(PROGRESS_TOPIC, partitions=1, exist_ok=True)
    source, sink = Position.of("a", 0, offset), Position.of("b", 0, offset)
    log.append_many(PROGRESS_TOPIC, [Progress(name, offset, source, sink, Position(), ("a",), ("b",)).to_record()])


def test_without_a_pipeline_there_is_nothing(own_log: Log) -> None:
    assert Overview(own_log).latest() == []


def test_the_latest_of_each_pipeline_is_told(own_log: Log) -> None:
    overview = Overview(own_log)
    for name, offset in (("p", 1), ("q", 1), ("p", 2)):
        say_progress(own_log, name, offset)
    assert [(entry["name"], entry["batch_id"]) for entry in overview.latest()] == [("p", 2), ("q", 1)]
    say_progress(own_log, "p", 3)
    own_log.append(PROGRESS_TOPIC, None, key="q")
    assert [(entry["name"], entry["source"]) for entry in overview.latest()] == [("p", "a/0:3")]


def test_the_lag_is_what_the_inputs_hold_beyond_the_progress(own_log: Log) -> None:
    say_progress(own_log, "p", 1)
    overview = Overview(own_log)
    own_log.append_many("a", ["1", "2", "3"])
    assert overview.latest()[0]["lag"] == 2
    own_log.delete_topic("a")
    assert overview.latest()[0]["lag"] is None


def test_a_state_is_told_until_its_driver_falls_silent(own_log: Log) -> None:
    own_log.create_topic(STATES_TOPIC, partitions=1)
    over = replace(STATE, status=Status.FINISHED, pipeline="z")
    own_log.append_many(STATES_TOPIC, [STATE.to_record(), over.to_record()])
    clock = ManualClock(STATE.seen_ms + 1_000)
    overview = Overview(own_log, clock)
    told = overview.latest()[0]
    assert (told["status"], told["uptime_s"], told["restarts"]) == ("restarting", 5, 1)
    assert told["nulled_values"] == {"orders": {"amount": 3}}
    assert (told["durations_ms"]["addBatch"], told["failure"]["text"], told["lag"]) == (30, "ValueError: no", None)
    clock.advance(LOST_AFTER_MS / 1_000)
    assert [(entry["status"], entry["last_status"], entry["uptime_s"]) for entry in overview.latest()] == [
        (NOT_SEEN, "restarting", 4),
        ("finished", "finished", 4),
    ]
