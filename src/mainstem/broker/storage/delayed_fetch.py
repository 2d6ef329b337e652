"""Fetches that wait for data, and the partitions that wake them.

``DelayedFetches`` knows who watches which partition log, and tells them when it moves its high watermark, is deleted or
changes otherwise. ``DelayedFetch`` is one request that waits: it looks again, once in a turn of the loop, when a
partition of its session has changed, and answers with what there is when its time is over. Nobody polls. On the event
loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from mainstem.broker.storage.fetch_sessions import FetchSession, Watcher
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.schema import Message


class DelayedFetches:
    """Who watches which partition."""

    def __init__(self) -> None:
        self._watchers: dict[PartitionLog, dict[Watcher, None]] = {}
        self._waiting = 0

    def watch(self, log: PartitionLog, watcher: Watcher) -> None:
        """Tell ``watcher`` of every change of ``log`` from now on."""
        self._watchers.setdefault(log, {})[watcher] = None

    def unwatch(self, log: PartitionLog, watcher: Watcher) -> None:
        """Tell ``watcher`` no more."""
        watchers = self._watchers.get(log)
        if watchers is not None:
            watchers.pop(watcher, None)
            if not watchers:
                del self._watchers[log]

    def wake(self, log: PartitionLog) -> None:
        """``log`` has changed."""
        watchers = self._watchers.get(log)
        if watchers is not None:
            for watcher in list(watchers):
                watcher.log_changed()

    def wake_all(self) -> None:
        """Any log may have changed."""
        for log in list(self._watchers):
            self.wake(log)

    async def wait(self, logs: Collection[PartitionLog], timeout_s: float) -> bool:
        """Wait until one of ``logs`` changes; False when the time is over first."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(future)
        for log in logs:
            self.watch(log, waiter)
        timer = future.get_loop().call_later(timeout_s, waiter.give_up)
        self._waiting += 1
        try:
            return await future
        finally:
            self._waiting -= 1
            timer.cancel()
            for log in logs:
                self.unwatch(log, waiter)

    def delay(
        self, session: FetchSession, look: Callable[[bool], Message | None], timeout_s: float
    ) -> asyncio.Future[Message]:
        """The answer to a fetch of ``session``, when there is one: ``look`` is asked for it when a partition has
        changed, and at the end of the time with True, when it must have one. A cancelled fetch is forgotten.
        """
        fetch = DelayedFetch(session, look, timeout_s)
        self._waiting += 1
        fetch.future.add_done_callback(self._done)
        return fetch.future

    def _done(self, _: asyncio.Future[Message]) -> None:
        self._waiting -= 1

    def statistics(self) -> dict[str, int]:
        """How many fetches wait, and how many partitions are watched, by those and by sessions between fetches."""
        return {"waiting": self._waiting, "partitions": len(self._watchers)}


class DelayedFetch:
    """One fetch that waits; ``future`` is its answer. A session that is not kept ends with it, also if cancelled."""

    def __init__(self, session: FetchSession, look: Callable[[bool], Message | None], timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Message] = self._loop.create_future()
        self.future.add_done_callback(self._end)
        self._session = session
        self._ask = look
        self._is_scheduled = False
        self._timer = self._loop.call_later(timeout_s, self._look, True)
        session.listen(self._changed)

    def _changed(self) -> None:
        """At the end of this turn of the loop, so that all partitions that it moves are seen at once."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._look, False)

    def _look(self, is_over: bool) -> None:
        self._is_scheduled = False
        if self.future.done():
            return
        try:
            answer = self._ask(is_over)
        except Exception as error:  # noqa: BLE001 - the connection that waits for the answer tells of it, and closes
            self.future.set_exception(error)
            return
        if answer is not None:
            self.future.set_result(answer)

    def _end(self, _: asyncio.Future[Message]) -> None:
        self._timer.cancel()
        self._session.leave(self._changed)
        if not self._session.session_id:
            self._session.close()


class _Waiter:
    """Who waits once for any of several logs."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[bool]) -> None:
        self._future = future

    def log_changed(self) -> None:
        if not self._future.done():
            self._future.set_result(True)

    def give_up(self) -> None:
        if not self._future.done():
            self._future.set_result(False)
