"""One connection to one broker: frames out, frames in, versions agreed on.

At opening it asks for the broker's API versions; every request is then sent in the highest version that both sides
know. Then the user is authenticated, if one is set; and again, when the connection is idle, before the log would end
the session. Requests are answered in the order they were sent.

Invariant: after any error except a refused version the connection is closed, because the meaning of its next bytes is
unknown. An interrupt (ctrl-C) is such an error. Owned by one thread; ``abort`` may be called from any.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mainstem.addresses import Address
from mainstem.client.security import Security
from mainstem.client.wire.connection.deadline import Deadline
from mainstem.client.wire.connection.login import log_in
from mainstem.client.wire.connection.transport import Dial, Stream, dial_plain
from mainstem.clock import Clock, SystemClock
from mainstem.errors import FrameError, MainstemError, RemoteError
from mainstem.protocol import codec
from mainstem.protocol.apis import OWN_APIS, OWN_CLIENT
from mainstem.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from mainstem.protocol.messages.init_producer_id import InitProducerIdRequest
from mainstem.protocol.schema import Buffer, Message, VersionRange

_INT32 = struct.Struct(">i")
_ERROR_CODE = struct.Struct(">ih")  # of an ApiVersions response of any version: correlation id, error code
_UNSUPPORTED_VERSION = 35
_SESSION_PART = 0.85
_READ_AHEAD_BYTES = 8 * 1024


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The options that all connections of a client share. A response over ``response_bytes_max`` is refused unread."""

    client_id: str = "mainstem"
    dial: Dial = dial_plain
    security: Security = field(default_factory=Security)
    clock: Clock = field(default_factory=SystemClock)
    response_bytes_max: int = 256 * 1024 * 1024


class Pending(NamedTuple):
    """A request that has been sent, with what its response needs to be read."""

    correlation_id: int
    api_key: int
    version: int


class ReceiveBuffer:
    """A buffer that grows and is used again. Its content is valid until the next read into it."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray(64 * 1024)

    def view(self, size: int) -> memoryview:
        if size > len(self._data):
            self._data = bytearray(max(size, 2 * len(self._data)))
        return memoryview(self._data)[:size]


class BrokerConnection:
    """An open connection that knows the broker's versions. The module's docstring has the contract."""

    def __init__(self, stream: Stream, address: Address, options: ConnectionOptions) -> None:
        """For ``open``: a connection that does not know the broker's versions yet."""
        self.address = address
        self.is_open = True
        self.versions: dict[int, VersionRange] = {}
        self.features: dict[str, int] = {}
        self._stream = stream
        self._options = options
        self._correlation_id = 0
        self._pending: deque[Pending] = deque()
        self._scratch = memoryview(bytearray(_READ_AHEAD_BYTES))
        self._log_in_again_s = math.inf
        self._ahead = 0  # so many bytes of the scratch buffer are filled

    @classmethod
    def open(
        cls,
        address: Address,
        options: ConnectionOptions,
        deadline: Deadline,
        dialed: Callable[[BrokerConnection], None] | None = None,
    ) -> BrokerConnection:
        """Connect, agree on versions, authenticate. ``dialed`` is called with the connection before any request.

        Raises AuthenticationError, LogUnavailableError, FrameError or RemoteError.
        """
        connection = cls(options.dial(address, deadline), address, options)
        try:
            if dialed is not None:
                dialed(connection)
            connection._agree_on_versions(deadline)
            connection._log_in(deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    def version_of(self, message: type[Message], version_max: int | None = None) -> int:
        """The highest version of a request that both sides know. Raises RemoteError when there is none."""
        theirs = self.versions.get(message.__api_key__, VersionRange(0, -1))
        version = min(message.__versions__.last, theirs.last)
        if version_max is not None:
            version = min(version, version_max)
        if version < max(message.__versions__.first, theirs.first):
            raise RemoteError(
                f"the log at {self.address} does not serve {message.__name__} in a version known here",
                code=_UNSUPPORTED_VERSION,
                name="UNSUPPORTED_VERSION",
            )
        return version

    def send(self, body: Message, deadline: Deadline, version_max: int | None = None) -> Pending:
        """Send a request; its answer is read by ``receive``, in the order of sending."""
        if self._log_in_again_s < math.inf and not self._pending:
            self._maybe_log_in_again(deadline)
        return self._send(body, self.version_of(type(body), version_max), deadline)

    def receive(self, deadline: Deadline, buffer: ReceiveBuffer | None = None) -> Any:
        """The answer to the oldest request that has none yet.

        Record batches in it are memoryviews into ``buffer`` (until that is used again), or into memory of their own.
        """
        pending = self._pending.popleft()
        try:
            response = codec.decode_response(self._receive_frame(deadline, buffer), pending.api_key, pending.version)
            self._check_correlation(pending, response.correlation_id)
        except BaseException:
            self.close()
            raise
        return response.body

    def exchange(self, body: Message, deadline: Deadline, version_max: int | None = None) -> Any:
        """Send a request and read its answer."""
        try:
            self.send(body, deadline, version_max)
            return self.receive(deadline)
        except MainstemError:
            raise
        except BaseException:  # between the two: the answer would be taken for another's
            self.close()
            raise

    def abort(self) -> None:
        """Break the connection; from any thread."""
        self.is_open = False
        self._stream.abort()

    def close(self) -> None:
        self.is_open = False
        self._pending.clear()
        self._stream.close()

    def _send(self, body: Message, version: int, deadline: Deadline) -> Pending:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        pending = Pending(self._correlation_id, body.__api_key__, version)
        chunks = codec.encode_request(
            body, version, correlation_id=pending.correlation_id, client_id=self._options.client_id
        )
        try:
            self._stream.send(chunks, deadline)
        except BaseException:
            self.close()
            raise
        self._pending.append(pending)
        return pending

    def _receive_frame(self, deadline: Deadline, buffer: ReceiveBuffer | None = None) -> memoryview:
        while self._ahead < _INT32.size:
            self._read_ahead(deadline)
        (size,) = _INT32.unpack_from(self._scratch)
        if bytes(self._scratch[: _INT32.size]) == b"HTTP":
            raise FrameError(
                f"{self.address} speaks HTTP, not the Kafka protocol: give the log's address, not the gateway's"
            )
        if not 4 <= size <= self._options.response_bytes_max:
            raise FrameError(
                f"{self.address} answered with a frame of {size} bytes: it may not speak the Kafka protocol, "
                f"or the answer is over the limit of {self._options.response_bytes_max} bytes"
            )
        frame = memoryview(bytearray(size)) if buffer is None else buffer.view(size)
        there = min(self._ahead - _INT32.size, size)
        frame[:there] = self._scratch[_INT32.size : _INT32.size + there]
        self._drop_ahead(_INT32.size + there)
        self._stream.receive_into(frame[there:], deadline)
        return frame

    def _read_ahead(self, deadline: Deadline) -> None:
        """Length and frame in one go where the frame is small, which most are."""
        self._ahead += self._stream.receive_some(self._scratch[self._ahead :], deadline)

    def _drop_ahead(self, count: int) -> None:
        """Keep what was read of the next frame."""
        left = self._ahead - count
        if left:
            self._scratch[:left] = bytes(self._scratch[count : self._ahead])
        self._ahead = left

    def _check_correlation(self, pending: Pending, correlation_id: int) -> None:
        if correlation_id != pending.correlation_id:
            raise FrameError(f"{self.address} answered request {correlation_id}, not {pending.correlation_id}")

    def _log_in(self, deadline: Deadline) -> None:
        if not self._options.security.has_sasl:
            return
        self._log_in_again_s = math.inf
        session_ms = log_in(self, self._options.security, deadline)
        if session_ms:
            self._log_in_again_s = self._options.clock.monotonic_s() + _SESSION_PART * session_ms / 1000

    def _maybe_log_in_again(self, deadline: Deadline) -> None:
        """Prove the user again while the session lasts."""
        if self._options.clock.monotonic_s() >= self._log_in_again_s:
            try:
                self._log_in(deadline)
            except BaseException:
                self.close()
                raise

    def _agree_on_versions(self, deadline: Deadline) -> None:
        """Ask in the newest version; a broker that does not know it answers in version 0 with what it does know."""
        version = ApiVersionsRequest.__versions__.last
        frame = self._ask_versions(version, deadline)
        if _error_code_of(frame) == _UNSUPPORTED_VERSION:
            offered = _versions_in(codec.decode_response(frame, ApiVersionsRequest.__api_key__, 0).body)
            version = min(version, offered.get(ApiVersionsRequest.__api_key__, VersionRange(0, 0)).last)
            frame = self._ask_versions(version, deadline)
        answer: ApiVersionsResponse = codec.decode_response(frame, ApiVersionsRequest.__api_key__, version).body
        if answer.error_code != 0:
            raise RemoteError(
                f"the log at {self.address} does not answer with its API versions",
                code=answer.error_code,
                name="UNSUPPORTED_VERSION" if answer.error_code == _UNSUPPORTED_VERSION else "UNKNOWN_SERVER_ERROR",
            )
        self.versions = _with_unlisted(_versions_in(answer))
        self.features = {feature.name: feature.max_version_level for feature in answer.finalized_features}

    def _ask_versions(self, version: int, deadline: Deadline) -> memoryview:
        self._send(ApiVersionsRequest(client_software_name=OWN_CLIENT, client_software_version="0"), version, deadline)
        pending = self._pending.popleft()
        frame = self._receive_frame(deadline)
        self._check_correlation(pending, _INT32.unpack_from(frame)[0])
        return frame


def _error_code_of(frame: Buffer) -> int:
    if len(frame) < _ERROR_CODE.size:
        raise FrameError(f"an ApiVersions response of {len(frame)} bytes is too short")
    return int(_ERROR_CODE.unpack_from(frame)[1])


def _versions_in(answer: ApiVersionsResponse) -> dict[int, VersionRange]:
    return {api.api_key: VersionRange(api.min_version, api.max_version) for api in answer.api_keys}


def _with_unlisted(versions: dict[int, VersionRange]) -> dict[int, VersionRange]:
    """A Mainstem log, known by its own APIs, serves two-phase transactions (KIP-939) without listing the version."""
    key = InitProducerIdRequest.__api_key__
    if key in versions and not versions.keys().isdisjoint(OWN_APIS):
        return {**versions, key: VersionRange(versions[key].first, InitProducerIdRequest.__versions__.last)}
    return versions


def exchanges(
    calls: Iterable[tuple[BrokerConnection, Message]],
    deadline: Deadline,
    version_max: int | None = None,
    *,
    in_flight_max: int,
) -> Generator[Any, None, None]:
    """Send requests, up to ``in_flight_max`` before the first answer is read; the answers, in the order of sending.

    What ends it early, ``close`` of the generator included, closes the connections that have answers on their way.
    """
    waiting: deque[BrokerConnection] = deque()
    try:
        for connection, body in calls:
            waiting.append(connection)  # before it is used, and until it is done: an interrupt may come in between
            connection.send(body, deadline, version_max)
            if len(waiting) == in_flight_max:
                yield _received(waiting, deadline)
        while waiting:
            yield _received(waiting, deadline)
    except BaseException:
        for connection in waiting:
            connection.close()
        raise


def _received(waiting: deque[BrokerConnection], deadline: Deadline) -> Any:
    answer = waiting[0].receive(deadline)
    waiting.popleft()
    return answer
