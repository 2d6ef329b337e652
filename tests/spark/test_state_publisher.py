"""States in the log: the newest, not too often, and again when the log comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mainstem.client.log import Log
from mainstem.pipelines.state import HEARTBEAT_MS, STATES_TOPIC, Counts, PipelineState, Status
from mainstem.spark.queries.state_publisher import StatePublisher
from mainstem.testing.clock import ManualClock
from mainstem.testing.embedded import EmbeddedBroker

STATE = PipelineState("p", "app", Status.RUNNING, "once", 0, 0)


def published(log: Log, until: Callable[[list[PipelineState]], bool]) -> list[PipelineState]:
    """The states in the log, once they are as they should be."""
    found: list[PipelineState] = []
    for record in log.follow(STATES_TOPIC, start="earliest"):
        state = PipelineState.from_record(record)
        assert state is not None
        found.append(state)
        if until(found):
            return found
    raise AssertionError("a follower has no end")


def counted(rows: int) -> PipelineState:
    return replace(STATE, counts=Counts(input_rows=rows))


def test_what_changes_and_a_heartbeat_are_told_and_the_last_state_at_the_end() -> None:
    clock = ManualClock()
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        log.create_topic(STATES_TOPIC, partitions=1)
        with StatePublisher(broker.bootstrap, every_s=0.01, clock=clock) as publisher:
            publisher.put([counted(1)])
            published(log, lambda found: found[-1].counts.input_rows == 1)
            clock.advance(HEARTBEAT_MS / 1_000)
            beats = published(log, lambda found: len(found) == 2)
            publisher.put([replace(counted(5), status=Status.STOPPED)])
        last = published(log, lambda found: found[-1].status is Status.STOPPED)[-1]
    assert beats[1].seen_ms - beats[0].seen_ms == HEARTBEAT_MS
    assert (beats[1].counts, last.counts.input_rows) == (beats[0].counts, 5)


def test_only_the_newest_state_is_told_when_they_come_fast() -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        log.create_topic(STATES_TOPIC, partitions=1)
        with StatePublisher(broker.bootstrap, every_s=3_600) as publisher:
            for rows in range(1_000):
                publisher.put([counted(rows)])
        found = published(log, lambda found: found[-1].counts.input_rows == 999)
    assert len(found) <= 3


def test_what_the_log_does_not_take_is_told_when_it_does() -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log, StatePublisher(broker.bootstrap, every_s=0.01) as to:
        to.put([counted(1)])  # there is no such topic yet
        log.create_topic(STATES_TOPIC, partitions=1)
        assert published(log, lambda found: True)[0].counts.input_rows == 1
