"""The routes of request and reply: ``POST /topics/{topic}/requests`` and ``GET /requests/{id}``.

A POST waits for its reply as long as its parameters allow, and frees its place when the client disconnects. Without a
reply in time, or when the gateway stops, the answer is 202 with a Location, which stays valid over a restart of the
gateway.
"""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Final

from fastapi import Query, Request
from starlette.responses import Response

from mainstem.client.http.request_reply import ERROR, RequestId, reply_topic_of
from mainstem.client.log import Log
from mainstem.errors import RequestFailedError
from mainstem.gateway.access.access_rules import WRITE_TOPIC
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.bodies import read_json
from mainstem.gateway.http.description import AT, CONDITIONS, Answers, Success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import NoQuery, ReplyQuery
from mainstem.gateway.http.record_bodies import RequestBody
from mainstem.gateway.requests.reply_follower import Expected, Replies
from mainstem.gateway.requests.request_reply import Requests
from mainstem.gateway.topics.conditions import append_options_of
from mainstem.gateway.topics.record_json import record_json
from mainstem.gateway.topics.topic_routes import check_name
from mainstem.model import Position, Record

_THREADS_MAX: Final = 32
_RETRY_AFTER_S: Final = "1"
_ANSWERS: Final = (
    Success(200, "The reply", "Answered", (*AT, "Preference-Applied")),
    Success(202, "Not answered yet", "Pending", (*AT, "Location", "Retry-After", "Preference-Applied")),
)
_WAIT = re.compile(r'wait\s*=\s*"?(\d{1,6})"?')


class RequestRoutes:
    """The two routes over one log, and what they hold open. Used by one event loop."""

    def __init__(self, log: Log) -> None:
        self._requests = Requests(log)
        self._replies = Replies(log)
        self._workers = Workers(_THREADS_MAX)

    def end(self) -> None:
        """Answer all waiting requests with 202 and their Location, because the process stops. Idempotent."""
        self._replies.end()

    async def close(self) -> None:
        """End what is followed."""
        await self._replies.close()

    def router(self) -> Routes:
        """The routes."""
        router = Routes("requests")

        @router.declare(
            "POST",
            "/topics/{topic}/requests",
            "Append a request and wait for its reply",
            WRITE_TOPIC,
            Answers(_ANSWERS, (409, 412, 504), (*CONDITIONS, "Prefer")),
            body=RequestBody,
        )
        async def ask(http: Request, topic: str, _: Annotated[NoQuery, Query()]) -> Response:
            check_name(topic)
            body = await read_json(http, RequestBody)
            timeout_s, applied = _preferences(http.headers.get("prefer", ""), body.timeout_s)
            response = await self._ask(http, topic, body, timeout_s)
            if applied:
                response.headers["Preference-Applied"] = ", ".join(applied)
            return response

        @router.declare(
            "GET",
            "/requests/{request}",
            "What became of a request: its reply, or that it is pending",
            WRITE_TOPIC,  # the id names the topic, and has to be known besides
            Answers(_ANSWERS, (410,)),
        )
        async def look(http: Request, request: str, query: Annotated[ReplyQuery, Query()]) -> Response:
            return await self._look(http, RequestId.parse(request), query.timeout)

        return router

    async def _ask(self, http: Request, topic: str, body: RequestBody, timeout_s: float) -> Response:
        options = append_options_of(http.headers, 1)
        prepared = await self._workers.run(self._requests.prepare, topic, body, options)
        if timeout_s == 0:
            request, position = await self._workers.run(self._requests.append, topic, body, prepared)
            return _pending(request, position)
        async with self._replies.expecting(prepared.reply_topic, prepared.correlation_id) as expected:
            request, position = await self._workers.run(self._requests.append, topic, body, prepared)
            reply = await self._workers.run(self._requests.reply, request) if "idempotency_key" in options else None
            reply = reply or await self._wait(http, request, expected, timeout_s)
        return _pending(request, position) if reply is None else _answered(request, reply)

    async def _look(self, http: Request, request: RequestId, timeout_s: float) -> Response:
        reply = await self._workers.run(self._requests.reply, request)
        if reply is None:
            position = await self._workers.run(self._requests.pending, request)
            if timeout_s == 0:
                return _pending(request, position)
            async with self._replies.expecting(reply_topic_of(request.topic), request.correlation_id) as expected:
                # It may have come before it was expected: what is in the log by now is found there.
                reply = await self._workers.run(self._requests.reply, request)
                reply = reply or await self._wait(http, request, expected, timeout_s)
            if reply is None:
                return _pending(request, position)
        return _answered(request, reply)

    async def _wait(self, http: Request, request: RequestId, expected: Expected, timeout_s: float) -> Record | None:
        """The reply; None when the time is over, or the asker has gone."""
        gone = asyncio.ensure_future(_gone(http))
        either: set[asyncio.Future[Any]] = {expected, gone}
        try:
            await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if not expected.done():
            return None
        return expected.result() or await self._workers.run(self._requests.reply, request)


async def _gone(http: Request) -> None:
    """Returns when the asker closes the connection."""
    while (await http.receive())["type"] != "http.disconnect":
        continue


def _preferences(prefer: str, timeout_s: float) -> tuple[float, list[str]]:
    """The time to wait by the header Prefer (RFC 7240), and the preference that is applied. Others are ignored."""
    applied: list[str] = []
    for part in (part.strip().lower() for part in prefer.split(",")):
        wait = _WAIT.fullmatch(part)
        if part == "respond-async":
            timeout_s = 0.0
            applied.append(part)
        elif wait is not None:
            timeout_s = min(timeout_s, float(wait[1]))
            applied.append(f"wait={wait[1]}")
    return timeout_s, applied


def _pending(request: RequestId, position: Position) -> Response:
    document = {"id": str(request), "status": "pending", "position": str(position)}
    response = json_response(document, status=202, position=position)
    response.headers["Location"] = f"/requests/{request}"
    response.headers["Retry-After"] = _RETRY_AFTER_S
    return response


def _answered(request: RequestId, reply: Record) -> Response:
    """The reply. Raises RequestFailedError when it says that the request failed."""
    headers = dict(reply.headers)
    if ERROR in headers:
        raise RequestFailedError(
            " ".join((headers[ERROR] or b"").decode(errors="replace").split()) or "no reason given"
        )
    position = Position({request.topic_partition: request.offset + 1})
    document: dict[str, Any] = {
        "id": str(request),
        "status": "answered",
        "position": str(position),
        "reply": {"position": str(reply.position), **record_json(reply)},
    }
    return json_response(document, position=position)
