"""``ForwardingBackend``: send view requests on to the view hosts' Unix sockets, and relay what they say.

Which host serves which view is asked of the hosts themselves (``GET /views``), at the first request and again whenever
a view is not known yet. If a host does not answer, the status is 503 and the text says that the node starts it again.
Used by one event loop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from starlette.requests import Request
from starlette.responses import Response

from mainstem.errors import UnavailableError, UnknownViewError
from mainstem.gateway.access.hop_headers import added_headers
from mainstem.gateway.access.request_limits import Receive, Scope, Send
from mainstem.gateway.access.token_auth import grants_of, token_name
from mainstem.gateway.access.tokens import Grants
from mainstem.gateway.http.unix_http import UnixHttp
from mainstem.gateway.streams.event_stream import EventStream, Streams
from mainstem.gateway.views.backend import Work
from mainstem.model import Position
from mainstem.tracing.spans import request_headers
from mainstem.views.requests import WatchRequest

_CONNECTIONS_MAX = 512
# Longer than any wait or query that a host allows; a rebuild or a verification may take its time.
_READ_TIMEOUT_S = 3_600.0
_CONNECT_TIMEOUT_S = 2.0
# Headers of a single hop, and those that this gateway sets itself.
_OWN_HEADERS = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer", "content-length", "date", "server"}
)
_PASSED_ON = ("content-type", "accept", "last-event-id")
_BLOCK_END = b"\n\n"
_WHOLE_BYTES_MAX = 256 << 10
_PIECE_BYTES = 64 << 10
# A host sends a heartbeat more often than that.
_SILENCE_S = 60.0


class ForwardingBackend:
    """The view hosts behind the gateway, by their sockets."""

    def __init__(self, sockets: Sequence[Path]) -> None:
        self.streams = Streams()
        """Those of this process, which its end ends."""
        self._hosts = [_HostClient(path) for path in sockets]
        self._serving: dict[str, _HostClient] = {}
        self._asking = asyncio.Lock()

    async def respond(self, http: Request, view: str, work: Work) -> Response:
        """Relay the answer of the host that serves ``view``. Raises UnknownViewError, UnavailableError."""
        host = self._serving.get(view) or await self._find(view, grants_of(http.scope))
        return await host.relay(http)

    async def stream(self, http: Request, view: str, request: WatchRequest) -> Response:
        """Relay the stream of the host that serves ``view``. Raises UnknownViewError, UnavailableError."""
        del request  # it has been checked here, and the host parses it again
        host = self._serving.get(view) or await self._find(view, grants_of(http.scope))
        return await host.relay_stream(http, self.streams)

    async def statuses(self) -> list[dict[str, Any]]:
        """The status of every view. A host that does not answer: the last that it gave, as "host unreachable".

        Raises UnavailableError when no host answers and none has ever answered.
        """
        found, failure = await self._ask_hosts()
        if failure is not None and not any(host.last_statuses for host in self._hosts) and not found:
            raise failure
        return found

    async def _ask_hosts(self) -> tuple[list[dict[str, Any]], UnavailableError | None]:
        """The status of every known view, and the error of a host that does not answer."""
        answers = await asyncio.gather(*(host.statuses() for host in self._hosts), return_exceptions=True)
        found: dict[str, dict[str, Any]] = {}
        gone: list[_HostClient] = []
        failure: UnavailableError | None = None
        for host, answer in zip(self._hosts, answers, strict=True):
            if isinstance(answer, UnavailableError):
                gone.append(host)
                failure = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found |= {str(status["name"]): status for status in answer}
                self._serving.update({str(status["name"]): host for status in answer})
        for host in gone:  # after those that answer: a view may have moved to one of them
            for status in host.last_statuses:
                unreachable = {**status, "state": "host unreachable", "detail": str(failure)}
                found.setdefault(str(status["name"]), unreachable)
        return list(found.values()), failure

    async def applied(self, view: str, position: Position) -> dict[str, Any] | None:
        """By when a view has applied a position of its topic; None when its host does not say."""
        host = self._serving.get(view)
        return None if host is None else await host.asked(view, "applied", "position", position)

    async def waited(self, view: str, record: Position) -> dict[str, Any] | None:
        """The reads that waited for a view to cover the record just before ``record``; None as of ``applied``."""
        host = self._serving.get(view)
        return None if host is None else await host.asked(view, "waited", "record", record)

    async def close(self) -> None:
        """Close the connections to the hosts."""
        for host in self._hosts:
            await host.close()

    async def _find(self, view: str, grants: Grants) -> _HostClient:
        """The host of a view. The error for an unknown view lists only the views that the caller may read."""
        async with self._asking:  # many requests for an unknown view ask the hosts one after the other
            statuses, failure = await self._ask_hosts()
        if view not in self._serving:
            if failure is not None:  # that host may serve the view
                raise failure
            names = [str(status["name"]) for status in statuses]
            seen = sorted(name for name in names if grants.may("read", "view", name))
            known = f"there are {', '.join(seen)}" if seen else "no views are served here"
            raise UnknownViewError(f"no view {view[:100]!r}; {known}")
        return self._serving[view]


class _HostClient:
    """One view host's socket."""

    def __init__(self, socket: Path) -> None:
        self.last_statuses: list[dict[str, Any]] = []
        self._http = UnixHttp(
            socket, silence_s=_READ_TIMEOUT_S, connect_s=_CONNECT_TIMEOUT_S, connections_max=_CONNECTIONS_MAX
        )
        self._streaming = UnixHttp(  # no bound: the guard bounds the streams
            socket, silence_s=_SILENCE_S, connect_s=_CONNECT_TIMEOUT_S, connections_max=0, keeps=False
        )

    async def statuses(self) -> list[dict[str, Any]]:
        with _there():
            answer = await self._http.send("GET", "/views")
            body = await answer.read()
            if answer.status != HTTPStatus.OK:
                raise UnavailableError("the view host is busy or starting: try again in a moment")
            self.last_statuses = json.loads(body)["views"]
        return self.last_statuses

    async def asked(self, view: str, what: str, name: str, position: Position) -> dict[str, Any] | None:
        """The answer of a route of the view that takes a position."""
        try:
            with _there():
                target = f"/views/{quote(view, safe='')}/{what}?{urlencode({name: str(position)})}"
                answer = await self._http.send("GET", target)
                body = await answer.read()
        except UnavailableError:
            return None
        return dict(json.loads(body)) if answer.status == HTTPStatus.OK else None

    async def relay(self, http: Request) -> Response:
        with _there():
            return await _relayed(await _sent_on(self._http, http))

    async def relay_stream(self, http: Request, streams: Streams) -> Response:
        with _there():
            answer = await _sent_on(self._streaming, http)
            if answer.status != HTTPStatus.OK:
                return await _relayed(answer)
        return EventStream(_blocks(answer), streams, answer.close)

    async def close(self) -> None:
        await self._http.close()
        await self._streaming.close()


@contextmanager
def _there() -> Iterator[None]:
    """The host answers. Raises UnavailableError when it does not."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError) as error:
        raise UnavailableError(
            "the view host does not answer; it is started again by itself: try again in a moment"
        ) from error


async def _sent_on(client: UnixHttp, http: Request) -> aiohttp.ClientResponse:
    """The host's answer to the request, as it came."""
    target = http.scope["raw_path"] + _question_mark(http.scope["query_string"])
    headers = {name: value for name in _PASSED_ON if (value := http.headers.get(name)) is not None}
    headers |= request_headers()
    headers |= added_headers(grants_of(http.scope), token_name(http.scope))
    return await client.send(http.method, target.decode("latin-1"), headers, await http.body())


async def _relayed(answer: aiohttp.ClientResponse) -> Response:
    """Relay a small answer whole, and a large one as it comes: the gateway holds only the block that it is sending."""
    relayed = {name: value for name, value in answer.headers.items() if name.lower() not in _OWN_HEADERS}
    length = answer.content_length
    if length is None or length <= _WHOLE_BYTES_MAX:
        return Response(await answer.read(), answer.status, relayed)
    relayed["content-length"] = str(length)  # so that a client sees when the end is missing
    return _Relay(answer, relayed)


class _Relay(Response):
    """An answer of a host, passed on piece by piece; the host's connection is closed when the client goes away."""

    def __init__(self, answer: aiohttp.ClientResponse, headers: dict[str, str]) -> None:
        super().__init__(status_code=answer.status)
        self.raw_headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the answer on, as ASGI says."""
        del scope, receive
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for piece in self._answer.content.iter_chunked(_PIECE_BYTES):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._answer.close()


async def _blocks(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """A host's stream, block by block, read only as fast as the client reads. It ends when the host's stream ends."""
    rest = b""
    try:
        async for received in answer.content.iter_any():
            rest += received
            whole = rest.rfind(_BLOCK_END) + len(_BLOCK_END)
            if whole >= len(_BLOCK_END):
                yield rest[:whole]
                rest = rest[whole:]
    except (aiohttp.ClientError, TimeoutError):
        return  # the host is gone, and started again: the client comes back


def _question_mark(query: bytes) -> bytes:
    return b"?" + query if query else b""
