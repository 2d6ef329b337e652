"""The routes of Durable Streams: ``/streams/{topic}/{key}``.

Requests that change one stream take turns in this gateway, so that they seldom meet in the log; correctness does not
depend on it (see ``stream_log``). Blocking work runs in threads.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from fastapi import Request
from starlette.responses import Response

from mainstem.client.log import Log
from mainstem.errors import InputError, MainstemError
from mainstem.gateway.access.access_rules import READ_TOPIC, WRITE_TOPIC, AccessRule
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.durable import stream_answers
from mainstem.gateway.durable.live_reads import POLL_S, LiveReads
from mainstem.gateway.durable.stream_changes import StreamChanges
from mainstem.gateway.durable.stream_checks import StreamRefusedError, existing
from mainstem.gateway.durable.stream_feeds import StreamFeeds
from mainstem.gateway.durable.stream_fields import append_fields, check_key, create_fields, read_position
from mainstem.gateway.durable.stream_log import StreamLog, StreamName, StreamPage
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.description import AT, Answers, Success
from mainstem.gateway.http.key_paths import KEY
from mainstem.gateway.http.problem_responses import error_response
from mainstem.gateway.streams.event_stream import EventStream, Streams
from mainstem.gateway.topics.topic_routes import check_name

_WRITERS_MAX: Final = 64
_READERS_MAX: Final = 32
_PAGE_BYTES: Final = 1 << 20
_PATH: Final = "/streams/{topic}/" + KEY
_OFFSET: Final = ("Stream-Next-Offset", "Stream-Closed")
_PROBLEMS: Final = (409, 410, 413, 416, 422, 504)
Handler = Callable[[Request, StreamName], Awaitable[Response]]


def durable_stream_router(log: Log, streams: Streams, poll_s: float = POLL_S) -> Routes:
    """All routes under ``/streams``."""
    router, served = Routes("streams"), _Served(log, streams, poll_s)
    declared: list[tuple[str, str, AccessRule, tuple[Success, ...], Handler]] = [
        (
            "PUT",
            "Create a durable stream, or a fork of one",
            WRITE_TOPIC,
            (_data(201, "Created", "Location", *AT), _data(200, "It is there already", *AT)),
            served.create,
        ),
        (
            "POST",
            "Append to a durable stream, close it, or both",
            WRITE_TOPIC,
            (_empty(204, "Appended, or appended before", *AT), _data(200, "Appended by a producer", *AT)),
            served.append,
        ),
        (
            "HEAD",
            "The end of a durable stream, and what it was created with",
            READ_TOPIC,
            (_data(200, "The stream"),),
            served.describe,
        ),
        (
            "GET",
            "Read a durable stream from an offset; `live` waits for more",
            READ_TOPIC,
            (
                _data(200, "The data from `offset` on, in the stream's own type", "ETag"),
                _empty(204, "A long poll in which nothing came"),
                _empty(304, "Nothing has changed since `If-None-Match`"),
            ),
            served.read,
        ),
        (
            "DELETE",
            "Delete a durable stream",
            WRITE_TOPIC,
            (Success(204, "Deleted", "Object"),),
            served.delete,
        ),
    ]
    for method, summary, rule, answers, handler in declared:
        router.declare(method, _PATH, summary, rule, Answers(answers, _PROBLEMS))(_answering(handler))
    return router


def _data(status: int, text: str, *more: str) -> Success:
    """An answer in the stream's own type."""
    return Success(status, text, "Text", (*_OFFSET, *more), "application/octet-stream")


def _empty(status: int, text: str, *more: str) -> Success:
    """An answer with headers alone."""
    return Success(status, text, "Object", (*_OFFSET, *more))


def _answering(handler: Handler) -> Callable[[Request, str, str], Awaitable[Response]]:
    """The route's function: checks the name, and puts the protocol's headers on refusals."""

    @functools.wraps(handler, assigned=("__doc__",), updated=())
    async def answer(http: Request, topic: str, key: str) -> Response:
        headers: dict[str, str] = {}
        try:
            check_name(topic)
            check_key(key)
            return await handler(http, StreamName(topic, key))
        except StreamRefusedError as refusal:
            error, headers = refusal.error, refusal.headers
        except MainstemError as refused:
            error = refused
        response = error_response(error)
        response.headers.update(stream_answers.SAFE | headers)
        return response

    del answer.__wrapped__  # the framework reads the parameters of this function
    return answer


class _Served:
    """The handlers, and what they share."""

    def __init__(self, log: Log, streams: Streams, poll_s: float) -> None:
        self._streams = streams
        self._log = StreamLog(log)
        self._changes = StreamChanges(self._log)
        self._writers, self._readers = Workers(_WRITERS_MAX), Workers(_READERS_MAX)
        self._turns: dict[StreamName, tuple[asyncio.Lock, int]] = {}
        feeds = StreamFeeds(log)
        streams.at_end(feeds.end)
        self._live = LiveReads(self._log, feeds, self._readers, self._touch, poll_s)

    async def create(self, http: Request, name: StreamName) -> Response:
        fields, body = create_fields(http.headers, name.topic), await http.body()
        async with self._turn(name):
            outcome = await self._writers.run(self._changes.create, name, fields, body)
        return stream_answers.created(outcome, str(http.base_url), name)

    async def append(self, http: Request, name: StreamName) -> Response:
        fields, body = append_fields(http.headers), await http.body()
        async with self._turn(name):
            outcome = await self._writers.run(self._changes.append, name, fields, body)
        return stream_answers.appended(outcome, name.topic, fields, has_body=bool(body))

    async def delete(self, http: Request, name: StreamName) -> Response:
        del http
        async with self._turn(name):
            await self._writers.run(self._changes.delete, name)
        return stream_answers.deleted()

    async def describe(self, http: Request, name: StreamName) -> Response:
        del http
        found = await self._readers.run(self._log.find, name)
        return stream_answers.described(existing(found.state, self._log.now_ms()))

    async def read(self, http: Request, name: StreamName) -> Response:
        offset, live, cursor = (_single(http, each) for each in ("offset", "live", "cursor"))
        position = read_position(offset)
        if live is None:
            page = await self._readers.run(self._log.page, name, position, _PAGE_BYTES)
            existing(page.found.state, self._log.now_ms())
            await self._touch(name, page)
            return stream_answers.read(page, known_tags=http.headers.get("if-none-match"), is_now=position is None)
        if offset is None:
            raise InputError(f"live={live[:20]} needs an offset")
        if live == "long-poll":
            return stream_answers.polled(await self._live.poll(name, position), cursor)
        if live == "sse":
            page = await self._live.first_page(name, position)
            headers = stream_answers.event_headers(page.state)
            return EventStream(self._live.events(name, page, cursor), self._streams, headers=headers)
        raise InputError(f"unknown live mode {live[:20]!r}: use long-poll or sse")

    async def _touch(self, name: StreamName, page: StreamPage) -> None:
        """Note a read of a stream with a time to live."""
        if page.state.needs_touch(self._log.now_ms()):
            async with self._turn(name):
                await self._writers.run(self._changes.touch, name)

    @asynccontextmanager
    async def _turn(self, name: StreamName) -> AsyncGenerator[None, None]:
        """The turn of one request among those that change a stream."""
        lock, waiting = self._turns.get(name, (asyncio.Lock(), 0))
        self._turns[name] = lock, waiting + 1
        try:
            async with lock:
                yield
        finally:
            _, waiting = self._turns[name]
            if waiting == 1:
                del self._turns[name]
            else:
                self._turns[name] = lock, waiting - 1


def _single(http: Request, name: str) -> str | None:
    """A parameter that may occur once. Raises InputError."""
    values = http.query_params.getlist(name)
    if len(values) > 1:
        raise InputError(f"{name} is given {len(values)} times: give it once")
    return values[0] if values else None
