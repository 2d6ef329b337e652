"""The background tasks (chores) of a running broker: they are supervised, so that no failure goes unnoticed.

A chore that fails is logged with its stack trace, counted (``mainstem_chore_failures_total``), and restarted, after one
second at first and after at most a minute. Concurrency: tasks on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from mainstem.logs import fields

_LOG: Final = logging.getLogger("mainstem.broker")
_RETRY_S: Final = 1.0
_RETRY_S_MAX: Final = 60.0


async def run_whole(work: Callable[[], object]) -> None:
    """Run ``work`` in a thread, and wait for its end also when this task is cancelled.

    After its chores have ended, a broker closes its directory. No thread may still write then.
    """
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.gather(future, return_exceptions=True)
        raise


class Chores:
    """The chores of one broker. ``failures`` counts by name."""

    def __init__(self, failures: Counter[str]) -> None:
        self._failures = failures
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, run: Callable[[], Awaitable[None]], retry_s: float = _RETRY_S) -> None:
        """Run a chore until ``stop``; a chore that returns is not restarted."""
        self._failures[name] += 0
        self.tasks.append(asyncio.create_task(self._keep(name, run, retry_s), name=name))

    async def _keep(self, name: str, run: Callable[[], Awaitable[None]], retry_s: float) -> None:
        wait_s = retry_s
        while True:
            began_s = asyncio.get_running_loop().time()
            try:
                await run()
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, it is logged and the chore goes on
                self._failures[name] += 1
                if asyncio.get_running_loop().time() - began_s > _RETRY_S_MAX:
                    wait_s = retry_s
                _LOG.error("%s failed; tried again in %.0f s", name, wait_s, exc_info=error, extra=fields(chore=name))
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _RETRY_S_MAX)

    async def stop(self) -> None:
        """End all chores, and wait until they have ended."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()
