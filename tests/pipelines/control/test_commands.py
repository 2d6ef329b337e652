"""Commands to pipelines: a restart right after an outage of the log, when the heartbeats are still late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mainstem.client.log import Log
from mainstem.errors import PipelineNotRunningError
from mainstem.pipelines.control import commands
from mainstem.pipelines.control.commands import Action, ask
from mainstem.pipelines.state import ALWAYS, ONCE, STATES_TOPIC, Status
from mainstem.testing.embedded import EmbeddedBroker
from tests.pipelines.states import STATE

LATE = replace(STATE, trigger=ALWAYS, status=Status.WAITING)
"""It runs, as far as it has said; its last heartbeat is old."""


@pytest.fixture
def own_log() -> Iterator[Log]:
    """A log with one pipeline, whose heartbeat is late."""
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        log.create_topic(STATES_TOPIC, partitions=1)
        log.append_many(STATES_TOPIC, [LATE.to_record()])
        yield log


def test_a_restart_waits_for_the_heartbeat_that_comes_late_after_an_outage(own_log: Log) -> None:
    def heartbeat(_: float) -> None:
        own_log.append_many(STATES_TOPIC, [replace(LATE, seen_ms=time.time_ns() // 1_000_000).to_record()])

    assert ask(own_log, "totals", Action.RESTART, sleep=heartbeat).offset == 0


def test_a_restart_of_a_pipeline_that_stays_unseen_is_refused(own_log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_SEEN_AGAIN_S", 0.1)
    with pytest.raises(PipelineNotRunningError, match="totals is not seen: start its App"):
        ask(own_log, "totals", Action.RESTART)


def test_only_a_restart_waits_and_only_for_a_pipeline_that_runs_on(own_log: Log) -> None:
    def never(_: float) -> None:
        pytest.fail("it must not wait")

    assert ask(own_log, "totals", Action.PAUSE, sleep=never).action == "pause"
    for state, said in ((replace(LATE, status=Status.STOPPED), "stopped"), (replace(LATE, trigger=ONCE), "not seen")):
        own_log.append_many(STATES_TOPIC, [state.to_record()])
        with pytest.raises(PipelineNotRunningError, match=f"totals is {said}"):
            ask(own_log, "totals", Action.RESTART, sleep=never)
