"""One follower of a topic for all live reads of its keys, however many keys and readers there are.

A follower in a thread takes the committed records of the topic. Each goes to the readers of its key alone, so a reader
costs a place in a table and is woken by its own stream only. A reader that takes nothing for ``WAITING_BYTES`` loses
what waits for it, and reads on from the log.

1. A reader joins, and waits until the topic is followed.
2. It reads its stream up to the end. What is appended later comes through the follower; a record that
   comes both ways is known by its offset.

A follower stays for ``LINGER_S`` after its last reader, since long polls come again and again. Used by one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from mainstem.background import failed
from mainstem.client.log import Log
from mainstem.client.read.reader import Follower
from mainstem.errors import LogUnavailableError, MainstemError, UnavailableError
from mainstem.gateway.durable.stream_log import StreamName
from mainstem.gateway.http.blocking import Workers
from mainstem.model import Record

_LOG: Final = logging.getLogger(__name__)
FEEDS_MAX: Final = 64
WAITING_BYTES: Final = 1 << 20
LINGER_S: Final = 30.0
_TAKE_BYTES: Final = 64 << 10
_FETCH_BYTES: Final = 1 << 20
_RETRY_S: Final = 0.5


class StreamNews:
    """The records of one key that arrived and wait for one reader."""

    def __init__(self) -> None:
        self._records: deque[Record] = deque()
        self._size_bytes = 0
        self._is_lost = False
        self._error: MainstemError | None = None
        self._woken = asyncio.Event()

    async def take(self, timeout_s: float) -> list[Record] | None:
        """The records that arrived; none when nothing came in time; None when some are lost.

        Raises what ended the follower.
        """
        if not self._woken.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await self._woken.wait()
            except TimeoutError:
                return []
        self._woken.clear()
        if self._error is not None:
            self._woken.set()
            raise self._error
        records, is_lost = list(self._records), self._is_lost
        self._records.clear()
        self._size_bytes, self._is_lost = 0, False
        return None if is_lost else records

    def add(self, record: Record) -> None:
        """A record of the key has come."""
        self._size_bytes += record.size_bytes
        if self._size_bytes > WAITING_BYTES and self._records:
            self._records.clear()
            self._is_lost = True
        if not self._is_lost:
            self._records.append(record)
        self._woken.set()

    def end(self, error: MainstemError) -> None:
        """Nothing will come any more."""
        self._error = error
        self._woken.set()


class StreamFeeds:
    """The followers of a gateway's topics."""

    def __init__(self, log: Log, *, linger_s: float = LINGER_S) -> None:
        self._log = log
        self._linger_s = linger_s
        self._feeds: dict[str, _Feed] = {}
        self._workers = Workers(FEEDS_MAX)

    @asynccontextmanager
    async def following(self, name: StreamName) -> AsyncGenerator[StreamNews, None]:
        """The records that come to a stream from now on.

        Raises UnavailableError, UnknownTopicError, LogUnavailableError.
        """
        feed = self._feeds.get(name.topic)
        if feed is None or feed.error is not None:
            if len(self._feeds) >= FEEDS_MAX and feed is None:
                raise UnavailableError(f"streams of {FEEDS_MAX} topics are being followed already; try again later")
            feed = self._feeds[name.topic] = _Feed(self._log, name.topic, self._workers)
        news, key = StreamNews(), name.key.encode()
        feed.join(key, news)
        try:
            await feed.opened()
            yield news
        finally:
            if feed.leave(key, news):
                asyncio.get_running_loop().call_later(self._linger_s, self._close_idle, name.topic, feed)

    def end(self) -> None:
        """The process stops: all live reads end."""
        for feed in self._feeds.values():
            feed.end(UnavailableError("the server stops; read on in a moment"))

    def _close_idle(self, topic: str, feed: _Feed) -> None:
        if feed.is_idle:
            feed.end(UnavailableError("this topic is not followed any more"))
            if self._feeds.get(topic) is feed:
                del self._feeds[topic]


class _Feed:
    """The follower of one topic."""

    def __init__(self, log: Log, topic: str, workers: Workers) -> None:
        self.error: MainstemError | None = None
        self._log = log
        self._topic = topic
        self._workers = workers
        self._readers: dict[bytes, set[StreamNews]] = {}
        self._follower: Follower | None = None
        self._opened = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    @property
    def is_idle(self) -> bool:
        return not self._readers

    def join(self, key: bytes, news: StreamNews) -> None:
        self._readers.setdefault(key, set()).add(news)

    def leave(self, key: bytes, news: StreamNews) -> bool:
        """A reader has gone; whether it was the last one."""
        readers = self._readers.get(key, set())
        readers.discard(news)
        if not readers:
            self._readers.pop(key, None)
        return not self._readers

    async def opened(self) -> None:
        """Return when the topic is followed."""
        await self._opened.wait()
        if self.error is not None:
            raise self.error

    def end(self, error: MainstemError) -> None:
        """End it, and every reader. Idempotent."""
        if self.error is None:
            self.error = error
            for news in [each for readers in self._readers.values() for each in readers]:
                news.end(error)
        if self._follower is not None:
            self._follower.close()
        self._opened.set()

    async def _run(self) -> None:
        try:
            follow = self._log.follow
            self._follower = await self._workers.run(follow, self._topic, fetch_bytes=_FETCH_BYTES, on_damaged="skip")
            self._opened.set()
            while self.error is None:
                await self._take(self._follower)
        except MainstemError as error:
            self.end(error)
        except Exception as error:  # noqa: BLE001 - each reader gets an error; the next one begins a follower of its own
            failed("stream feed", error)
        finally:
            self.end(UnavailableError(f"the follower of topic {self._topic} has ended; read on"))

    async def _take(self, follower: Follower) -> None:
        try:
            records = await self._workers.run(follower.take, _TAKE_BYTES)
        except LogUnavailableError as error:
            _LOG.warning("%s cannot be followed just now: %s", self._topic, error)
            await asyncio.sleep(_RETRY_S)
            return
        for record in records:
            for news in self._readers.get(record.key or b"", ()):
                news.add(record)
