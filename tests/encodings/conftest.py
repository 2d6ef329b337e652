"""Confluent's own client, beside ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_registry_app
from tests.gateway.served import served


@pytest.fixture
def client(mainstem_log: Log) -> Iterator[SchemaRegistryClient]:
    """Confluent's client of the log's registry."""
    with (
        served(create_registry_app(mainstem_log, GatewayLimits())) as http,
        SchemaRegistryClient({"url": str(http.base_url)}) as client,
    ):
        yield client
