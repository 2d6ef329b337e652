"""Live reads: long polls, and server-sent events. Both read up to the tail, then wait for what the feed brings.

Every data event has a control event after it, with the offset to go on from. An event stream ends when its stream is
closed or deleted, and after ``EVENTS_S``, so that what lies between can share connections; clients come again.
For one event loop.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

from mainstem.gateway.durable.stream_checks import existing
from mainstem.gateway.durable.stream_events import event_of
from mainstem.gateway.durable.stream_feeds import StreamFeeds
from mainstem.gateway.durable.stream_log import StreamLog, StreamName, StreamPage, followed
from mainstem.gateway.durable.stream_messages import data_event, event
from mainstem.gateway.durable.stream_offsets import StreamPosition, cursor
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.streams.event_format import beat
from mainstem.gateway.streams.event_stream import BEAT_S
from mainstem.model import Record

POLL_S: Final = 15.0
EVENTS_S: Final = 60.0
_PAGE_BYTES: Final = 256 << 10


class LiveReads:
    """The live reads of a gateway. ``touch`` notes that a stream is being read."""

    def __init__(
        self,
        streams: StreamLog,
        feeds: StreamFeeds,
        workers: Workers,
        touch: Callable[[StreamName, StreamPage], Awaitable[None]],
        poll_s: float = POLL_S,
    ) -> None:
        self._streams = streams
        self._feeds = feeds
        self._workers = workers
        self._touch = touch
        self._poll_s = poll_s

    async def poll(self, name: StreamName, position: StreamPosition | None) -> StreamPage:
        """Data from ``position`` on; waits for some at the tail, unless the stream is closed."""
        await self._page(name, None)  # an error comes before the wait for a follower
        async with self._feeds.following(name) as news:
            until_s = time.monotonic() + self._poll_s
            page = await self._page(name, position)
            await self._touch(name, page)
            while not page.values and not page.is_final:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    break
                records = await news.take(left_s)
                page = await self._next(name, page, records)
            return page

    async def first_page(self, name: StreamName, position: StreamPosition | None) -> StreamPage:
        """The first data of an event stream, so that errors come before it begins."""
        page = await self._page(name, position)
        await self._touch(name, page)
        return page

    async def events(self, name: StreamName, page: StreamPage, given: str | None) -> AsyncGenerator[bytes, None]:
        """The events of a stream from ``page`` on."""
        until_s = time.monotonic() + EVENTS_S * random.uniform(0.9, 1.1)
        is_first = True
        async with self._feeds.following(name) as news:
            page = await self._page(name, page.start)
            while True:
                if page.values or is_first or page.is_final:
                    data = data_event(page.state.config.content_type, page.values) if page.values else b""
                    yield data + control(page, given)
                    is_first = False
                left_s = until_s - time.monotonic()
                if page.is_final or left_s <= 0:
                    return
                if not page.is_up_to_date:
                    page = await self._page(name, page.end)
                    continue
                records = await news.take(min(left_s, BEAT_S))
                if records == []:
                    yield beat(None)
                    await self._touch(name, page)
                page = await self._next(name, page, records)

    async def _page(self, name: StreamName, position: StreamPosition | None) -> StreamPage:
        page = await self._workers.run(self._streams.page, name, position, _PAGE_BYTES)
        existing(page.found.state, self._streams.now_ms())
        return page

    async def _next(self, name: StreamName, page: StreamPage, records: Sequence[Record] | None) -> StreamPage:
        """The page after one that reached the tail. ``records`` None: some are lost."""
        if records is None:
            return await self._page(name, page.end)
        found, values, end = page.found, [], page.end
        for record in records:
            if record.offset <= found.last:
                continue
            event_ = event_of(record)
            found = followed(found, record)
            if found.state is None or event_.kind == "create":
                return await self._page(name, page.end)  # deleted: the next read says so
            if event_.count:
                values.append(record.value or b"")
                end = StreamPosition(event_.before + event_.count, record.offset + 1)
        existing(found.state, self._streams.now_ms())
        return StreamPage(found, values, page.end, end)


def control(page: StreamPage, given: str | None) -> bytes:
    """The control event after a page."""
    document: dict[str, object] = {"streamNextOffset": page.end.token}
    if not page.is_final:
        document["streamCursor"] = cursor(given)
    if page.is_up_to_date:
        document["upToDate"] = True
    if page.is_final:
        document["streamClosed"] = True
    return event("control", json.dumps(document, separators=(",", ":")).encode())
