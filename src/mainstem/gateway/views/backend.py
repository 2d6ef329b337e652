"""The seam behind the view routes: the routes are declared once, and one of two backends answers them.

* In a view host's process, ``LocalBackend`` runs the work against the host, in a thread.
* In the public gateway, ``ForwardingBackend`` (``forwarding.py``) sends the request on to the socket of the host that
  serves the view and relays status, body and headers.

By the time a backend is asked, the request's parameters have been checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from mainstem.errors import UnavailableError
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.streams.event_stream import Streams
from mainstem.gateway.views.view_stream import Wake, view_stream

if TYPE_CHECKING:
    from mainstem.views.host.host import ViewHost
    from mainstem.views.requests import WatchRequest

Work: TypeAlias = "Callable[[ViewHost], Response]"

_READERS_MAX = 512  # as many as the guard lets in
_VIEW_READERS_MAX = 64
_VIEW_REQUESTS_MAX = 256
_QUEUE_S = 30.0
_WATCHERS_MAX = 16
_STATUSES_MAX = 4


class ViewBackend(Protocol):
    """Who answers for the views."""

    async def respond(self, http: Request, view: str, work: Work) -> Response:
        """Answer a request about one view: by ``work`` in this process, or by the host that serves the view."""
        ...

    async def stream(self, http: Request, view: str, request: WatchRequest) -> Response:
        """A stream of a view's changes."""
        ...

    async def statuses(self) -> list[dict[str, Any]]:
        """The status of every view."""
        ...


class LocalBackend:
    """A view host in this process. ``host`` is thread-safe; each request takes one of a bounded set of threads.

    A request may hold its thread for minutes while it waits for a position. So each view has its own threads, and may
    use half of the requests that are served at once. Requests that wait for one view do not block requests for another
    view, or for the views' status.
    """

    def __init__(self, host: ViewHost, streams: Streams, *, queue_s: float = _QUEUE_S) -> None:
        """``queue_s``: how long a request waits for a thread of its view."""
        self._host = host
        self._queue_s = queue_s
        self._turns: dict[str, _Turns] = {}
        self._statuses = Workers(_STATUSES_MAX)
        self._streams = streams
        self._workers = Workers(_READERS_MAX)
        self._watchers = Workers(_WATCHERS_MAX)

    async def respond(self, http: Request, view: str, work: Work) -> Response:
        """Run ``work`` in a thread. Raises UnavailableError when too many requests of the view wait for one."""
        async with self._turn(view):
            return await self._workers.run(work, self._host)

    async def stream(self, http: Request, view: str, request: WatchRequest) -> Response:
        """Watch the view; its rows are read in threads."""
        wake = Wake()
        watch = await self._watchers.run(self._host.watch, view, request, wake.set)
        return view_stream(watch, wake, self._watchers, self._streams)

    async def statuses(self) -> list[dict[str, Any]]:
        """The status of every view of the host."""
        return [status.to_json() for status in await self._statuses.run(self._host.status)]

    @asynccontextmanager
    async def _turn(self, view: str) -> AsyncIterator[None]:
        turns = self._turns.setdefault(view, _Turns())
        turns.requests += 1
        try:
            await turns.take(view, self._queue_s)
            try:
                yield
            finally:
                turns.threads.release()
        finally:
            turns.requests -= 1
            if turns.requests == 0:
                del self._turns[view]


class _Turns:
    """The requests of one view: those that have a thread, and those that wait for one. Used by one event loop."""

    def __init__(self) -> None:
        self.requests = 0
        self.threads = asyncio.Semaphore(_VIEW_READERS_MAX)

    async def take(self, view: str, queue_s: float) -> None:
        """Return with a thread's turn."""
        if self.requests > _VIEW_REQUESTS_MAX:
            raise UnavailableError(f"{_VIEW_REQUESTS_MAX} requests of view {view} are being answered already")
        try:
            async with asyncio.timeout(queue_s):
                await self.threads.acquire()
        except TimeoutError:
            raise UnavailableError(
                f"{_VIEW_READERS_MAX} requests wait for view {view} already; none was answered in {queue_s:g} s"
            ) from None
