"""Bytes to and from a broker: the one place that opens sockets. TLS is another ``Dial`` (``tls``).

A ``Stream`` is owned by one thread; ``abort`` alone may be called from any, and wakes the owner.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

from mainstem.addresses import Address
from mainstem.client.wire.connection.deadline import Deadline
from mainstem.errors import LogUnavailableError
from mainstem.protocol.schema import Buffer

_CONNECT_TIMEOUT_S = 10.0
_BUFFERS_AT_ONCE = 512  # under every system's IOV_MAX
_SLICE_S = 0.05
_SLICE = struct.pack("@ll", 0, int(_SLICE_S * 1_000_000))


class NotConnectedError(LogUnavailableError):
    """There is no connection, so that nothing can have reached the broker."""


class Stream:
    """A connected socket whose operations end by a deadline. Every failure is a LogUnavailableError.

    The socket blocks, and the kernel wakes it every ``_SLICE_S`` to look at the deadline: that is one system call for
    what takes two with a time-out of Python's own.
    """

    def __init__(self, sock: socket.socket, address: Address) -> None:
        sock.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            sock.setsockopt(socket.SOL_SOCKET, option, _SLICE)
        self._socket = sock
        self._address = address

    def send(self, buffers: Sequence[Buffer], deadline: Deadline) -> None:
        """Send all of the buffers, in order, uncopied."""
        left = list(buffers)
        while left:
            try:
                sent = self._socket.sendmsg(left[:_BUFFERS_AT_ONCE])
            except OSError as error:
                self._go_on(error, deadline)
                continue
            left = _after(left, sent)

    def receive_some(self, view: memoryview, deadline: Deadline) -> int:
        """Wait for bytes, and put what is there into ``view``; returns how many."""
        return self._receive(view, 0, deadline)

    def receive_into(self, view: memoryview, deadline: Deadline) -> None:
        """Fill ``view``."""
        received, size = 0, len(view)
        while received < size:
            received += self._receive(view[received:], socket.MSG_WAITALL, deadline)

    def _receive(self, view: memoryview, flags: int, deadline: Deadline) -> int:
        while True:
            try:
                count = self._socket.recv_into(view, 0, flags)
            except OSError as error:
                self._go_on(error, deadline)
                continue
            if count == 0:
                raise LogUnavailableError(f"the log at {self._address} closed the connection")
            return count

    def abort(self) -> None:
        """End the connection at once; from any thread. A waiting thread gets LogUnavailableError."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it was not connected any more: there is nothing to wake

    def close(self) -> None:
        self._socket.close()

    def _go_on(self, error: OSError, deadline: Deadline) -> None:
        """Return when the operation has only waited, and may wait longer; raise what went wrong otherwise."""
        if isinstance(error, BlockingIOError):
            if not deadline.is_over:
                return
            error = TimeoutError()
        raise self._failure(error, deadline) from error

    def _failure(self, error: OSError, deadline: Deadline) -> LogUnavailableError:
        if isinstance(error, TimeoutError):
            return LogUnavailableError(f"the log at {self._address} did not answer within {deadline.timeout_s:g} s")
        return LogUnavailableError(f"the connection to the log at {self._address} broke: {_reason(error)}")


def _after(buffers: list[Buffer], sent: int) -> list[Buffer]:
    """The rest of the buffers after their first ``sent`` bytes."""
    for number, buffer in enumerate(buffers):
        if sent < len(buffer):
            return [memoryview(buffer)[sent:], *buffers[number + 1 :]]
        sent -= len(buffer)
    return []


Dial: TypeAlias = Callable[[Address, Deadline], Stream]


def dial_plain(address: Address, deadline: Deadline) -> Stream:
    """Connect without TLS. Raises NotConnectedError."""
    return Stream(connect(address, deadline), address)


def connect(address: Address, deadline: Deadline) -> socket.socket:
    """A connected socket. Raises NotConnectedError."""
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
    return sock


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()
