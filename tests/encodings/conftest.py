"""Confluent's own client, beside ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_registry_app
from mainstem.testing.embedded import EmbeddedBroker
from tests.gateway.served import served


@pytest.fixture(scope="module")
def registry_url(mainstem_broker: EmbeddedBroker) -> Iterator[str]:
    """The address of the log's registry."""
    with (
        Log(mainstem_broker.bootstrap, timeout_s=10.0) as log,
        served(create_registry_app(log, GatewayLimits())) as http,
    ):
        yield str(http.base_url)


@pytest.fixture
def client(registry_url: str) -> Iterator[SchemaRegistryClient]:
    """Confluent's client of that registry, which remembers no schema yet."""
    with SchemaRegistryClient({"url": registry_url}) as client:
        yield client
