"""Routes requests between request limits and token authentication: the console's paths go to the console, others on.

1. The first request for a path of the console loads NiceGUI, in a thread, while the API goes on answering.
2. From then on the console's own app answers. It asks the API as any client would, through the whole gateway with its
   request limits. It has no other way to the log.
3. When the gateway stops, the console stops.
4. Where the gateway asks for tokens, pages and websockets need a session (`console.sign_in`); only files that never
   change are open.
5. With ``app.state.console_read_only`` pages reach the API through ``access.read_only``, which refuses changes.
6. Each open page holds about a megabyte here, so at most ``PAGES_MAX`` are open at once (503).

The console starts with the first request for a page. Its responses forbid loading anything from other sites, and
forbid other pages to show it in a frame. Its events come by websocket only, which the request limits accept only from
our own pages. Long polling, its other transport, would be readable by other pages and is refused. Used by one event
loop.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, cast

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.responses import Response

from mainstem.console.access.read_only import ReadOnly
from mainstem.console.sign_in import SIGN_IN, Sessions, sign_in_page
from mainstem.gateway.access.request_limits import AsgiApp, Message, Receive, RequestLimits, Scope, Send
from mainstem.gateway.access.token_auth import TokenAuth
from mainstem.gateway.http.problem_responses import http_problem

_PAGES = ("/console/", "/_nicegui/", "/_nicegui_ws/")
_EVENTS = "/_nicegui_ws/"
_FILES = ("/favicon.ico", "/_nicegui/")
PAGES_MAX: Final = 128
UNSEEN_S: Final = 10.0
_NO_RESPONSE: Final = "No response returned."
_SECURITY = [
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
        b"form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


def is_console_path(path: str) -> bool:
    """Whether the console answers at ``path``."""
    return path in ("/", "/console", "/favicon.ico") or path.startswith(_PAGES)


def mount_console(app: FastAPI) -> None:
    """Put the console in front of the API of ``app``, behind its request limits and before its token authentication."""
    token_auth = next(each for each in app.user_middleware if cast(Any, each.cls) is TokenAuth)
    is_read_only = bool(getattr(app.state, "console_read_only", False))
    gateway = ReadOnly(app, cast(Any, token_auth.kwargs["rules"])) if is_read_only else app
    console = LazyConsole(gateway, Sessions(cast(Any, token_auth.kwargs["tokens"])), is_read_only=is_read_only)
    limits = next(number for number, each in enumerate(app.user_middleware) if cast(Any, each.cls) is RequestLimits)
    app.user_middleware.insert(
        limits + 1, Middleware(ConsoleRouter, console=console)
    )  # the list goes from the outside in
    serve = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(served: FastAPI) -> AsyncIterator[Any]:
        async with serve(served) as state:
            yield state
            await console.close()

    app.router.lifespan_context = lifespan


class LazyConsole:
    """The console of one gateway; nothing of it is loaded before ``ready``."""

    def __init__(self, gateway: AsgiApp, sessions: Sessions, *, is_read_only: bool = False) -> None:
        self.sessions = sessions
        self._is_read_only = is_read_only
        self._gateway = gateway
        self._loading = asyncio.Lock()
        self._app: FastAPI | None = None
        self._running: AbstractAsyncContextManager[Any] | None = None

    async def ready(self) -> AsgiApp:
        """The console's app, started."""
        async with self._loading:
            if self._app is None:
                await asyncio.to_thread(_load)
                from mainstem.console.site import build

                app = build(self._gateway, self.sessions, is_read_only=self._is_read_only)
                self._running = app.router.lifespan_context(app)
                await self._running.__aenter__()
                self._app = app
        return self._app

    async def close(self) -> None:
        """Stop it, if it ever started."""
        if self._running is not None:
            await self._running.__aexit__(None, None, None)


class ConsoleRouter:
    """ASGI middleware that routes the console's paths to the console's app."""

    def __init__(self, app: AsgiApp, console: LazyConsole) -> None:
        self._app = app
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or not is_console_path(scope["path"]):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            if scope["type"] == "websocket":
                await receive()  # the request to connect, which is answered instead of accepted
            await refusal(scope, receive, _secured(send))
            return
        console = await self._console.ready()
        if scope["type"] == "http" and not scope["path"].startswith(_FILES) and not _has_room():
            await http_problem(503, f"{PAGES_MAX} pages of the console are open already; close some")(
                scope, receive, send
            )
            return
        await _answer(console, scope, receive, _secured(send))

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to what the console does not serve; None when it does."""
        path, sessions = scope["path"], self._console.sessions
        if scope["type"] == "http":
            if path == SIGN_IN and scope["method"] == "POST":
                return sessions.open(scope)
            if scope["method"] not in ("GET", "HEAD"):
                return http_problem(405, f"{path[:200]} does not take {scope['method']}")
            if path.startswith(_EVENTS):
                return http_problem(404, "the console's events are served by websocket only")
        if path.startswith(_FILES) or sessions.admits(scope):
            return None
        return sign_in_page() if scope["type"] == "http" else http_problem(401, "sign in to the console first")


def _has_room() -> bool:
    """Whether one more page may be opened. A page whose browser never connected gives way."""
    from nicegui import Client

    if len(Client.instances) >= PAGES_MAX:
        Client.prune_instances(client_age_threshold=UNSEEN_S)
    return len(Client.instances) < PAGES_MAX


async def _answer(console: AsgiApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let the console answer. Nothing is logged for a client that leaves before its answer.

    Starlette's ``BaseHTTPMiddleware``, which NiceGUI uses, raises RuntimeError then: the app below answered nothing.
    """
    is_gone = False

    async def watched() -> Message:
        nonlocal is_gone
        message = await receive()
        is_gone = is_gone or message["type"] == "http.disconnect"
        return message

    try:
        await console(scope, watched, send)
    except RuntimeError as error:
        if not is_gone or str(error) != _NO_RESPONSE:
            raise


def _secured(send: Send) -> Send:
    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_SECURITY]}
        await send(message)

    return secured


def _load() -> None:
    """Import what the console needs, off the event loop; it takes a second.

    What the modules make stays. A collector that looks through it again and again takes most of the time of an answer
    about thousands of partitions.
    """
    gc.disable()
    try:
        import mainstem.console.site  # noqa: F401  # loaded for later
    finally:
        gc.enable()
    gc.freeze()
