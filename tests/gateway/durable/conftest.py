"""Durable Streams over a topic of the session's log, behind a gateway that all pages may ask."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.durable.durable_stream_routes import durable_stream_router
from mainstem.gateway.server import app as server
from mainstem.gateway.views.forwarding import ForwardingBackend
from tests.gateway.served import served

TOPIC = "durable"
CONFIGS = {"mainstem.key.index": "true", "mainstem.conditional.append": "true"}
POLL_S = 1.0


@pytest.fixture(scope="session")
def durable_topic(session_log: Log) -> str:
    session_log.create_topic(TOPIC, partitions=2, configs=CONFIGS, exist_ok=True)
    return TOPIC


@pytest.fixture(scope="session")
def durable(session_log: Log, durable_topic: str) -> Iterator[httpx.Client]:
    """A gateway whose long polls wait for a second."""
    with pytest.MonkeyPatch.context() as patched:
        router = functools.partial(durable_stream_router, poll_s=POLL_S)
        patched.setattr(server, "durable_stream_router", router)
        limits = GatewayLimits(origins=frozenset({"*"}))
        app = server.create_app(session_log, ForwardingBackend([]), limits)
    with served(app) as client:
        yield client
