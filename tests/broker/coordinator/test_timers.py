"""A group's timer on the event loop that the log process runs on."""

from __future__ import annotations

import asyncio

import uvloop

from mainstem.broker.coordinator.timers import GroupTimers
from mainstem.clock import SystemClock

TIMEOUT_S = 60


def on_uvloop(scenario: object) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(scenario, TIMEOUT_S))  # type: ignore[arg-type]


def test_a_deadline_that_is_due_at_once_may_be_moved() -> None:
    async def scenario() -> None:
        clock, due = SystemClock(), list[str]()
        timers = GroupTimers(clock, due.append)
        for ahead_s in (0.0001, 0.0, 0.0002, 5.0, 0.0):
            timers.watch("g", clock.monotonic_s() + ahead_s)
        while due != ["g"]:
            await asyncio.sleep(0)
        timers.stop()

    on_uvloop(scenario())


def test_an_earlier_deadline_takes_the_place_of_a_later_one_and_not_the_other_way() -> None:
    async def scenario() -> None:
        clock, due = SystemClock(), list[str]()
        timers = GroupTimers(clock, due.append)
        timers.watch("g", clock.monotonic_s() + 1000)
        timers.watch("g", clock.monotonic_s() + 0.001)
        timers.watch("g", clock.monotonic_s() + 1000)
        while due != ["g"]:
            await asyncio.sleep(0)
        timers.stop()

    on_uvloop(scenario())
