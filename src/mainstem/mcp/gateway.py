"""``McpGateway``: questions to the gateway, whose answers are made to fit.

An answer that is too large is asked for again with fewer items, and not cut: so its position, or its ``next`` key, is
the right place to read on. The calls block; tools run in worker threads, each with a connection of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult

from mainstem.client.http.http import JsonHttp
from mainstem.errors import MainstemError
from mainstem.mcp.answers import answered, fitting, shortened

CALL_S: Final = 60.0
_GATEWAY_BYTES_MAX: Final = 64 << 20
_ENVELOPE_BYTES: Final = 2_000
_DOTS: Final = (".", "..")
"""As segments of a path they mean this one and the one above, to whatever passes a request on."""


class McpGateway:
    """One gateway. ``bytes_max`` bounds the data of an answer. Thread-safe."""

    def __init__(self, url: str, *, bytes_max: int) -> None:
        """Raises ConfigError for an invalid address."""
        self._http = JsonHttp(url, answer_bytes_max=_GATEWAY_BYTES_MAX)
        self._bytes_max = bytes_max - _ENVELOPE_BYTES

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        timeout_s: float = CALL_S,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """One request; a GET may be sent twice. Raises ToolError with the gateway's own words."""
        try:
            repeats = method == "GET" or "Idempotency-Key" in (headers or {})
            return self._http.call(method, path, query, body, timeout_s, headers=headers, repeats=repeats)
        except MainstemError as error:
            raise ToolError(str(error)) from error

    def page(
        self, path: str, query: Mapping[str, Any], items: str, limit: int, *, timeout_s: float = CALL_S
    ) -> dict[str, Any]:
        """One page of a list that the gateway can go on with, with as many items as fit."""
        while True:
            answer = self.call("GET", path, {**query, "limit": limit}, timeout_s=timeout_s)
            found = answer[items]
            count = fitting(found, self._bytes_max)
            if count == len(found) or len(found) == 1:
                return {**answer, items: [shortened(item, self._bytes_max) for item in found]}
            limit = max(1, count)

    def first(self, answer: dict[str, Any], items: str, advice: str) -> CallToolResult:
        """An answer that has no next page: its first items, and advice where some are left out."""
        found = answer[items]
        count = max(1, fitting(found, self._bytes_max))
        shown = [shortened(item, self._bytes_max) for item in found[:count]]
        left = len(found) - len(shown)
        return answered({**answer, items: shown}, f"{left} more are left out: {advice}" if left else None)

    def whole(self, answer: dict[str, Any]) -> CallToolResult:
        """An answer that is one thing."""
        return answered(shortened(answer, self._bytes_max))


def path_of(kind: str, name: str, rest: str = "") -> str:
    """``/topics/NAME`` or ``/views/NAME``. Raises ToolError for a name that cannot stand in a path."""
    if name in _DOTS or "/" in name:
        raise ToolError(f"{name!r} is not the name of one of the {kind}: list_{kind} shows the names")
    return f"/{kind}/{quote(name, safe='')}{rest}"
