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
from mainstem.gateway.registry import registry_app as registry_routes
from mainstem.gateway.server.app import create_registry_app
from mainstem.registry.registry import Registry
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


@pytest.fixture(scope="session")
def registry_app(registry_log: Log) -> Iterator[tuple[httpx.Client, Registry]]:
    """A client of one app of a registry, and that registry: to make and serve the app takes longer than most tests."""
    made: list[Registry] = []

    def remembered(log: Log, topic: str) -> Registry:
        made.append(Registry(log, topic))
        return made[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry_routes, "Registry", remembered)
        app = create_registry_app(registry_log, GatewayLimits())
    [one] = made
    with served(app) as client:
        yield client, one


@pytest.fixture
def registry(registry_app: tuple[httpx.Client, Registry], registry_log: Log, topic: str) -> httpx.Client:
    """A client of a registry that has just started, and has a schemas topic of its own."""
    client, one = registry_app
    Registry.__init__(one, registry_log, topic)  # the routes hold this object, and it has no other state
    return client


@pytest.fixture
def guarded(registry_log: Log, topic: str, tmp_path: Path) -> Iterator[tuple[httpx.Client, str]]:
    """A client of the same registry at an address that asks for tokens, and a token that may read and write."""
    token, text = new_token("writer", Grants(read=("*",), write=("*",)))
    write_tokens(tmp_path / "tokens.json", [token])
    tokens = TokenFile(tmp_path / "tokens.json")
    with served(create_registry_app(registry_log, GatewayLimits(), tokens=tokens, topic=topic)) as client:
        yield client, text
