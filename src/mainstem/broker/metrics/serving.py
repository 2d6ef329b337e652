"""``/metrics`` over HTTP on a Unix socket that only this user can connect to.

``curl --unix-socket DATA/metrics.sock http://localhost/metrics``, or the gateway's ``GET /metrics``. One request a
connection; everything except ``GET /metrics`` gets 404. A request is limited by ``_REQUEST_S`` and
``_REQUEST_BYTES_MAX``; at most ``_READERS_MAX`` are served at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mainstem.broker.metrics.page import metrics_page
from mainstem.broker.metrics.text_format import CONTENT_TYPE

if TYPE_CHECKING:
    from mainstem.broker.server import Broker

METRICS_SOCKET: Final = "metrics.sock"
"""The socket's name in the data directory."""
_LOG: Final = logging.getLogger("mainstem.broker")
_REQUEST_S: Final = 10.0
_REQUEST_BYTES_MAX: Final = 8192
_READERS_MAX: Final = 8


class MetricsServer:
    """The socket of one broker. If it cannot be created, a warning is logged, and the broker serves without it."""

    def __init__(self, broker: Broker, path: Path) -> None:
        self._broker = broker
        self._path = path
        self._server: asyncio.Server | None = None
        self._readers = 0

    async def start(self) -> None:
        """Listen, replacing a killed process's socket: the data directory's lock proves that no process uses it."""
        try:
            self._path.unlink(missing_ok=True)
            listening = _bound(self._path)
        except OSError as error:
            _LOG.warning("no metrics: cannot make the socket %s: %s", self._path, error.strerror or error)
            return
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=_REQUEST_BYTES_MAX)

    async def stop(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.close()
            self._server = None
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._readers += 1
        try:
            async with asyncio.timeout(_REQUEST_S):
                await self._answer(reader, writer)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            _LOG.debug("a request for metrics failed: %r", error)
        finally:
            self._readers -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        target = head.split(b" ", 2)[:2]
        if self._readers > _READERS_MAX:
            writer.write(_head("503 Service Unavailable", "text/plain"))
        elif target != [b"GET", b"/metrics"]:
            writer.write(_head("404 Not Found", "text/plain"))
        else:
            writer.write(_head("200 OK", CONTENT_TYPE))
            async for text in metrics_page(self._broker):
                writer.write(text.encode())
                await writer.drain()
        await writer.drain()


def _head(status: str, content_type: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nConnection: close\r\n\r\n".encode()


def _bound(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening
