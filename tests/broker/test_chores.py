from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from mainstem.broker.chores import Chores


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
