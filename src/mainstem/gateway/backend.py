"""The seam behind the view routes: the routes are declared once, what answers them is one of two backends.

* In a view host's process, ``LocalBackend`` runs the work against the host, in a thread.
* In the public gateway, ``ForwardingBackend`` (``forwarding.py``) sends the request on to the socket of the host that
  serves the view and relays status, body and headers.

By the time a backend is asked, the request's parameters have been checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from mainstem.gateway.blocking import Workers
from mainstem.gateway.event_stream import Streams
from mainstem.gateway.view_stream import Wake, view_stream

if TYPE_CHECKING:
    from mainstem.views.host import ViewHost
    from mainstem.views.watched_rows import WatchRequest

Work: TypeAlias = "Callable[[ViewHost], Response]"

_READERS_MAX = 128
_WATCHERS_MAX = 16


class ViewBackend(Protocol):
    """Who answers for the views."""

    async def respond(self, http: Request, view: str, work: Work) -> Response:
        """Answer a request about one view: by ``work``, or by whoever serves the view."""
        ...

    async def stream(self, http: Request, view: str, request: WatchRequest) -> Response:
        """A stream of a view's changes."""
        ...

    async def statuses(self) -> list[dict[str, Any]]:
        """The status of every view."""
        ...


class LocalBackend:
    """A view host in this process. ``host`` is thread-safe; each request takes one of a bounded set of threads."""

    def __init__(self, host: ViewHost, streams: Streams) -> None:
        self._host = host
        self._streams = streams
        self._workers = Workers(_READERS_MAX)
        self._watchers = Workers(_WATCHERS_MAX)

    async def respond(self, http: Request, view: str, work: Work) -> Response:
        """Run ``work`` in a thread."""
        return await self._workers.run(work, self._host)

    async def stream(self, http: Request, view: str, request: WatchRequest) -> Response:
        """Watch the view; its rows are read in threads."""
        wake = Wake()
        watch = await self._watchers.run(self._host.watch, view, request, wake.set)
        return view_stream(watch, wake, self._watchers, self._streams)

    async def statuses(self) -> list[dict[str, Any]]:
        """The status of every view of the host."""
        return [status.to_json() for status in await self._workers.run(self._host.status)]
