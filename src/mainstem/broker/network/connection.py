"""One client's connection: reads requests, and sends responses in the order of the requests.

As in Kafka, a connection begins its next request when the one before is answered. Requests of a pipelined API (Produce)
are the exception: they begin as they arrive, so that they share one flush.

Memory is bounded. Reading pauses while the client does not read its responses, while more than ``_BEGUN_MAX`` requests
wait, and while requests in flight fill ``RequestMemory``. The connection is closed when a request arrives too slowly,
and sooner while other connections of its share wait for room to receive.

Concurrency: one event loop; a handler's future may be completed from it only.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

from mainstem.broker.api import Api
from mainstem.broker.apis import APIS
from mainstem.broker.call import Answer, Call
from mainstem.broker.dispatch import Dispatcher
from mainstem.broker.handlers.api_versions import UNSUPPORTED as UNSUPPORTED_API_VERSIONS
from mainstem.broker.handlers.sasl_authenticate import BARE_TOKEN
from mainstem.broker.network.framing import FrameReceiver
from mainstem.broker.network.request_memory import HeldMemory
from mainstem.broker.node import Node
from mainstem.broker.quotas.charging import Charge
from mainstem.broker.security.listeners import Listener
from mainstem.broker.security.principal import ANONYMOUS
from mainstem.broker.security.sasl import SaslState
from mainstem.broker.security.session import NO_SESSION
from mainstem.broker.slices import serve_in_slices
from mainstem.errors import AuthenticationError, FrameError
from mainstem.logs import fields
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.codec import Chunks, Request, RequestHeader, decode_header, decode_request, encode_response
from mainstem.protocol.compiler import LargeFrameError
from mainstem.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from mainstem.protocol.schema import Buffer, Message

_LOG: Final = logging.getLogger("mainstem.broker")
_BEGUN_MAX: Final = 100
_AT_ONCE_ELEMENTS: Final = 2_000  # a request with more is read in a thread
_HASTE: Final = 10  # while others wait to receive, a request must come that much faster
_TIMER_S: Final = 0.001  # a timer may come that much before its time


class _InFlight:
    """A request that was begun, with its place in the order of the responses."""

    __slots__ = ("began_s", "charge", "chunks", "is_done", "is_large", "is_pipelined", "size_bytes")

    def __init__(self, size_bytes: int, is_pipelined: bool, began_s: float) -> None:
        self.size_bytes = size_bytes
        self.is_pipelined = is_pipelined
        self.began_s = began_s
        self.charge: Charge | None = None
        self.is_done = False
        self.is_large = False
        self.chunks: Chunks = []


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket."""

    _memory: HeldMemory
    _receiver: FrameReceiver

    def __init__(
        self, node: Node, dispatcher: Dispatcher, open_connections: set[Connection], listener: Listener
    ) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self._listener = listener
        self._open_connections = open_connections
        self._transport: asyncio.Transport | None = None
        self._peer = "?"
        self._client_host = "/"
        self._session = NO_SESSION
        self._auth_required = False
        self._muted_until_s = 0.0
        self._begun: deque[_InFlight] = deque()
        self._next: tuple[Api, RequestHeader, Buffer] | None = None
        self._tasks: set[asyncio.Future[Any]] = set()
        self._is_reading = True
        self._can_write = True
        self._logs_requests = _LOG.isEnabledFor(logging.INFO)
        self._now_s = asyncio.get_running_loop().time
        self._last_seen_s = self._opened_s = self._now_s()
        self._frame_since_s = 0.0

    @property
    def requests_in_flight(self) -> int:
        """The number of requests that were begun and whose responses are not sent."""
        return len(self._begun)

    # ---- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername") or ("?", 0)
        self._peer = f"{peer[0]}:{peer[1]}"
        self._client_host = f"/{peer[0]}"
        self._memory = self._node.request_memory.hold(self._client_host, self._advance)
        self._receiver = FrameReceiver(self._node.frame_bytes_max, self._memory, self._node.scratch)
        if len(self._open_connections) >= self._node.connections_max:
            count = len(self._open_connections)
            _LOG.warning("connection refused: %d are open", count, extra=fields(connection=self._peer))
            self._node.meters.connections_refused += 1
            self._transport.abort()
            self._transport = None
            return
        self._open_connections.add(self)
        self._node.meters.connections_accepted += 1
        try:
            self._session = self._node.security.session(self._listener, self._transport)
        except AuthenticationError as error:
            self.close(str(error))
        if self._session.authentication is not None:
            self._auth_required = True
            self._receiver.frame_bytes_max = self._session.authentication.settings.frame_bytes_max
            self._memory.move(self._node.unauthenticated_memory, self._client_host)
            self._node.unauthenticated.add(self)
        elif self._session.principal is not ANONYMOUS:
            self._memory.move(self._node.request_memory, str(self._session.principal))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._open_connections.discard(self)
        self._receiver.close()
        self._session.close()
        for task in self._tasks:
            task.cancel()
        self._begun.clear()
        self._next = None
        self._node.unauthenticated.discard(self)
        self._node.unread.resumed(self)
        self._memory.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.writable()

    def buffer_updated(self, nbytes: int) -> None:
        self._receiver.wrote(nbytes)
        self._last_seen_s = self._now_s()
        self._advance()

    def eof_received(self) -> bool:
        return False

    @property
    def unsent_bytes(self) -> int:
        """The bytes of responses that the client has not read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        self._can_write = False
        self._node.unread.paused(self, self._now_s())

    def resume_writing(self) -> None:
        self._can_write = True
        self._node.unread.resumed(self)
        self._advance()

    def close_if_idle(self, now_s: float) -> None:
        """Close the connection when nothing has arrived for too long and no response is due."""
        silent_s = now_s - self._last_seen_s
        is_open_s = now_s - self._opened_s
        if self._auth_required and not self._is_authenticated and is_open_s > self._node.security.timeout_s:
            self.close("its user did not authenticate in time")
            return
        if self._comes_too_slowly(now_s, silent_s):
            seconds = now_s - self._frame_since_s
            self.close(f"its request came too slowly: {self._receiver.came_bytes} bytes in {seconds:.0f} s")
            return
        if self._begun or self._next is not None or not self._is_reading or not self._can_write:
            return
        if silent_s > self._node.idle_s_max:
            self.close()

    def _comes_too_slowly(self, now_s: float, silent_s: float) -> bool:
        """Whether an arriving request has stopped, or arrives below the minimum rate."""
        if not self._frame_since_s:
            return False
        allowed_s = self._node.stall_s_max
        by_rate_s = allowed_s + self._receiver.came_bytes / self._node.request_rate_min
        if self._memory.share.is_short_of_coming_room:
            allowed_s, by_rate_s = allowed_s / _HASTE, by_rate_s / _HASTE
        return silent_s > allowed_s or now_s - self._frame_since_s > by_rate_s

    def close(self, reason: str = "") -> None:
        """Close at once; ``reason`` goes to the log."""
        if self._transport is not None:
            if reason:
                _LOG.warning("connection closed: %s", reason, extra=fields(connection=self._peer))
            self._transport.abort()
            self._transport = None

    # ---- requests

    def _advance(self) -> None:
        """Begin every request that may begin now; read on only if the next one could begin soon."""
        try:
            while self._transport is not None and self._take_next() and self._may_begin():
                assert self._next is not None
                (api, header, frame), self._next = self._next, None
                self._begin(api, header, frame)
        except FrameError as error:
            self.close(str(error))
        self._receiver.release_buffer()
        self._regulate()

    def _take_next(self) -> bool:
        """Take the next request into ``_next``; return whether there is one."""
        if self._next is not None:
            return True
        frame = self._receiver.next_frame()
        if frame is None:
            return False
        self._frame_since_s = 0.0
        try:
            if self._auth_required and self._takes_bare_token:
                self._next = (BARE_TOKEN, RequestHeader(BARE_TOKEN.key, -1, 0, None, 0), frame)
                return True
            header = decode_header(frame)
            api = APIS.get(header.api_key)
            if api is None or header.api_version not in api.versions:
                api = self._unsupported(header)
        except FrameError:
            self._memory.give_back(len(frame))
            raise
        self._next = (api, header, frame)
        return True

    @staticmethod
    def _unsupported(header: RequestHeader) -> Api:
        """Return the API that answers an unsupported version; only ApiVersions can. Raises FrameError for others."""
        if header.api_key == ApiKey.API_VERSIONS:
            return UNSUPPORTED_API_VERSIONS
        name = ApiKey(header.api_key).name if header.api_key in ApiKey._value2member_map_ else "unknown API"
        raise FrameError(f"{name} ({header.api_key}) version {header.api_version} is not served here")

    def _may_begin(self) -> bool:
        assert self._next is not None
        if self._muted_until_s and self._now_s() < self._muted_until_s:
            return False
        if not self._begun:
            return self._can_write
        pipelined = self._next[0].pipelined and self._begun[-1].is_pipelined
        return pipelined and self._can_write and len(self._begun) < _BEGUN_MAX

    def _begin(self, api: Api, header: RequestHeader, frame: Buffer) -> None:
        slot = _InFlight(len(frame), api.pipelined, self._now_s())
        self._begun.append(slot)
        if self._auth_required and not api.before_authentication:
            assert self._session.authentication is not None
            self._session.authentication.admit()
        if api is BARE_TOKEN:
            self._begin_bare_token(slot, header, frame)
            return
        if api is UNSUPPORTED_API_VERSIONS:
            # The body of an unknown version cannot be read.
            call = Call(*header[:4], self._client_host, None)
            self._answered(slot, call, cast("Message", api.handle(self._node, call)), version=0)
            return
        try:
            request = decode_request(frame, header, _AT_ONCE_ELEMENTS)
        except LargeFrameError:
            slot.is_pipelined = False  # later requests wait until this one is read
            self._follow(self._begin_large(slot, api, header, frame), self._large_begun)
            return
        self._serve(slot, api, self._call(slot, request))

    async def _begin_large(self, slot: _InFlight, api: Api, header: RequestHeader, frame: Buffer) -> None:
        """Parse a request with many elements while others are served; only a few are parsed at a time."""
        async with self._node.long_requests:
            request = await asyncio.to_thread(decode_request, frame, header, api.elements_max)
        if self._transport is None:
            return
        slot.is_pipelined = api.pipelined
        slot.is_large = True
        self._serve(slot, api, self._call(slot, request))

    def _large_begun(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._advance()
        elif isinstance(error, FrameError):
            self.close(str(error))
        else:
            _LOG.error("a request failed", exc_info=error, extra=fields(connection=self._peer))
            self.close("a request failed in a way that was not expected")

    def _call(self, slot: _InFlight, request: Request) -> Call:
        hold = functools.partial(self._hold, slot)
        return Call(*request[:4], self._client_host, request.body, self._session, hold)

    def _hold(self, slot: _InFlight) -> Callable[[], None]:
        """Begin no other request until the returned function is called, although this request is pipelined."""
        slot.is_pipelined = False

        def release() -> None:
            slot.is_pipelined = True
            self._advance()

        return release

    def _begin_bare_token(self, slot: _InFlight, header: RequestHeader, frame: Buffer) -> None:
        body = SaslAuthenticateRequest(auth_bytes=bytes(frame))
        self._serve(slot, BARE_TOKEN, Call(*header[:4], self._client_host, body, self._session))

    def _serve(self, slot: _InFlight, api: Api, call: Call) -> None:
        if self._node.quotas.is_active:
            slot.charge = Charge(self._node, api, call, slot.size_bytes)
            answer = slot.charge.serve(lambda: self._handled(slot, api, call))
        else:
            answer = self._handled(slot, api, call)
        if (slot.is_large or api.has_long_answer) and answer is not None:
            answer = self._encoded_in_thread(slot, call, answer)
        if answer is None or isinstance(answer, Message):
            self._answered(slot, call, answer)
            return
        self._follow(answer, lambda done: self._task_done(slot, call, done))

    @staticmethod
    async def _encoded_in_thread(slot: _InFlight, call: Call, served: Message | Awaitable[Answer]) -> Answer:
        """The answer to a large request is large: others are served while it is encoded."""
        answer = served if isinstance(served, Message) else await served
        if answer is not None and not slot.chunks:
            slot.chunks = await asyncio.to_thread(encode_response, call, answer)
        return answer

    def _follow(self, answer: Awaitable[Any], done: Callable[[asyncio.Future[Any]], None]) -> None:
        """Call ``done`` when ``answer`` completes; it is cancelled when the connection closes."""
        task = asyncio.ensure_future(answer) if not inspect.iscoroutine(answer) else asyncio.create_task(answer)
        self._tasks.add(task)
        task.add_done_callback(done)

    def _handled(self, slot: _InFlight, api: Api, call: Call) -> Answer | Awaitable[Answer]:
        slices = api.slices
        if slices is not None and (asked := getattr(call.body, slices.asked)):
            items = slices.items(call.body)
            if slices.is_long(items):
                return self._in_slices(slot, api, call, items)
            if len(items) != len(asked):
                setattr(call.body, slices.asked, items)
        return self._dispatcher.serve(api, call)

    async def _in_slices(self, slot: _InFlight, api: Api, call: Call, items: Sequence[Any]) -> Answer:
        """Serve a long request in slices; its response is encoded here, while others are served."""
        assert api.slices is not None

        def serve(part: Call) -> Answer | Awaitable[Answer]:
            return self._dispatcher.serve(api, part)

        async with self._node.long_requests:
            answer, slot.chunks = await serve_in_slices(call, api.slices, items, serve, self._node.response_bytes_max)
        return answer

    def _task_done(self, slot: _InFlight, call: Call, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, FrameError):
            self.close(str(error))
            return
        if error is not None:
            _LOG.error("a request failed", exc_info=error, extra=self._about(call))
            self.close("a request failed in a way that was not expected")
            return
        self._answered(slot, call, task.result())
        self._advance()

    def _answered(self, slot: _InFlight, call: Call, answer: Message | None, version: int | None = None) -> None:
        slot.is_done = True
        seconds = self._now_s() - slot.began_s
        self._node.meters.answered(call.api_key, seconds)
        if self._logs_requests:
            level = logging.INFO if APIS[call.api_key].changes_state else logging.DEBUG
            _LOG.log(level, "request answered", extra=self._about(call, ms=round(seconds * 1000, 3)))
        if self._transport is None:
            return
        if call.api_version < 0:
            slot.chunks = _bare_answer(answer)
        elif answer is not None and not slot.chunks:
            slot.chunks = encode_response(call, answer, version)
        if slot.charge is not None:
            self._throttle(slot, slot.charge, call, answer)
        self._send()
        if self._auth_required:
            self._follow_authentication()

    def _about(self, call: Call, **more: object) -> dict[str, Any]:
        """Return the fields of a log event: the client and the request, without the request's body."""
        return fields(
            connection=self._peer,
            api=ApiKey(call.api_key).name,
            version=call.api_version,
            client_id=call.client_id,
            principal=str(call.principal),
            **more,
        )

    def _send(self) -> None:
        """Send the responses that are due: from the oldest request up to the first that still waits."""
        chunks: Chunks = []
        freed = 0
        while self._begun and self._begun[0].is_done:
            slot = self._begun.popleft()
            chunks += slot.chunks
            freed += slot.size_bytes
        if chunks and self._transport is not None:
            self._transport.writelines(chunks)
        if freed:
            self._memory.give_back(freed)

    # ---- quotas

    def _throttle(self, slot: _InFlight, charge: Charge, call: Call, answer: Message | None) -> None:
        """Answer a client over its quota at once, with throttle_time_ms set; then mute the connection for that time."""
        throttle_ms = charge.throttle_ms(sum(map(len, slot.chunks)))
        if throttle_ms <= 0:
            return
        if answer is not None and hasattr(answer, "throttle_time_ms"):
            answer.throttle_time_ms = throttle_ms
            slot.chunks = encode_response(call, answer)
        until_s = self._now_s() + throttle_ms / 1000
        if until_s > self._muted_until_s:
            self._muted_until_s = until_s
            asyncio.get_running_loop().call_later(throttle_ms / 1000 + _TIMER_S, self._advance)

    # ---- the user

    @property
    def _is_authenticated(self) -> bool:
        return self._session.authentication is not None and self._session.authentication.is_done

    @property
    def _takes_bare_token(self) -> bool:
        return self._session.authentication is not None and self._session.authentication.takes_bare_tokens

    def _follow_authentication(self) -> None:
        """Lift the limits of an authenticated connection; close one whose authentication has failed."""
        authentication = self._session.authentication
        assert authentication is not None
        if authentication.state is SaslState.DONE:
            self._receiver.frame_bytes_max = self._node.frame_bytes_max
            self._node.unauthenticated.discard(self)
            if self._memory.share.memory is not self._node.request_memory:  # else it would lose its place in the queue
                self._memory.move(self._node.request_memory, str(authentication.principal))
        elif authentication.state is SaslState.FAILED and self._transport is not None:
            _LOG.warning("authentication failed", extra=fields(connection=self._peer))
            self._transport.close()
            self._transport = None

    # ---- flow

    def _regulate(self) -> None:
        """Read while the next request is incomplete; pause while it is complete but may not begin."""
        if self._transport is None:
            return
        receiver = self._receiver
        wanted = self._next is None and not receiver.is_blocked
        if not wanted or not receiver.is_inside_frame:
            self._frame_since_s = 0.0
        elif not self._frame_since_s:
            self._frame_since_s = self._last_seen_s = self._now_s()
        if wanted and not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()
        elif not wanted and self._is_reading:
            self._is_reading = False
            self._transport.pause_reading()


def _bare_answer(answer: Any) -> Chunks:
    """Return the frame that answers a bare token; empty for a refusal, which ends the connection."""
    if answer.error_code:
        return []
    token = bytes(answer.auth_bytes)
    return [len(token).to_bytes(4, "big") + token]
