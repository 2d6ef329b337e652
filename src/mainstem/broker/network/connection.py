"""One client's connection: reads requests, and sends responses in the order of the requests.

Whatever happens (bytes came, a response is ready, the client reads again, memory is free, a pause is over) ends in
``advance``. It alone decides what happens next: which requests begin, and whether the connection reads on.
``PendingRequests`` says which requests may begin beside others, ``RequestServer`` serves them.

Memory is bounded. Reading pauses while the client does not read its responses, while a whole request waits to begin,
and while requests fill ``RequestMemory``. A connection whose request arrives too slowly is closed. The allowed time is
shorter while other connections of the same share wait for memory to receive into.

Concurrency: one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from mainstem.broker.api import Api
from mainstem.broker.apis import APIS
from mainstem.broker.call import Answer, Call
from mainstem.broker.handlers.api_versions import UNSUPPORTED as UNSUPPORTED_API_VERSIONS
from mainstem.broker.handlers.sasl_authenticate import BARE_TOKEN
from mainstem.broker.metrics.meters import Meters
from mainstem.broker.network.framing import FrameReceiver
from mainstem.broker.network.network_resources import NetworkResources
from mainstem.broker.network.pending_requests import PendingRequest, PendingRequests
from mainstem.broker.network.request_memory import HeldMemory
from mainstem.broker.network.request_server import Owner, RequestServer
from mainstem.broker.quotas.charging import Charge
from mainstem.broker.security.listeners import Listener
from mainstem.broker.security.principal import ANONYMOUS
from mainstem.broker.security.sasl import Authentication, SaslState
from mainstem.broker.security.security import NodeSecurity
from mainstem.broker.security.session import NO_SESSION
from mainstem.errors import AuthenticationError, FrameError
from mainstem.logs import fields
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.codec import Chunks, RequestHeader, decode_header, encode_response
from mainstem.protocol.schema import Buffer

_LOG: Final = logging.getLogger("mainstem.broker")
_HASTE: Final = 10  # while others wait to receive, a request must come that much faster
_UNSENT_BYTES: Final = 1 << 16  # above so many, asyncio and uvloop pause what writes
_TIMER_S: Final = 0.001  # a timer may come that much before its time


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket. ``serve`` makes the server of its requests."""

    _memory: HeldMemory
    _receiver: FrameReceiver
    _server: RequestServer

    def __init__(
        self,
        network: NetworkResources,
        security: NodeSecurity,
        meters: Meters,
        serve: Callable[[Owner, tuple[str, int]], RequestServer],
        open_connections: set[Connection],
        listener: Listener,
    ) -> None:
        self._network = network
        self._security = security
        self._meters = meters
        self._serve = serve
        self._listener = listener
        self._open_connections = open_connections
        self._transport: asyncio.Transport | None = None
        self._peer = "?"
        self._session = NO_SESSION
        self._authentication: Authentication | None = None
        self._muted_until_s = 0.0
        self._pending = PendingRequests()
        self._next: tuple[Api, RequestHeader, Buffer] | None = None
        self._is_reading = True
        self._can_write = True
        self._now_s = asyncio.get_running_loop().time
        self._last_seen_s = self._opened_s = self._now_s()
        self._frame_since_s = 0.0

    @property
    def requests_in_flight(self) -> int:
        """The number of requests that were begun and whose responses are not sent."""
        return len(self._pending)

    @property
    def is_open(self) -> bool:
        """Whether responses can still be sent."""
        return self._transport is not None

    # ---- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername") or ("?", 0)
        self._peer = f"{peer[0]}:{peer[1]}"
        host = f"/{peer[0]}"
        self._memory = self._network.request_memory.hold(host, self.advance)
        self._server = self._serve(self, peer)
        self._receiver = FrameReceiver(self._network.frame_bytes_max, self._memory, self._network.scratch)
        if len(self._open_connections) >= self._network.connections_max:
            count = len(self._open_connections)
            _LOG.warning("connection refused: %d are open", count, extra=fields(connection=self._peer))
            self._meters.connections_refused += 1
            self._transport.abort()
            self._transport = None
            return
        self._open_connections.add(self)
        self._meters.connections_accepted += 1
        try:
            self._session = self._security.session(self._listener, self._transport)
        except AuthenticationError as error:
            self.close(str(error))
        self._session.client_port = int(peer[1])
        self._authentication = self._session.authentication
        if self._authentication is not None:
            self._receiver.frame_bytes_max = self._authentication.settings.frame_bytes_max
            self._memory.move(self._network.unauthenticated_memory, host)
            self._network.unauthenticated.add(self)
        elif self._session.principal is not ANONYMOUS:
            self._memory.move(self._network.request_memory, str(self._session.principal))
        self._server.session = self._session

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._open_connections.discard(self)
        self._receiver.close()
        self._session.close()
        self._server.cancel()
        self._pending.clear()
        self._next = None
        self._network.unauthenticated.discard(self)
        self._network.unread.resumed(self)
        self._memory.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.writable()

    def buffer_updated(self, nbytes: int) -> None:
        self._receiver.wrote(nbytes)
        self._last_seen_s = self._now_s()
        self.advance()

    def eof_received(self) -> bool:
        return False

    @property
    def unsent_bytes(self) -> int:
        """The bytes of responses that the client has not read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        self._can_write = False
        self._network.unread.paused(self, self._now_s())

    def resume_writing(self) -> None:
        self._can_write = True
        self._network.unread.resumed(self)
        self.advance()

    def close_if_idle(self, now_s: float) -> None:
        """Close the connection when nothing has arrived for too long and no response is due."""
        silent_s = now_s - self._last_seen_s
        is_open_s = now_s - self._opened_s
        authentication = self._authentication
        if authentication is not None and not authentication.is_done and is_open_s > self._security.timeout_s:
            self.close("its user did not authenticate in time")
            return
        if self._comes_too_slowly(now_s, silent_s):
            seconds = now_s - self._frame_since_s
            self.close(f"its request arrived too slowly: {self._receiver.came_bytes} bytes in {seconds:.0f} s")
            return
        if self._pending or self._next is not None or not self._is_reading or not self._can_write:
            return
        if silent_s > self._network.idle_s_max:
            self.close()

    def _comes_too_slowly(self, now_s: float, silent_s: float) -> bool:
        """Whether an arriving request has stopped, or arrives below the minimum rate."""
        if not self._frame_since_s:
            return False
        allowed_s = self._network.stall_s_max
        by_rate_s = allowed_s + self._receiver.came_bytes / self._network.request_rate_min
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

    def advance(self) -> None:
        """Begin every request that may begin now; read on only if the next one could begin soon."""
        try:
            while self._transport is not None and self._take_next() and self._may_begin():
                assert self._next is not None
                (api, header, frame), self._next = self._next, None
                pending = self._pending.begin(len(frame), api, self._now_s())
                if self._authentication is not None and not api.before_authentication:
                    self._authentication.admit()
                self._server.begin(pending, api, header, frame)
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
            if self._authentication is not None and self._authentication.takes_bare_tokens:
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
        """Whether the next request may begin: its client is not muted, reads its responses, and it may join others."""
        assert self._next is not None
        if self._muted_until_s and self._now_s() < self._muted_until_s:
            return False
        return self._can_write and self._pending.may_begin(self._next[0])

    def answered(self, pending: PendingRequest, call: Call, answer: Answer) -> None:
        """Send the response of a request, ``pending.chunks``, when those before it are sent."""
        if pending.charge is not None:
            self._throttle(pending, pending.charge, call, answer)
        chunks, freed_bytes = self._pending.take_done()
        if chunks:
            self._write(chunks)
        if freed_bytes:
            self._memory.give_back(freed_bytes)
        if self._authentication is not None:
            self._follow_authentication(self._authentication)

    def _write(self, chunks: Chunks) -> None:
        """Hand the chunks to the transport, unless it is closing.

        asyncio's ``writelines`` of Python 3.12 and 3.13 up to 3.13.5 keeps bytes for a connection that broke, and its
        socket in the selector; up to 3.12.8 and 3.13.1 it never calls ``pause_writing`` (CVE-2024-12254). uvloop's is
        right, and the log process uses that; a log inside another program uses asyncio's.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.writelines(chunks)
        if self._can_write and transport.get_write_buffer_size() > _UNSENT_BYTES:
            transport.set_write_buffer_limits()  # this looks at the size again, and pauses

    # ---- quotas

    def _throttle(self, pending: PendingRequest, charge: Charge, call: Call, answer: Answer) -> None:
        """Answer a client over its quota at once, with throttle_time_ms set; then mute the connection for that time."""
        throttle_ms = charge.throttle_ms(sum(map(len, pending.chunks)))
        if throttle_ms <= 0:
            return
        if answer is not None and hasattr(answer, "throttle_time_ms"):
            answer.throttle_time_ms = throttle_ms
            pending.chunks = encode_response(call, answer)
        until_s = self._now_s() + throttle_ms / 1000
        if until_s > self._muted_until_s:
            self._muted_until_s = until_s
            asyncio.get_running_loop().call_later(throttle_ms / 1000 + _TIMER_S, self.advance)

    # ---- the user

    def _follow_authentication(self, authentication: Authentication) -> None:
        """Lift the limits of an authenticated connection; close one whose authentication has failed."""
        if authentication.state is SaslState.DONE:
            self._receiver.frame_bytes_max = self._network.frame_bytes_max
            self._network.unauthenticated.discard(self)
            memory = self._network.request_memory
            if self._memory.share.memory is not memory:  # else it would lose its place in the queue
                self._memory.move(memory, str(authentication.principal))
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
