"""An app behind a real HTTP server on loopback, in a thread of the test's process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from mainstem.gateway.addresses import bound_address
from mainstem.gateway.serving import listen_tcp


class _Server(uvicorn.Server):
    """Says in an event when it accepts."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepts = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.accepts.set()


@contextmanager
def listening_on(app: Any, sockets: Any) -> Iterator[None]:
    """Serve ``app`` on sockets that are bound already."""
    server = _Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sockets]})
    thread.start()
    try:
        assert server.accepts.wait(20)
        yield
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def served(app: Any) -> Iterator[httpx.Client]:
    """A client of ``app``."""
    socket = listen_tcp("127.0.0.1:0", insecure=False)
    address = bound_address(socket)
    with listening_on(app, socket), httpx.Client(base_url=f"http://{address}", timeout=30, trust_env=False) as client:
        yield client
