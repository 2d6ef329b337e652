"""Followers of reply topics: one thread for each topic on which requests wait, however many wait.

A follower starts at the end of its topic before the first request is appended, so it sees every reply. It hands each
reply to the event loop, which resolves the futures of that correlation id; replies are not kept. A follower ends by a
permanent error, to make room for another topic, or when the process stops. Then each waiting future resolves to None,
and the request looks for its reply in the log.

``Replies`` is used by one event loop; only ``_Follower._run`` is in other threads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from mainstem.background import failed
from mainstem.client.log import Log
from mainstem.client.read.reader import Follower
from mainstem.errors import LogUnavailableError, MainstemError, UnavailableError
from mainstem.gateway.http.blocking import Workers
from mainstem.model import Record

_LOG: Final = logging.getLogger(__name__)
_THREADS_MAX: Final = 4
PENDING_MAX: Final = 256
FOLLOWERS_MAX: Final = 32

Expected: TypeAlias = "asyncio.Future[Record | None]"
"""A reply to come; None: look for it in the log."""


class Replies:
    """The requests that wait for replies: at most ``pending_max``, over at most ``followers_max`` topics."""

    def __init__(self, log: Log, *, pending_max: int = PENDING_MAX, followers_max: int = FOLLOWERS_MAX) -> None:
        self._log = log
        self._pending_max = pending_max
        self._followers_max = followers_max
        self._pending = 0
        self._workers = Workers(_THREADS_MAX)
        self._followers: dict[str, _Follower] = {}
        self._starting = asyncio.Lock()
        self._is_ending = False

    @property
    def pending(self) -> int:
        """How many wait."""
        return self._pending

    @asynccontextmanager
    async def expecting(self, topic: str, correlation_id: str) -> AsyncIterator[Expected]:
        """Inside, a reply that comes into ``topic`` resolves the future. Raises UnavailableError when too many wait."""
        if self._pending >= self._pending_max:
            raise UnavailableError(
                f"{self._pending_max} requests wait for replies already; try again later, or send Prefer: respond-async"
            )
        self._pending += 1
        try:
            follower = await self._follower(topic)
            key = correlation_id.encode()
            future = follower.expect(key)
            if self._is_ending:
                follower.resolve_all()
            try:
                yield future
            finally:
                follower.forget(key, future)
        finally:
            self._pending -= 1

    def end(self) -> None:
        """Resolve all futures, now and later, because the process stops. Idempotent."""
        self._is_ending = True
        for follower in self._followers.values():
            follower.resolve_all()

    async def close(self) -> None:
        """End all followers."""
        for follower in self._followers.values():
            await self._workers.run(follower.close)
        self._followers.clear()

    async def _follower(self, topic: str) -> _Follower:
        """One that is reserved for the caller, which has to ``forget`` in the end."""
        async with self._starting:
            follower = self._followers.get(topic)
            if follower is None or follower.has_ended:
                await self._make_room()
                reader = await self._workers.run(self._log.follow, topic, start="latest")
                follower = self._followers[topic] = _Follower(topic, reader, asyncio.get_running_loop())
            follower.users += 1
            return follower

    async def _make_room(self) -> None:
        if len(self._followers) < self._followers_max:
            return
        idle = next((name for name, follower in self._followers.items() if follower.users == 0), None)
        if idle is None:
            raise UnavailableError(
                f"requests of {self._followers_max} topics wait for replies already; send Prefer: respond-async"
            )
        await self._workers.run(self._followers.pop(idle).close)


class _Follower:
    """One topic's. ``users`` and ``_expected`` belong to the event loop."""

    def __init__(self, topic: str, reader: Follower, loop: asyncio.AbstractEventLoop) -> None:
        self.users = 0
        self.has_ended = False
        self._topic = topic
        self._reader = reader
        self._loop = loop
        self._expected: dict[bytes, list[Expected]] = {}
        self._thread = threading.Thread(target=self._run, name=f"replies in {topic}", daemon=True)
        self._thread.start()

    def expect(self, key: bytes) -> Expected:
        future: Expected = self._loop.create_future()
        self._expected.setdefault(key, []).append(future)
        if self.has_ended:
            future.set_result(None)
        return future

    def forget(self, key: bytes, future: Expected) -> None:
        self.users -= 1
        waiting = self._expected[key]
        waiting.remove(future)
        if not waiting:
            del self._expected[key]

    def close(self) -> None:
        self._reader.close()
        self._thread.join(10)

    def _run(self) -> None:
        while True:
            try:
                for record in self._reader:
                    if record.key is not None:
                        self._call(self._deliver, record)
                break
            except LogUnavailableError as error:
                _LOG.warning("replies in %s: %s", self._topic, error)  # the follower goes on where it was
            except MainstemError as error:
                _LOG.warning("the follower of replies in %s ended: %s", self._topic, error)
                self._reader.close()
                break
            except Exception as error:  # noqa: BLE001 - futures are resolved below; the next request starts a follower
                failed("reply follower", error)
                self._reader.close()
                break
        self._call(self._end)

    def _call(self, function: object, *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)  # type: ignore[arg-type]
        except RuntimeError:  # the loop is closed: no request waits
            self._reader.close()

    def _deliver(self, record: Record) -> None:
        for future in self._expected.get(record.key or b"", ()):
            if not future.done():
                future.set_result(record)

    def _end(self) -> None:
        self.has_ended = True
        self.resolve_all()

    def resolve_all(self) -> None:
        """Resolve all futures with None: the waiting requests look into the log instead."""
        for futures in self._expected.values():
            for future in futures:
                if not future.done():
                    future.set_result(None)
