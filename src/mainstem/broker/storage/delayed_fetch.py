"""Fetches that wait for data, and the partitions that wake them.

``DelayedFetches`` knows the watchers of each partition log, and notifies them when its high watermark rises, when it is
deleted or changes otherwise. ``DelayedFetch`` is one waiting request. When a partition of its session has changed, it
reads again: at once if it waits for that partition alone and few others do, else once at the end of the turn of the
loop. When its time is over, it returns what there is. Nothing polls. On the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from mainstem.broker.later import Later
from mainstem.broker.storage.fetch_sessions import FetchSession, Watcher
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.schema import Message

_AT_ONCE_WATCHERS: Final = 4
"""More watchers of a partition read in the next turn of the loop: they do not delay what the log does in this one."""


class DelayedFetches:
    """The watchers of each partition log."""

    def __init__(self) -> None:
        self._watchers: dict[PartitionLog, dict[Watcher, None]] = {}
        self._waiting = 0

    def watch(self, log: PartitionLog, watcher: Watcher) -> None:
        """Notify ``watcher`` of every change of ``log`` from now on."""
        self._watchers.setdefault(log, {})[watcher] = None

    def unwatch(self, log: PartitionLog, watcher: Watcher) -> None:
        """Stop notifying ``watcher``."""
        watchers = self._watchers.get(log)
        if watchers is not None:
            watchers.pop(watcher, None)
            if not watchers:
                del self._watchers[log]

    def wake(self, log: PartitionLog) -> None:
        """Notify the watchers of ``log``, which has changed."""
        watchers = self._watchers.get(log)
        if watchers is not None:
            at_once = len(watchers) <= _AT_ONCE_WATCHERS
            for watcher in list(watchers):
                watcher.log_changed(at_once)

    def wake_all(self) -> None:
        """Notify all watchers: any log may have changed."""
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

    def delay(self, session: FetchSession, look: Callable[[bool], Message | None], timeout_s: float) -> Later[Message]:
        """Return the future response to a fetch of ``session``.

        ``look`` is called when a partition has changed, and with True at the end of the time; then it must return a
        response. A cancelled fetch is dropped.
        """
        fetch = DelayedFetch(session, look, timeout_s)
        self._waiting += 1
        fetch.future.add_done_callback(self._done)
        return fetch.future

    def _done(self, _: Later[Message]) -> None:
        self._waiting -= 1

    def statistics(self) -> dict[str, int]:
        """Return how many fetches wait, and how many partitions are watched, also by sessions between fetches."""
        return {"waiting": self._waiting, "partitions": len(self._watchers)}


class DelayedFetch:
    """One waiting fetch; ``future`` is its response. It ends a session that is not kept, also when cancelled."""

    def __init__(self, session: FetchSession, look: Callable[[bool], Message | None], timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: Later[Message] = Later()
        self.future.add_done_callback(self._end)
        self._session = session
        self._ask = look
        self._is_scheduled = False
        self._timer = self._loop.call_later(timeout_s, self._look, True)
        session.listen(self._changed)

    def _changed(self, at_once: bool) -> None:
        """Read at once; or at the end of this turn of the loop, so that one read sees all that changed in the turn."""
        if at_once:
            self._look(False)
        elif not self._is_scheduled:
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

    def _end(self, _: Later[Message]) -> None:
        self._timer.cancel()
        self._session.leave(self._changed)
        if not self._session.session_id:
            self._session.close()


class _Waiter:
    """A watcher that waits once for any of several logs."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[bool]) -> None:
        self._future = future

    def log_changed(self, at_once: bool) -> None:
        if not self._future.done():
            self._future.set_result(True)

    def give_up(self) -> None:
        if not self._future.done():
            self._future.set_result(False)
