"""Bytes to and from a broker: the one place that opens sockets. TLS is another ``Dial``.

A ``Stream`` is owned by one thread; ``abort`` alone may be called from any, and wakes the owner.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TypeAlias

from mainstem.client.wire.address import Address
from mainstem.client.wire.deadline import Deadline
from mainstem.errors import LogUnavailableError
from mainstem.protocol.schema import Buffer

_CONNECT_TIMEOUT_S = 10.0
_BUFFERS_AT_ONCE = 512  # under every system's IOV_MAX


class NotConnectedError(LogUnavailableError):
    """There is no connection, so that nothing can have reached the broker."""


class Stream:
    """A connected socket whose operations end by a deadline. Every failure is a LogUnavailableError."""

    def __init__(self, sock: socket.socket, address: Address) -> None:
        self._socket = sock
        self._address = address

    def send(self, buffers: Sequence[Buffer], deadline: Deadline) -> None:
        """Send all of the buffers, in order, uncopied."""
        left = [memoryview(buffer) for buffer in buffers if len(buffer)]
        try:
            while left:
                self._set_timeout(deadline)
                sent = self._socket.sendmsg(left[:_BUFFERS_AT_ONCE])
                while left and sent >= len(left[0]):
                    sent -= len(left.pop(0))
                if sent:
                    left[0] = left[0][sent:]
        except OSError as error:
            raise self._failure(error, deadline) from error

    def receive_into(self, view: memoryview, deadline: Deadline) -> None:
        """Fill ``view``."""
        received, size = 0, len(view)
        try:
            while received < size:
                self._set_timeout(deadline)
                count = self._socket.recv_into(view[received:])
                if count == 0:
                    raise ConnectionResetError("it closed the connection")
                received += count
        except OSError as error:
            raise self._failure(error, deadline) from error

    def abort(self) -> None:
        """End the connection at once; from any thread. Who is waiting on it gets LogUnavailableError."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it was not connected any more: there is nothing to wake

    def close(self) -> None:
        self._socket.close()

    def _set_timeout(self, deadline: Deadline) -> None:
        left_s = deadline.left_s()
        if left_s <= 0.0:
            raise TimeoutError
        self._socket.settimeout(left_s)

    def _failure(self, error: OSError, deadline: Deadline) -> LogUnavailableError:
        if isinstance(error, TimeoutError):
            return LogUnavailableError(f"the log at {self._address} did not answer within {deadline.timeout_s:g} s")
        return LogUnavailableError(f"the connection to the log at {self._address} broke: {_reason(error)}")


Dial: TypeAlias = Callable[[Address, Deadline], Stream]


def dial_plain(address: Address, deadline: Deadline) -> Stream:
    """Connect without TLS. Raises NotConnectedError."""
    timeout_s = min(_CONNECT_TIMEOUT_S, deadline.left_s())
    try:
        sock = socket.create_connection(address, timeout=max(timeout_s, 0.001))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except TimeoutError as error:
        raise NotConnectedError(f"the log at {address} cannot be reached: no answer in {timeout_s:g} s") from error
    except OSError as error:
        raise LogUnavailableError(
            f"the log at {address} cannot be reached: {_reason(error)}; is it running?"
        ) from error
    return Stream(sock, address)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()
