"""``EventStream``: server-sent events as a response. ``Streams``: ends all streams of a process when it stops, and
calls the functions that were registered with ``at_end``.

A stream ends when its source ends, the client disconnects, the process stops (with a comment that says so), or the
client reads nothing for ``STALL_S``. Nothing is buffered here: each block of the source is sent before the next is
taken, so the source bounds the memory of a stream.

Plain ASGI, for one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing, suppress
from typing import Any, Final

from starlette.responses import Response

from mainstem.errors import MainstemError
from mainstem.gateway.streams.event_format import CONTENT_TYPE, problem

STALL_S: Final = 30.0
BEAT_S: Final = 15.0
_PIECE_BYTES: Final = 64 << 10
_STOPPING = b": the server is stopping\n\n"
_HEADERS = (
    (b"content-type", CONTENT_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx passes it on at once
)

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]


class Streams:
    """The streams that are open in one process. ``end`` ends them, and every later one at once."""

    def __init__(self, *, stall_s: float = STALL_S) -> None:
        """``stall_s``: how long a client may take nothing."""
        self.stall_s = stall_s
        self._bodies: set[asyncio.Task[None]] = set()
        self.is_ending = False
        """Whether the process stops."""
        self._also: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._bodies)

    def end(self) -> None:
        """The process stops. Idempotent."""
        self.is_ending = True
        for body in self._bodies:
            body.cancel()
        for end in self._also:
            end()

    def at_end(self, end: Callable[[], None]) -> None:
        """Call ``end`` when the process stops: it ends requests that would else wait until the process is killed."""
        self._also.append(end)

    def begin(self, body: asyncio.Task[None]) -> None:
        """Take in the task that sends a stream's body."""
        self._bodies.add(body)
        body.add_done_callback(self._bodies.discard)
        if self.is_ending:
            body.cancel()


class EventStream(Response):
    """One stream; ``source`` yields whole blocks. It is closed whatever happens, and ``closing`` called after it."""

    def __init__(
        self,
        source: AsyncGenerator[bytes, None],
        streams: Streams,
        closing: Callable[[], object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """``headers``: in place of, or besides, those that every stream has."""
        super().__init__(media_type=CONTENT_TYPE)
        given = {name.lower().encode(): value.encode("latin-1") for name, value in (headers or {}).items()}
        self._head = list((dict(_HEADERS) | given).items())
        self._source = source
        self._streams = streams
        self._closing = closing
        self._is_stalled = False

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve the stream, as ASGI says."""
        del scope
        try:
            await self._serve(receive, send)
        finally:
            if self._closing is not None:
                self._closing()

    async def _serve(self, receive: Receive, send: Send) -> None:
        async with aclosing(self._source):
            await send({"type": "http.response.start", "status": 200, "headers": self._head})
            body = asyncio.create_task(self._body(send))
            gone = asyncio.create_task(_disconnected(receive))
            self._streams.begin(body)
            try:
                await asyncio.wait((body, gone), return_when=asyncio.FIRST_COMPLETED)
                is_gone = gone.done()
            finally:
                body.cancel()
                gone.cancel()
                await asyncio.gather(body, gone, return_exceptions=True)
            if is_gone or self._is_stalled:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self._streams.stall_s):
                    last = _STOPPING if self._streams.is_ending else b""
                    await send({"type": "http.response.body", "body": last, "more_body": False})
        if not body.cancelled() and (error := body.exception()) is not None:
            raise error

    async def _body(self, send: Send) -> None:
        try:
            async for block in self._source:
                await self._send(send, block)
        except TimeoutError:
            self._is_stalled = True  # the client does not read, so an error cannot be sent
        except MainstemError as error:
            with suppress(TimeoutError):
                await self._send(send, problem(error))

    async def _send(self, send: Send, block: bytes) -> None:
        """Send a block in pieces, so that a connection holds a piece or two for a client that does not read."""
        for start in range(0, len(block), _PIECE_BYTES):
            async with asyncio.timeout(self._streams.stall_s):
                piece = block[start : start + _PIECE_BYTES]
                await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
