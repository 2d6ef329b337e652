"""The bounds of a request's head: its line and headers, which are read before the sender is authenticated.

A head with more than ``HEAD_BYTES_MAX`` bytes or ``HEADERS_MAX`` headers is refused with 431, and the connection is
closed. The whole head must arrive within ``head_s``, counted from when the connection was made or, on a kept
connection, from the head's first bytes. Otherwise the connection is closed without a response. uvicorn by itself bounds
none of that over httptools.

If the response is complete before the body (a refusal), the rest of the body is dropped. It and the next head must
arrive within ``head_s``, or the connection is closed: uvicorn ends its own time-out of idle connections at the first
byte that arrives, and begins none again.

A client that takes what was sent too slowly is cut off: while the connection holds more than asyncio's high-water mark,
it has ``stall_s`` to read the waiting bytes. Large answers are written in pieces (``request_limits.PIECE_BYTES``), with
a wait in between, so this is a minimum rate. The connection is aborted, so that nothing of the answer is kept.

How a head is counted: ``on_header`` counts what is complete; the bytes of a chunk that ends no head count for an
incomplete one, so that an endless header is bounded, too, except for one chunk. For one event loop.
"""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mainstem.gateway.http.problem_responses import http_problem

HEAD_BYTES_MAX: Final = 128 << 10
"""A position of three thousand partitions, in a query or in ``Last-Event-ID``, has room."""
HEADERS_MAX: Final = 200
HEAD_S: Final = 30.0
STALL_S: Final = 30.0


class _TooLargeError(Exception):
    """Ends the parser."""


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol over httptools, with bounds. One instance for each connection."""

    head_s: float = HEAD_S
    stall_s: float = STALL_S

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._is_reading_head = True
        self._is_too_large = False
        self._heads = 0
        self._head_bytes = 0
        self._alarm: TimerHandle | None = None
        self._stall: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        super().connection_made(transport)
        self._set_alarm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_alarm()
        self._unset_stall()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stall is None:
            self._stall = self.loop.call_later(self.stall_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._unset_stall()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        was_reading, heads = self._is_reading_head, self._heads
        if was_reading:
            self._set_alarm()
        super().data_received(data)
        if was_reading and heads == self._heads and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse()

    # ---- what the parser tells

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._set_alarm()  # also for a head that begins in the same bytes in which a request ends

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > HEAD_BYTES_MAX:
            self._is_too_large = True
            raise _TooLargeError

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > HEADERS_MAX or len(name) + len(value) > HEAD_BYTES_MAX:
            self._is_too_large = True
            raise _TooLargeError

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES_MAX:
            self._is_too_large = True
            raise _TooLargeError
        self._is_reading_head = False
        self._heads += 1
        self._unset_alarm()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_reading_head = True
        self._head_bytes = 0

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self._is_reading_head:
            self._set_alarm()

    def send_400_response(self, msg: str) -> None:
        """Answer a parse error, or a request that this module refused."""
        if self._is_too_large:
            self._refuse()
        else:
            super().send_400_response(msg)

    # ---- how

    def _refuse(self) -> None:
        size, count = HEAD_BYTES_MAX, HEADERS_MAX
        problem = http_problem(431, f"a request's line and headers have at most {size} bytes, in {count} headers")
        head = [b"HTTP/1.1 431 Request Header Fields Too Large", b"connection: close"]
        head += [name + b": " + value for name, value in problem.raw_headers]
        self.transport.write(b"\r\n".join([*head, b"", bytes(problem.body)]))
        self.transport.close()

    def _set_alarm(self) -> None:
        if self._alarm is None:
            self._alarm = self.loop.call_later(self.head_s, self.transport.close)

    def _unset_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _unset_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
