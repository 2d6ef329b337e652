"""Fetches that wait for data, and the partitions that wake them.

A waiter is woken by the first of its partitions that moves its high watermark, is deleted or changes otherwise, or by
its time-out: nobody polls. On the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from mainstem.log.partition_log import PartitionLog


class DelayedFetches:
    """Who waits for which partition."""

    def __init__(self) -> None:
        self._waiting: dict[PartitionLog, set[asyncio.Future[bool]]] = {}

    def wake(self, log: PartitionLog) -> None:
        """Wake everyone who waits for ``log``."""
        for future in self._waiting.get(log, ()):
            if not future.done():
                future.set_result(True)

    async def wait(self, logs: Collection[PartitionLog], timeout_s: float) -> bool:
        """Wait until one of ``logs`` wakes this; False when the time is over first."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        for log in logs:
            self._waiting.setdefault(log, set()).add(future)
        timer = loop.call_later(timeout_s, _give_up, future)
        try:
            return await future
        finally:
            timer.cancel()
            for log in logs:
                self._leave(log, future)

    def _leave(self, log: PartitionLog, future: asyncio.Future[bool]) -> None:
        waiting = self._waiting.get(log)
        if waiting is not None:
            waiting.discard(future)
            if not waiting:
                del self._waiting[log]

    def statistics(self) -> dict[str, int]:
        """How many partitions are waited for."""
        return {"partitions": len(self._waiting)}


def _give_up(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)
