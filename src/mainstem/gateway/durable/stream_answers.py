"""Answers of the protocol: its headers, and the ones that keep a browser from misreading data. Pure functions."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from mainstem.gateway.durable.stream_changes import StreamOutcome
from mainstem.gateway.durable.stream_checks import CLOSED, NEXT_OFFSET
from mainstem.gateway.durable.stream_fields import AppendFields
from mainstem.gateway.durable.stream_log import StreamName, StreamPage
from mainstem.gateway.durable.stream_messages import is_text, joined
from mainstem.gateway.durable.stream_offsets import cursor
from mainstem.gateway.durable.stream_state import StreamState
from mainstem.gateway.http.json_responses import POSITION_HEADER

SAFE: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}
"""A stream has any type, so a page in one must not run as a page of this server."""
_UP_TO_DATE: Final = "Stream-Up-To-Date"
_CURSOR: Final = "Stream-Cursor"
_KEPT: Final = "private, no-cache"
"""A cache asks each time, with the entity tag: a stream can be deleted, or grow."""


def created(outcome: StreamOutcome, server: str, name: StreamName) -> Response:
    """The answer to a PUT. ``server``: the address of the server that the client used, with a ``/`` at its end."""
    headers = _state_headers(outcome.state) | {POSITION_HEADER: str(outcome.position(name.topic))}
    if outcome.is_new:
        headers["Location"] = f"{server}streams/{quote(name.topic)}/{quote(name.key)}"
    return _answer(201 if outcome.is_new else 200, headers, content_type=outcome.state.config.content_type)


def appended(outcome: StreamOutcome, topic: str, fields: AppendFields, *, has_body: bool) -> Response:
    """The answer to a POST."""
    state, status = outcome.state, 204
    headers = _state_headers(state) | {POSITION_HEADER: str(outcome.position(topic))}
    if fields.producer is not None:
        epoch, seq = state.producers[fields.producer.producer]
        headers |= {"Producer-Epoch": str(epoch), "Producer-Seq": str(seq)}
        status = 200 if outcome.is_new and has_body else 204
    return _answer(status, headers)


def deleted() -> Response:
    """The answer to a DELETE."""
    return _answer(204, {})


def described(state: StreamState) -> Response:
    """The answer to a HEAD."""
    headers = _state_headers(state) | {"Cache-Control": "no-store"}
    if state.config.ttl_s is not None:
        headers["Stream-TTL"] = str(state.config.ttl_s)
    if state.config.expires_ms is not None:
        expires = datetime.datetime.fromtimestamp(state.config.expires_ms / 1_000, datetime.UTC)
        headers["Stream-Expires-At"] = expires.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return _answer(200, headers, content_type=state.config.content_type)


def read(page: StreamPage, *, known_tags: str | None, is_now: bool) -> Response:
    """The answer to a GET that does not wait."""
    headers = _page_headers(page)
    if is_now:
        headers["Cache-Control"] = "no-store"
    else:
        tag = headers["ETag"] = _tag(page)
        if known_tags is not None and tag in [each.strip() for each in known_tags[:4_096].split(",")]:
            return _answer(304, headers)
    content_type = page.state.config.content_type
    return _answer(200, headers, joined(content_type, page.values), content_type)


def polled(page: StreamPage, given: str | None) -> Response:
    """The answer to a long poll."""
    headers = _page_headers(page) | {_CURSOR: cursor(given)}
    if not page.values:
        return _answer(204, headers | {"Cache-Control": "no-store"})
    headers["ETag"] = _tag(page)
    content_type = page.state.config.content_type
    return _answer(200, headers, joined(content_type, page.values), content_type)


def event_headers(state: StreamState) -> dict[str, str]:
    """The headers of an event stream besides its type."""
    headers = SAFE | {"Cache-Control": "no-cache, no-store"}
    return headers if is_text(state.config.content_type) else headers | {"Stream-SSE-Data-Encoding": "base64"}


def _page_headers(page: StreamPage) -> dict[str, str]:
    headers = {NEXT_OFFSET: page.end.token, "Cache-Control": _KEPT}
    if page.is_up_to_date:
        headers[_UP_TO_DATE] = "true"
    if page.is_final:
        headers[CLOSED] = "true"
    return headers


def _tag(page: StreamPage) -> str:
    closed = ":c" if page.is_final else ""
    return f'"{page.state.origin}:{page.start.token}:{page.end.token}{closed}"'


def _state_headers(state: StreamState) -> dict[str, str]:
    headers = {NEXT_OFFSET: state.tail.token}
    return headers | {CLOSED: "true"} if state.is_closed else headers


def _answer(status: int, headers: Mapping[str, str], body: bytes = b"", content_type: str | None = None) -> Response:
    """An answer whose content type is as the stream's creator wrote it."""
    response = Response(body, status_code=status, headers=SAFE | dict(headers))
    if content_type is not None:
        response.headers["Content-Type"] = content_type
    return response
