"""Pages of other origins, by choice (CORS, the Fetch standard): off unless origins are named.

A named origin may send every request that this API knows and read every answer, problems included. Credentials of the
browser are never allowed: a page has to have a token of its own. ``*`` names every origin, and is for gateways that ask
for tokens. Plain ASGI, outermost, so that refusals are readable too; stateless.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.responses import Response

from mainstem.errors import ConfigError
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.request_limits import AsgiApp, Message, Receive, Scope, Send

_ORIGIN = re.compile(r"https?://(\[[0-9a-f:]+\]|[a-z0-9.-]+)(:\d{1,5})?")
_METHODS: Final = "GET, HEAD, POST, PUT, DELETE"
_REQUEST_HEADERS: Final = (
    "Accept, Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, "
    "Mainstem-Expect-End, Prefer, Producer-Epoch, Producer-Id, Producer-Seq, Stream-Closed, Stream-Expires-At, "
    "Stream-Fork-Offset, Stream-Fork-Sub-Offset, Stream-Forked-From, Stream-Seq, Stream-TTL"
)
_EXPOSED: Final = (
    "ETag, Location, Mainstem-Position, Preference-Applied, Producer-Epoch, Producer-Expected-Seq, "
    "Producer-Received-Seq, Producer-Seq, Retry-After, Stream-Closed, Stream-Cursor, Stream-Expires-At, "
    "Stream-Next-Offset, Stream-SSE-Data-Encoding, Stream-TTL, Stream-Up-To-Date, WWW-Authenticate"
)
_PREFLIGHT_S: Final = "600"


def checked_origins(origins: Iterable[str], *, has_tokens: bool) -> frozenset[str]:
    """The origins, if they can be some. Raises ConfigError."""
    found = frozenset(origin.strip().lower().rstrip("/") for origin in origins)
    for origin in found:
        if origin == "*":
            if not has_tokens:
                raise ConfigError(
                    "the origin * needs tokens (--http-tokens): else every page of the web could write here"
                )
        elif _ORIGIN.fullmatch(origin) is None:
            raise ConfigError(
                f"invalid origin {origin[:100]!r}: give it as https://example.com, with its port if it has one"
            )
    return found


class Cors:
    """ASGI middleware that lets the pages in which ``limits`` names."""

    def __init__(self, app: AsgiApp, limits: GatewayLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        origin = _header(scope, b"origin") if scope["type"] == "http" else None
        if origin is None or not self._limits.allows_origin(origin):
            await self._app(scope, receive, send)
            return
        if scope["method"] == "OPTIONS" and _header(scope, b"access-control-request-method") is not None:
            await _preflight(origin)(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Access-Control-Allow-Origin"] = origin
                headers["Access-Control-Expose-Headers"] = _EXPOSED
                headers.add_vary_header("Origin")
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _preflight(origin: str) -> Response:
    headers = {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Allow-Headers": _REQUEST_HEADERS,
        "Access-Control-Max-Age": _PREFLIGHT_S,
        "Vary": "Origin",
    }
    return Response(status_code=204, headers=headers)


def _header(scope: Scope, name: bytes) -> str | None:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)
