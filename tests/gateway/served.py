"""An app behind a real HTTP server on loopback, in a thread of the test's process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
from confluent_kafka.schema_registry import SchemaRegistryClient

from mainstem.addresses import Address
from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.request_heads import BoundedHeads
from mainstem.gateway.server.app import create_registry_app
from mainstem.gateway.server.serving import KEEP_ALIVE_S, EndingServer, listen_tcp


@contextmanager
def listening_on(app: Any, sockets: Any, grace_s: int = 1) -> Iterator[uvicorn.Server]:
    """Serve ``app`` on sockets that are bound already; requests have ``grace_s`` when it stops."""
    accepts = threading.Event()
    config = uvicorn.Config(
        app,
        http=BoundedHeads,
        log_level="critical",
        timeout_graceful_shutdown=grace_s,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    server = EndingServer(config, accepts.set, app.state.streams.end)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sockets]})
    thread.start()
    try:
        assert accepts.wait(20)
        yield server
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def served(app: Any, grace_s: int = 1) -> Iterator[httpx.Client]:
    """A client of ``app``."""
    socket = listen_tcp("127.0.0.1:0", insecure=False)
    address = Address(*socket.getsockname()[:2])
    with (
        listening_on(app, socket, grace_s),
        httpx.Client(base_url=f"http://{address}", timeout=30, trust_env=False) as client,
    ):
        yield client


@contextmanager
def registry_client(log: Log) -> Iterator[SchemaRegistryClient]:
    """Confluent's client of a log's registry."""
    with (
        served(create_registry_app(log, GatewayLimits())) as http,
        SchemaRegistryClient({"url": str(http.base_url)}) as client,
    ):
        yield client
