from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter

import pytest

from mainstem.broker.chores import Chores, run_whole


def test_a_chore_that_fails_is_logged_counted_and_begun_again(caplog: pytest.LogCaptureFixture) -> None:
    failures: Counter[str] = Counter()
    runs: list[int] = []

    async def scenario() -> None:
        is_done = asyncio.Event()

        async def run() -> None:
            runs.append(len(runs))
            if len(runs) < 3:
                raise ValueError("what nobody expected")
            is_done.set()

        chores = Chores(failures)
        chores.start("sweeping", run, retry_s=0.001)
        async with asyncio.timeout(20):
            await is_done.wait()
        await chores.stop()

    asyncio.run(scenario())
    assert failures == {"sweeping": 2}
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert ["sweeping failed" in record.getMessage() for record in errors] == [True, True]
    assert all(record.exc_info for record in errors)


def test_chores_that_never_failed_are_counted_as_such_and_end_when_they_are_stopped() -> None:
    failures: Counter[str] = Counter()

    async def scenario() -> None:
        chores = Chores(failures)
        chores.start("waiting", asyncio.Event().wait)
        await chores.stop()

    asyncio.run(scenario())
    assert failures == {"waiting": 0}


def test_work_in_a_thread_has_ended_when_its_chore_is_stopped() -> None:
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert may_end.wait(60)
        ended.set()

    async def scenario() -> None:
        chores = Chores(Counter())
        chores.start("writing", lambda: run_whole(work))
        while not began.is_set():
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.01, may_end.set)
        await chores.stop()
        assert ended.is_set()

    asyncio.run(scenario())
