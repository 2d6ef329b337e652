"""Subscriptions to client metrics, and pushes, over the wire; and what ``/metrics`` then shows."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.metrics.page import metrics_page
from mainstem.broker.telemetry import client_instances, received_metrics
from mainstem.broker.telemetry.telemetry import DECOMPRESSED_BYTES_MAX
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from mainstem.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from mainstem.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from mainstem.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from mainstem.protocol.messages.list_config_resources import ListConfigResourcesRequest
from mainstem.protocol.messages.push_telemetry import PushTelemetryRequest
from mainstem.record.compress import compress
from mainstem.record.constants import Compression
from mainstem.testing import ManualClock
from tests.broker.harness import Client, running, with_broker
from tests.broker.telemetry.payload import DELTA, gauge, metrics_data, point, total, whole_point

CLIENT_METRICS = 16
ZERO = uuid.UUID(int=0)


async def alter(client: Client, name: str, *, delete: bool = False, **configs: str) -> int:
    """Set configs of a subscription; names with _ for the dots."""
    changes = [
        AlterableConfig(name=key.replace("_", "."), config_operation=int(delete), value=value)
        for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=changes)
    response = await client.request(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    return int(response.responses[0].error_code)


async def subscriptions(client: Client, instance_id: uuid.UUID = ZERO) -> Any:
    return await client.request(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)


async def push(client: Client, asked: Any, data: bytes, codec: int = 0, **changes: Any) -> int:
    request = PushTelemetryRequest(
        client_instance_id=asked.client_instance_id,
        subscription_id=asked.subscription_id,
        terminating=False,
        compression_type=codec,
        metrics=data,
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return int((await client.request(request, 0)).error_code)


async def shown(client: Client) -> dict[str, float]:
    """The samples of clients' metrics by name and labels, without the label of the instance."""
    page = "".join([text async for text in metrics_page(client.broker)])
    samples = {}
    for line in page.splitlines():
        if line.startswith("mainstem_client_"):
            name, value = line.rsplit(" ", 1)
            family, _, labels = name.partition("{")
            samples[family + "{" + labels.split(",", 1)[1]] = float(value)
    return samples


@with_broker()
async def test_subscriptions_are_set_described_listed_and_removed(client: Client) -> None:
    assert await alter(client, "s", metrics="a.,b.", interval_ms="1000", match="client_id=te.*") == 0
    resource = DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name="s", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=False, include_documentation=False)
    (described,) = (await client.request(request, 4)).results
    values = {config.name: (config.value, config.config_source) for config in described.configs}
    assert values == {"interval.ms": ("1000", 7), "match": ("client_id=te.*", 7), "metrics": ("a.,b.", 7)}
    listed = (await client.request(ListConfigResourcesRequest(), 0)).config_resources
    assert [each.resource_name for each in listed] == ["s"]
    assert await alter(client, "s", delete=True, metrics="", interval_ms="", match="") == 0
    assert not (await client.request(ListConfigResourcesRequest(), 0)).config_resources


@pytest.mark.parametrize(
    ("name", "configs", "code"),
    [
        ("", {"metrics": "a"}, ErrorCode.INVALID_REQUEST),
        ("s", {"interval_ms": "99"}, ErrorCode.INVALID_REQUEST),
        ("s", {"other": "1"}, ErrorCode.INVALID_REQUEST),
        ("s", {"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "color=red"}, ErrorCode.INVALID_CONFIG),
        ("s", {"match": "client_id=("}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_wrong_configs_are_refused(name: str, configs: dict[str, str], code: int, tmp_path: Path) -> None:
    @with_broker()
    async def scenario(client: Client) -> None:
        assert await alter(client, name, **configs) == code

    scenario(tmp_path=tmp_path)


@with_broker()
async def test_a_client_is_asked_for_what_matches_it(client: Client) -> None:
    assert not (await subscriptions(client)).requested_metrics
    await client.request(ApiVersionsRequest(client_software_name="lib", client_software_version="1.2"), 4)
    await alter(client, "a", metrics="a.", interval_ms="5000", match="client_software_name=lib,client_id=test")
    await alter(client, "b", metrics="b.", match=r"client_source_address=127\..*,client_software_version=1.*")
    await alter(client, "c", metrics="c.", match="client_id=other")
    asked = await subscriptions(client)
    assert (asked.requested_metrics, asked.push_interval_ms) == (["a.", "b."], 5000)
    assert asked.client_instance_id != ZERO
    await alter(client, "d", metrics="*", match=f"client_instance_id={asked.client_instance_id}")
    assert (await subscriptions(client, asked.client_instance_id)).requested_metrics == ["*"]


@with_broker()
async def test_pushed_metrics_are_shown(client: Client) -> None:
    await alter(client, "s", metrics="*", interval_ms="100")
    asked = await subscriptions(client)
    data = metrics_data(
        gauge("org.apache.kafka.producer.rtt.avg", point(1.5, node_id="1", secret="x")),
        total("org.apache.kafka.producer.sent", whole_point(7)),
        group_id='g"1',
    )
    assert await push(client, asked, bytes(compress(Compression.ZSTD, data)), codec=4) == 0
    assert await shown(client) == {
        'mainstem_client_producer_rtt_avg{client_id="test",node_id="1",group_id="g\\"1"}': 1.5,
        'mainstem_client_producer_sent_total{client_id="test",group_id="g\\"1"}': 7,
    }


def test_pushes_have_their_time_and_their_subscription(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with running(tmp_path / "data", clock=clock) as client:
            await alter(client, "s", metrics="*", interval_ms="60000")
            asked = await subscriptions(client)
            assert (await subscriptions(client, asked.client_instance_id)).error_code == (
                ErrorCode.THROTTLING_QUOTA_EXCEEDED
            )
            changes = metrics_data(total("n", whole_point(2), temporality=DELTA))
            assert await push(client, asked, changes) == 0
            assert await push(client, asked, changes) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            clock.advance(60)
            assert await push(client, asked, changes) == 0
            assert await shown(client) == {'mainstem_client_n_total{client_id="test"}': 4}
            clock.advance(60)
            await alter(client, "s", metrics="a.")
            assert await push(client, asked, changes) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
            asked = await subscriptions(client, asked.client_instance_id)
            assert await push(client, asked, changes) == 0
            assert await push(client, asked, b"", terminating=True) == 0
            assert await push(client, asked, b"", terminating=True) == ErrorCode.INVALID_REQUEST
            clock.advance(200)
            client.broker.node.telemetry.forget_silent()
            assert await shown(client) == {}

    asyncio.run(scenario())


@with_broker(telemetry_max_bytes="1000")
async def test_payloads_that_cannot_be_taken_are_refused(client: Client) -> None:
    await alter(client, "s", metrics="*", interval_ms="100")
    bomb = bytes(compress(Compression.ZSTD, bytes(DECOMPRESSED_BYTES_MAX + 1)))
    for data, codec, code in [
        (bytes(1001), 0, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"x", 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"x", 4, ErrorCode.INVALID_RECORD),
        (b"\x0a\x05a", 0, ErrorCode.INVALID_RECORD),
        (bomb, 4, ErrorCode.INVALID_RECORD),
    ]:
        assert len(bomb) < 1000
        asked = await subscriptions(client)
        assert await push(client, asked, data, codec) == code
    assert await push(client, asked, b"", client_instance_id=ZERO) == ErrorCode.INVALID_REQUEST
    assert await shown(client) == {}


@with_broker(mainstem_telemetry_series_max="250")
async def test_series_are_bounded_for_a_client_and_in_all(client: Client) -> None:
    await alter(client, "s", metrics="*", interval_ms="100")
    data = metrics_data(gauge("a", *[point(1, topic=f"t{number}") for number in range(300)]))
    asked = await subscriptions(client)
    assert await push(client, asked, data) == 0
    assert len(await shown(client)) == received_metrics._SERIES_OF_CLIENT_MAX
    await push(client, await subscriptions(client), data)
    received = client.broker.node.telemetry.received
    assert (received._series.total(), received.left_out) == (250, 100 + 250)


@with_broker()
async def test_known_clients_are_bounded(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_instances, "INSTANCES_MAX", 3)
    for _ in range(5):
        await subscriptions(client)
    assert len(client.broker.node.telemetry.instances) == 3


def test_subscriptions_outlive_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "data") as client:
            await alter(client, "s", metrics="a.")
        async with running(tmp_path / "data") as client:
            assert (await subscriptions(client)).requested_metrics == ["a."]

    asyncio.run(scenario())
