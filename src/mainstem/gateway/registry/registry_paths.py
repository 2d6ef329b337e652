"""In front of the registry's routes: contexts in paths, and errors in the one form that its clients know.

``/contexts/.lab/subjects/orders-value`` is ``/subjects/orders-value`` in the context ``.lab``: the path is rewritten
before access rules and routes see it. A problem document that any part of the gateway answers to a request of the
registry becomes ``{"error_code": …, "message": …}``, with nothing else: Java's client refuses any other field.

Plain ASGI; stateless.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from starlette.convertors import register_url_convertor

from mainstem.client.values import json_text
from mainstem.gateway.access.request_limits import AsgiApp, Message, Receive, Scope, Send
from mainstem.gateway.http.key_paths import TextConvertor
from mainstem.gateway.registry.registry_json import CONTEXT, MEDIA_TYPE
from mainstem.problems import CONTENT_TYPE
from mainstem.registry.errors import RegistryError
from mainstem.registry.names import checked_context

_IN_CONTEXT: Final = re.compile(
    r"/contexts/(?P<context>[^/]+)(?P<rest>/(?:subjects|schemas|config|mode|compatibility)(?:/.*)?)", re.DOTALL
)
_PROBLEM_BYTES_MAX: Final = 64 << 10
_STORE_ERROR: Final = 50001
_OF_THE_STORE: Final = (502, 503, 504)


register_url_convertor("subject", TextConvertor())
SUBJECT: Final = "{subject:subject}"


def is_below(prefix: str, path: str) -> bool:
    """Whether a path is the prefix, or stands below it."""
    return not prefix or path == prefix or path.startswith(prefix + "/")


class RegistryPaths:
    """ASGI middleware for the paths below ``prefix``; others pass as they are."""

    def __init__(self, app: AsgiApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_below(self._prefix, scope["path"]):
            await self._app(scope, receive, send)
            return
        await self._app(self._rewritten(scope), receive, _Errors(send).send)

    def _rewritten(self, scope: Scope) -> Scope:
        path = scope["path"].removeprefix(self._prefix)
        match = _IN_CONTEXT.fullmatch(path)
        if match is not None:
            try:
                context = checked_context(match["context"])
            except RegistryError:
                return scope  # no route takes it: 404
            return {**scope, "path": self._prefix + match["rest"], CONTEXT: context}
        if path.endswith("/"):
            return {**scope, "path": (self._prefix + path).rstrip("/") or "/"}
        return scope


class _Errors:
    """Sends an answer on; a problem document is held back until it is complete, and sent in the registry's form."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_problem(message):
            self._start = message
        elif self._start is None or message["type"] != "http.response.body":
            await self._send(message)
        else:
            self._body += message.get("body", b"")[:_PROBLEM_BYTES_MAX]
            if not message.get("more_body"):
                await self._send_error(self._start)

    async def _send_error(self, start: Message) -> None:
        problem: dict[str, Any] = json.loads(bytes(self._body) or b"{}")
        status = start["status"]
        code = _STORE_ERROR if status in _OF_THE_STORE else status
        body = json_text({"error_code": code, "message": str(problem.get("detail", ""))}).encode()
        headers = [
            (name, value) for name, value in start["headers"] if name not in (b"content-type", b"content-length")
        ]
        headers += [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _is_problem(start: Message) -> bool:
    return any(name == b"content-type" and value.startswith(CONTENT_TYPE.encode()) for name, value in start["headers"])
