"""One broker's side of a run: its connections, and what its answers taught. One thread owns it."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from typing import Any

from mainstem.errors import FrameError
from mainstem.protocol.apis import ApiKey, entity
from mainstem.protocol.codec import decode_response, encode_request
from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from mainstem.protocol.schema import Message, VersionRange
from tests.support.descriptors import is_readable

CLOSED = "connection closed"
ANSWER_S = 30.0


class Wire:
    """A connection that has at most one request under way."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = bytearray()
        self._asked: tuple[int, int] | None = None

    @property
    def is_waiting(self) -> bool:
        return self._asked is not None

    def send(self, body: Message, version: int) -> None:
        """Send a request. Raises FrameError for one that the version cannot carry."""
        chunks = encode_request(body, version, correlation_id=7, client_id="differential")
        self._asked = (body.__api_key__, version)
        try:
            self._socket.sendall(b"".join(bytes(chunk) for chunk in chunks))
        except OSError:
            return  # the broker closed the connection: `poll` says so

    def poll(self, timeout_s: float) -> Any:
        """The answer, CLOSED, or None when there is none in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            if len(self._data) >= 4:
                (size,) = struct.unpack_from(">i", self._data)
                if len(self._data) >= 4 + size:
                    return self._take(size)
            left = deadline - time.monotonic()
            if not is_readable(self._socket, max(left, 0)):
                return None
            try:
                more = self._socket.recv(1 << 20)
            except OSError:
                more = b""
            if not more:
                self._asked = None
                return CLOSED
            self._data += more

    def _take(self, size: int) -> Any:
        frame = bytes(self._data[4 : 4 + size])
        del self._data[: 4 + size]
        assert self._asked is not None
        key, version = self._asked
        self._asked = None
        return decode_response(frame, key, version).body

    def close(self) -> None:
        self._socket.close()


class Peer:
    """A broker, with a connection for each client of a run."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.address = (host, int(port))
        self._wires: dict[str, Wire] = {}

    def wire(self, client: str) -> Wire:
        wire = self._wires.get(client)
        if wire is None:
            wire = self._wires[client] = Wire(self.address)
        return wire

    def drop(self, client: str) -> None:
        """Forget a client's connection: the next request opens another."""
        wire = self._wires.pop(client, None)
        if wire is not None:
            wire.close()

    def exchange(self, body: Message, version: int, client: str = "admin") -> Any:
        """A request and its answer, or CLOSED: also when no answer comes, which ends the connection."""
        wire = self.wire(client)
        wire.send(body, version)
        answer = wire.poll(ANSWER_S)
        if answer is None or answer is CLOSED:
            self.drop(client)
            return CLOSED
        return answer

    def versions(self) -> dict[int, VersionRange]:
        """The versions that the broker lists."""
        asked = ApiVersionsRequest(client_software_name="differential", client_software_version="1")
        answer = self.exchange(asked, 3)
        return {each.api_key: VersionRange(each.min_version, each.max_version) for each in answer.api_keys}

    def close(self) -> None:
        for client in list(self._wires):
            self.drop(client)


def common_versions(peers: Iterable[Peer], known: Iterable[ApiKey]) -> dict[str, VersionRange]:
    """The versions of each API that all of the brokers list, and that there are requests of."""
    listed = [peer.versions() for peer in peers]
    common = {}
    for key in known:
        ranges = [each.get(key, VersionRange(0, -1)) for each in listed]
        both = VersionRange(max(each.first for each in ranges), min(each.last for each in ranges))
        if both.first <= both.last:
            declared = entity(key, both.last, True).__versions__  # Produce is listed from 0 and served from 3
            common[key.name.lower()] = VersionRange(max(both.first, declared.first), both.last)
    return common


__all__ = ["CLOSED", "FrameError", "Peer", "Wire", "common_versions"]
