"""Connections without a user: unfinished TLS handshakes, and clients that have not logged in.

Their number is at most ``connections_max``. One more closes the oldest of them, so that clients that only connect
cannot keep others out. ``TlsServer`` accepts the sockets of a TLS listener itself. A server of asyncio reports a
connection only after its handshake, so stalled handshakes would not be counted. Concurrency: the event loop only.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol

_LOG: Final = logging.getLogger("mainstem.broker")
_ACCEPT_PAUSE_S: Final = 1.0


class Waiting(Protocol):
    """A connection without a user, as this module needs it."""

    def close(self, reason: str = "") -> None:
        """Close at once."""
        ...


class Unauthenticated:
    """The connections without a user, oldest first."""

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self._waiting: dict[Waiting, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, connection: Waiting) -> None:
        """Add a connection, and close the oldest one when there are too many."""
        self._waiting[connection] = None
        if len(self._waiting) > self._connections_max:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.close(
                "more connections without a user than mainstem.unauthenticated.connections.max were opened after it"
            )

    def discard(self, connection: Waiting) -> None:
        """Remove a connection that has a user now, or is closed."""
        self._waiting.pop(connection, None)


class TlsServer:
    """Accepts the sockets of one TLS listener. ``made`` makes the protocol that takes over after a handshake.

    ``has_room`` says whether one more socket may be open.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        timeout_s: float,
        unauthenticated: Unauthenticated,
        made: Callable[[], asyncio.BaseProtocol],
        has_room: Callable[[], bool],
    ) -> None:
        self._context = context
        self._timeout_s = timeout_s
        self._unauthenticated = unauthenticated
        self._made = made
        self._has_room = has_room
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: dict[_Handshake, None] = {}

    async def listen(self, host: str, port: int, backlog: int) -> int:
        """Start to accept; return the port. Raises OSError, and then listens nowhere."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, address in dict.fromkeys((each[0], each[4]) for each in found):
                listening = socket.create_server((address[0], address[1]), family=family, backlog=backlog)
                listening.setblocking(False)
                self._sockets.append(listening)
        except OSError:
            self.close()
            raise
        self._accepting = [loop.create_task(self._accept(each)) for each in self._sockets]
        return int(self._sockets[0].getsockname()[1])

    def __len__(self) -> int:
        """Return the number of unfinished handshakes."""
        return len(self._handshakes)

    def close(self) -> None:
        """Stop accepting, and end the handshakes."""
        for task in self._accepting:
            task.cancel()
        for handshake in list(self._handshakes):
            handshake.close()
        for each in self._sockets:
            each.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:  # out of files, or the client has gone already
                _LOG.warning("a connection could not be accepted: %s", error)
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            if self._has_room():
                handshake = _Handshake(accepted, self._shake_hands(accepted))
                self._handshakes[handshake] = None
                self._unauthenticated.add(handshake)
                handshake.task.add_done_callback(functools.partial(self._done, handshake))
            else:
                accepted.close()

    async def _shake_hands(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._made, accepted, ssl=self._context, ssl_handshake_timeout=self._timeout_s
            )
        except OSError as error:  # those of ssl and a timeout are OSErrors, too
            _LOG.debug("a TLS handshake failed: %s", error)

    def _done(self, handshake: _Handshake, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(handshake, None)
        self._unauthenticated.discard(handshake)
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("a TLS handshake failed in a way that was not expected", exc_info=task.exception())


class _Handshake:
    """One accepted socket until its TLS handshake is done."""

    def __init__(self, accepted: socket.socket, work: Coroutine[Any, Any, None]) -> None:
        self._accepted = accepted
        self.task = asyncio.get_running_loop().create_task(work)

    def close(self, reason: str = "") -> None:
        """Close at once; ``reason`` goes to the log."""
        if reason:
            _LOG.warning("TLS handshake ended: %s", reason)
        self.task.cancel()
        with suppress(OSError):  # the client has gone
            self._accepted.shutdown(socket.SHUT_RDWR)
