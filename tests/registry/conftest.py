"""A schema registry over a real log, at a real address, in this process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.tokens import Grants, TokenFile, new_token, write_tokens
from mainstem.gateway.server.app import create_registry_app
from mainstem.testing.embedded import EmbeddedBroker
from tests.gateway.served import served


@pytest.fixture(scope="session")
def registry_log(mainstem_broker: EmbeddedBroker) -> Iterator[Log]:
    """A client of the session's log."""
    with Log(mainstem_broker.bootstrap, timeout_s=10.0) as log:
        yield log


@pytest.fixture
def topic() -> str:
    """The name of a schemas topic of this test's own."""
    return f"_schemas-{uuid.uuid4()}"


@pytest.fixture
def registry(registry_log: Log, topic: str) -> Iterator[httpx.Client]:
    """A client of a registry of its own."""
    with served(create_registry_app(registry_log, GatewayLimits(), topic=topic)) as client:
        yield client


@pytest.fixture
def guarded(registry_log: Log, topic: str, tmp_path: Path) -> Iterator[tuple[httpx.Client, str]]:
    """A client of the same registry at an address that asks for tokens, and a token that may read and write."""
    token, text = new_token("writer", Grants(read=("*",), write=("*",)))
    write_tokens(tmp_path / "tokens.json", [token])
    tokens = TokenFile(tmp_path / "tokens.json")
    with served(create_registry_app(registry_log, GatewayLimits(), tokens=tokens, topic=topic)) as client:
        yield client, text
