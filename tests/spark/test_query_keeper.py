"""When a query is started again: how long the pauses are, what makes them short again, and what is told meanwhile."""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from mainstem.clock import Clock
from mainstem.errors import LogUnavailableError, PipelineFailedError
from mainstem.pipelines.control.commands import Action, Command
from mainstem.pipelines.control.run_log import RunEvent
from mainstem.pipelines.control.run_notes import RunNotes
from mainstem.pipelines.overview import Overview
from mainstem.pipelines.state import Status
from mainstem.spark.queries.query_keeper import QueryKeeper
from mainstem.spark.queries.query_watch import ProgressWatch
from mainstem.spark.startup import environment
from mainstem.testing.clock import ManualClock
from tests.spark.flights_app import Flights
from tests.support.eventually import eventually


class FakeHandle:
    """A streaming query as the keeper sees it: alive or not, and with the micro-batches that it says it did."""

    def __init__(self) -> None:
        self.isActive = True
        self.error: Exception | None = None
        self.reports: list[Any] = []
        self._jsq = SimpleNamespace(
            recentProgress=lambda: self.reports,
            status=lambda: SimpleNamespace(json=lambda: json.dumps({"message": "Getting", "isDataAvailable": False})),
            explainInternal=lambda _: f"plan of {len(self.reports)}" if self.reports else "No physical plan. Waiting",
        )

    def exception(self) -> Exception | None:
        return self.error

    def fail(self, text: str) -> None:
        self.isActive, self.error = False, RuntimeError(text)

    def progress(self, batch_id: int) -> None:
        said = {"batchId": batch_id, "timestamp": "2026-01-01T00:00:00.000Z", "durationMs": {"addBatch": 1}}
        said |= {"numInputRows": 2, "sources": [], "stateOperators": []}
        entry = SimpleNamespace(batchId=lambda: batch_id, timestamp=lambda: "t", json=lambda: json.dumps(said))
        self.reports.append(entry)

    def stop(self) -> None:
        self.isActive = False


class FakeQuery:
    """Starts fake handles; ``away`` makes the next starts fail."""

    def __init__(self) -> None:
        self.pipeline = SimpleNamespace(name="p", function=lambda: None, where="p.py:1")
        self.checkpoint = "a directory that is not there"
        self.written_rows = 0
        self.current_batch: int | None = None
        self.nulled_values: dict[str, dict[str, int]] = {}
        self.watermark_held_by: str | None = None
        self.handles: list[FakeHandle] = []
        self.away = False

    def start(self, *, once: bool) -> FakeHandle:
        if self.away:
            raise LogUnavailableError("the log cannot be reached")
        self.handles.append(FakeHandle())
        return self.handles[-1]

    def close(self) -> None:
        pass


class Notes(RunNotes):
    """Remembers what a keeper notes."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.log: list[tuple[str, str]] = []
        self.plans: list[tuple[int | None, str]] = []

    def note(self, pipeline: str, event: RunEvent, text: str = "") -> None:
        self.log.append((event.value, text.partition("\n")[0]))

    def plan(self, pipeline: str, batch_id: int | None, text: str) -> None:
        self.plans.append((batch_id, text))


class Kept:
    """A keeper of a fake query, under a clock of its own."""

    def __init__(self) -> None:
        self.clock, self.query = ManualClock(), FakeQuery()
        watch = ProgressWatch("app", "p", once=False, clock=self.clock)
        self.notes = Notes(self.clock)
        self.keeper = QueryKeeper(self.query, watch, self.clock, self.notes)  # type: ignore[arg-type]
        self.keeper.start(once=False)

    def pause_after_failure(self) -> float:
        """Let the query fail; how long it pauses until it is started again."""
        if not self.query.away:
            self.query.handles[-1].fail("ValueError: no")
        self.keeper.look()
        failure = self.keeper.state.failure
        assert failure is not None
        assert failure.next_try_ms is not None
        pause_s = (failure.next_try_ms - self.clock.time_ms()) / 1_000
        started = len(self.query.handles)
        self.clock.advance(pause_s - 0.01)
        self.keeper.look()
        assert len(self.query.handles) == started
        self.clock.advance(0.02)
        if not self.query.away:
            self.keeper.look()
            assert len(self.query.handles) == started + 1
        return pause_s


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_pauses_double_up_to_a_minute(kept: Kept) -> None:
    assert [kept.pause_after_failure() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert kept.keeper.state.counts.restarts == 8


def command(action: Action, offset: int) -> Command:
    return Command("p", action, 0, offset)


def test_a_paused_query_ends_and_goes_on_when_it_is_resumed(kept: Kept) -> None:
    keeper, handles = kept.keeper, kept.query.handles
    keeper.carry_out(command(Action.PAUSE, 3))
    keeper.look()
    assert (keeper.state.status, keeper.state.command, handles[-1].isActive) == (Status.PAUSED, 3, False)
    kept.clock.advance(3_600)
    keeper.look()
    keeper.carry_out(command(Action.PAUSE, 3))  # the follower gives the same one at each look
    assert len(handles) == 1
    keeper.carry_out(command(Action.RESUME, 4))
    assert (len(handles), handles[-1].isActive, keeper.state.command) == (2, True, 4)
    assert (keeper.state.status, keeper.state.counts.restarts) == (Status.STARTING, 0)
    keeper.carry_out(command(Action.RESUME, 5))
    assert (len(handles), keeper.state.command) == (2, 5)


def test_a_pause_waits_for_the_micro_batch_that_runs_and_a_restart_does_not(kept: Kept) -> None:
    keeper, query = kept.keeper, kept.query
    query.current_batch = 7
    for _ in range(2):
        keeper.carry_out(command(Action.PAUSE, 0))
        assert (keeper.state.command, query.handles[-1].isActive) == (None, True)
    query.current_batch = 8  # the next one has begun since the last look
    keeper.carry_out(command(Action.PAUSE, 0))
    assert (keeper.state.status, query.handles[-1].isActive) == (Status.PAUSED, False)
    keeper.carry_out(command(Action.RESUME, 1))
    keeper.carry_out(command(Action.RESTART, 2))
    assert [handle.isActive for handle in query.handles] == [False, False, True]


def test_a_restart_ends_the_pause_after_a_failure(kept: Kept) -> None:
    keeper, handles = kept.keeper, kept.query.handles
    handles[-1].fail("ValueError: no")
    keeper.look()
    assert keeper.state.status == Status.RESTARTING
    keeper.carry_out(command(Action.RESTART, 0))
    assert (len(handles), keeper.state.status, keeper.state.command) == (2, Status.STARTING, 0)
    keeper.carry_out(command(Action.RESTART, 1))
    assert [handle.isActive for handle in handles] == [False, False, True]


def test_a_pause_while_a_query_waits_after_a_failure_holds(kept: Kept) -> None:
    kept.query.handles[-1].fail("ValueError: no")
    kept.keeper.look()
    kept.keeper.carry_out(command(Action.PAUSE, 0))
    kept.clock.advance(120)
    kept.keeper.look()
    failure = kept.keeper.state.failure
    assert failure is not None
    assert (kept.keeper.state.status, failure.next_try_ms, len(kept.query.handles)) == (Status.PAUSED, None, 1)


def test_a_query_that_does_not_end_in_time_is_paused_at_a_later_look(kept: Kept, monkeypatch: Any) -> None:
    def too_slow() -> None:
        raise PySparkException("it did not stop within 1 s")

    handle = kept.query.handles[-1]
    with monkeypatch.context() as patched:
        patched.setattr(handle, "stop", too_slow)
        kept.keeper.carry_out(command(Action.PAUSE, 0))
    assert (kept.keeper.state.command, handle.isActive) == (None, True)
    kept.keeper.carry_out(command(Action.PAUSE, 0))
    assert (kept.keeper.state.command, handle.isActive) == (0, False)


def test_what_was_asked_before_the_start_is_not_done_again(kept: Kept) -> None:
    assert kept.keeper.recall(command(Action.RESTART, 7))
    kept.keeper.carry_out(command(Action.RESTART, 7))
    assert len(kept.query.handles) == 1
    assert not kept.keeper.recall(command(Action.PAUSE, 8))
    assert (kept.keeper.state.status, kept.keeper.state.command) == (Status.PAUSED, 8)


def test_a_micro_batch_that_went_through_makes_the_pause_short_again(kept: Kept) -> None:
    assert [kept.pause_after_failure() for _ in range(3)] == [1, 2, 4]
    kept.query.handles[-1].progress(7)
    kept.keeper.look()
    state = kept.keeper.state
    assert (state.status, state.counts.input_rows, state.recent[-1].batch_id) == (Status.RUNNING, 2, 7)
    assert kept.pause_after_failure() == 1


def test_a_query_that_has_run_for_long_pauses_shortly(kept: Kept) -> None:
    assert [kept.pause_after_failure() for _ in range(3)] == [1, 2, 4]
    kept.clock.advance(61)
    kept.keeper.look()
    assert kept.pause_after_failure() == 1


def test_a_log_that_is_away_when_a_query_starts_again_is_waited_for(kept: Kept) -> None:
    kept.pause_after_failure()
    kept.query.handles[-1].fail("LogUnavailableError: gone")
    kept.keeper.look()
    kept.query.away = True
    pauses = [kept.pause_after_failure() for _ in range(3)]
    assert pauses == [2, 4, 8]
    assert kept.keeper.state.failure is not None
    assert "the log cannot be reached" in kept.keeper.state.failure.text
    kept.query.away = False
    kept.keeper.look()
    kept.keeper.look()
    assert (kept.keeper.state.status, kept.keeper.state.failure.next_try_ms) == (Status.WAITING, None)


def test_a_query_that_was_to_run_once_fails_for_good(kept: Kept) -> None:
    assert kept.keeper.look_once()
    kept.query.handles[-1].fail("ValueError: no")
    with pytest.raises(PipelineFailedError, match=r"pipeline p failed: .*ValueError: no"):
        kept.keeper.look_once()
    kept.keeper.stop()
    assert kept.keeper.state.status is Status.FAILED


def test_a_query_that_is_stopped_says_so(kept: Kept) -> None:
    kept.keeper.stop()
    assert (kept.keeper.state.status, kept.query.handles[-1].isActive) == (Status.STOPPED, False)


def test_the_log_of_a_query_says_what_happened_to_it(kept: Kept) -> None:
    keeper = kept.keeper
    kept.pause_after_failure()
    keeper.carry_out(command(Action.PAUSE, 0))
    keeper.carry_out(command(Action.RESUME, 1))
    keeper.carry_out(command(Action.RESUME, 2))  # it runs already
    keeper.carry_out(command(Action.RESTART, 3))
    keeper.stop()
    failure, others = kept.notes.log[1], kept.notes.log[:1] + kept.notes.log[2:]
    assert (failure[0], failure[1].endswith("ValueError: no; again in 1 s")) == ("failed", True)
    asked = "as an operator asked"
    operator = [("paused", asked), ("resumed", asked), ("restarted", asked)]
    assert others == [("started", ""), ("restarted", "after a failure"), *operator, ("stopped", "")]


def test_the_plan_is_taken_once_after_each_start(kept: Kept) -> None:
    keeper, handles = kept.keeper, kept.query.handles
    keeper.look()
    assert kept.notes.plans == []
    for batch in (7, 8):
        handles[-1].progress(batch)
        keeper.look()
    keeper.carry_out(command(Action.RESTART, 0))
    handles[-1].progress(9)
    keeper.look()
    assert kept.notes.plans == [(7, "plan of 1"), (9, "plan of 1")]


def test_the_plan_of_a_micro_batch_that_ends_just_before_the_query_is_stopped_is_taken(kept: Kept) -> None:
    kept.keeper.look()
    kept.query.handles[-1].progress(3)
    kept.keeper.carry_out(Command("p", Action.PAUSE, 0, 1))
    assert kept.notes.plans == [(3, "plan of 1")]
    assert kept.keeper.state.counts.micro_batches == 1


def test_a_plan_that_is_not_there_yet_is_taken_after_a_later_micro_batch(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = kept.query.handles[-1]
    monkeypatch.setattr(handle._jsq, "explainInternal", lambda _: "No physical plan. Waiting for data.")
    handle.progress(0)
    kept.keeper.look()
    monkeypatch.setattr(handle._jsq, "explainInternal", lambda _: "plan")
    handle.progress(1)
    kept.keeper.look()
    assert kept.notes.plans == [(1, "plan")]


@pytest.mark.spark
def test_a_run_once_goes_on_when_a_python_process_starts_too_slowly(world: Flights) -> None:
    """The fork server stands still for longer than Spark waits for the process that plans a stream."""
    copies = f"{world.prefix}.copies"
    world.app.pipeline(world.flights, into=copies, key="flight_id", name=copies)(lambda flights: flights)
    world.fly(("UA", 1))
    world.run_once()  # all that Spark waits for without limit is started
    world.fly(("AA", 2))
    servers = [server for server in environment._FORK_SERVERS.values() if server.is_running]
    assert servers

    def send(number: signal.Signals) -> None:
        for server in servers:
            os.kill(server.pid, number)

    def restarts() -> int:
        states = Overview(world.log).latest()
        return max((state.get("restarts", 0) for state in states if state["name"] == copies), default=0)

    def go_on_after_a_failure() -> None:
        try:
            eventually(lambda: restarts() > 0, within_s=60, what="a restart")
        finally:
            send(signal.SIGCONT)

    with ThreadPoolExecutor() as beside:
        send(signal.SIGSTOP)
        goes_on = beside.submit(go_on_after_a_failure)
        world.run_once()
        goes_on.result()
    assert len(world.rows(copies)) == 2
