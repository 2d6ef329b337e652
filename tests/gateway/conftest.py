"""The public API over a real log, in this process; the views' routes have tests of their own."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.testing.embedded import EmbeddedBroker
from tests.gateway.served import served


@pytest.fixture(scope="session")
def session_log(mainstem_broker: EmbeddedBroker) -> Iterator[Log]:
    """A log client for the whole session."""
    with Log(mainstem_broker.bootstrap, timeout_s=10.0) as log:
        yield log


@pytest.fixture(scope="session")
def api(session_log: Log) -> Iterator[httpx.Client]:
    """A client of the gateway, over a real socket."""
    with served(create_app(session_log, ForwardingBackend([]), GatewayLimits(body_bytes_max=100_000))) as client:
        yield client
