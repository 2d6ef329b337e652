"""In front of the registry's routes: contexts in paths, passwords, and errors in the one form that its clients know.

``/contexts/.lab/subjects/orders-value`` is ``/subjects/orders-value`` in the context ``.lab``: the path is rewritten
before access rules and routes see it. Many clients of registries can send a user and a password alone (RFC 7617): the
password is the token, and the user may be any. A problem document that any part of the gateway answers to a request of
the registry gets the form of ``registry_errors``.

Plain ASGI; stateless.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, Final

from starlette.convertors import register_url_convertor

from mainstem.gateway.access.request_limits import AsgiApp, Message, Receive, Scope, Send
from mainstem.gateway.http.key_paths import TextConvertor
from mainstem.gateway.http.problem_responses import HTTP_PROBLEMS
from mainstem.gateway.registry.registry_errors import APICURIO, error_body, is_apicurio
from mainstem.gateway.registry.registry_json import CONTEXT
from mainstem.problems import CONTENT_TYPE, TYPE_PREFIX
from mainstem.registry.errors import RegistryError
from mainstem.registry.names import checked_context

_IN_CONTEXT: Final = re.compile(
    r"/contexts/(?P<context>[^/]+)(?P<rest>/(?:subjects|schemas|config|mode|compatibility|apis)(?:/.*)?)", re.DOTALL
)
_PROBLEM_BYTES_MAX: Final = 64 << 10
_STORE_ERROR: Final = 50001
_OF_THE_STORE: Final = (502, 503, 504)
_UNROUTED: Final = tuple(TYPE_PREFIX + HTTP_PROBLEMS[status][0] for status in (404, 405))


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
        rewritten = {**self._rewritten(scope), "headers": [_as_bearer(*header) for header in scope["headers"]]}
        errors = _Errors(send, rewritten["method"], rewritten["path"].removeprefix(self._prefix))
        await self._app(rewritten, receive, errors.send)

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


def _as_bearer(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """The header; a user and a password (Basic) become a bearer token, which is the password."""
    scheme, _, encoded = value.partition(b" ")
    if name.lower() != b"authorization" or scheme.lower() != b"basic":
        return name, value
    try:
        _, _, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except binascii.Error:
        return name, value
    return name, b"Bearer " + password


class _Errors:
    """Sends an answer on; a problem document is held back until it is complete, and sent in the registry's form."""

    def __init__(self, send: Send, method: str, path: str) -> None:
        self._send = send
        self._method = method
        self._path = path
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
        message = str(problem.get("detail", ""))
        if is_apicurio(self._path) and problem.get("type") in _UNROUTED:
            message = (
                f"{self._method} {self._path[:200]} is not supported: of Apicurio's API, only what its serializers "
                f"send is served, below {APICURIO}"
            )
        body, media_type = error_body(self._path, status, code, message)
        headers = [
            (name, value) for name, value in start["headers"] if name not in (b"content-type", b"content-length")
        ]
        headers += [(b"content-type", media_type.encode()), (b"content-length", str(len(body)).encode())]
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _is_problem(start: Message) -> bool:
    return any(name == b"content-type" and value.startswith(CONTENT_TYPE.encode()) for name, value in start["headers"])
