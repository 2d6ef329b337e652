"""Confluent's own client, beside ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from mainstem.client.log import Log
from tests.gateway.served import registry_client


@pytest.fixture
def client(mainstem_log: Log) -> Iterator[SchemaRegistryClient]:
    """Confluent's client of the log's registry."""
    with registry_client(mainstem_log) as client:
        yield client
