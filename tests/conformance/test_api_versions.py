"""The versions that our table ascribes to Apache Kafka, against what its broker lists."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from scripts.compatibility import KAFKA_APIS

from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.harness import Client
from tests.support.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.maven, pytest.mark.usefixtures("kafka_jars")]


def test_the_versions_of_apache_kafka_are_what_its_broker_lists() -> None:
    async def listed(bootstrap: str) -> dict[int, tuple[int, int]]:
        host, _, port = bootstrap.rpartition(":")
        client = await Client((host, int(port)), cast("Any", None)).connect()
        response = await client.request(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
        client.close()
        return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    with ApacheKafka() as kafka:
        versions = asyncio.run(listed(kafka.bootstrap))
    assert {number: tuple(api.versions) for number, api in KAFKA_APIS.items()} == versions
