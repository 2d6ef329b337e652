"""Configs of groups: which there are, what they may be, and that they outlast a restart."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.configs.group_configs import parse_offset_reset
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import alter_configs, incremental_alter_configs
from mainstem.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.broker.harness import Client, running, with_broker

GROUP = 32


async def alter(client: Client, name: str, value: str | None, *, group: str = "g", operation: int = 0) -> int:
    config = incremental_alter_configs.AlterableConfig(name=name, config_operation=operation, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=GROUP, resource_name=group, configs=[config]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    return int((await client.request(request, 1)).responses[0].error_code)


async def configs(client: Client, group: str = "g") -> dict[str, Any]:
    resource = DescribeConfigsResource(resource_type=GROUP, resource_name=group, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    answer = (await client.request(request, 4)).results[0]
    assert answer.error_code == 0
    return {config.name: config for config in answer.configs}


@with_broker(group_share_record_lock_duration_ms="20000")
async def test_a_group_has_the_node_s_values_until_it_sets_its_own(client: Client) -> None:
    assert (await configs(client))["share.record.lock.duration.ms"].value == "20000"
    assert await alter(client, "share.record.lock.duration.ms", "45000") == 0
    found = (await configs(client))["share.record.lock.duration.ms"]
    assert (found.value, [synonym.value for synonym in found.synonyms]) == ("45000", ["45000", "20000", "30000"])
    assert (await configs(client, "other"))["share.record.lock.duration.ms"].value == "20000"
    assert await alter(client, "share.record.lock.duration.ms", None, operation=1) == 0
    assert (await configs(client))["share.record.lock.duration.ms"].value == "20000"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.record.lock.duration.ms", "14999"),
        ("share.record.lock.duration.ms", "60001"),
        ("share.delivery.count.limit", "1"),
        ("share.delivery.count.limit", "many"),
        ("share.auto.offset.reset", "by_duration:yesterday"),
        ("share.isolation.level", "serializable"),
        ("share.renew.acknowledge.enable", "yes"),
        ("segment.bytes", "1"),
    ],
)
@with_broker()
async def test_what_a_config_cannot_be_is_refused(client: Client, name: str, value: str) -> None:
    assert await alter(client, name, value) == ErrorCode.INVALID_CONFIG


@with_broker()
async def test_all_configs_are_replaced_at_once(client: Client) -> None:
    await alter(client, "share.delivery.count.limit", "3")
    config = alter_configs.AlterableConfig(name="share.auto.offset.reset", value="earliest")
    resource = alter_configs.AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=[config])
    request = alter_configs.AlterConfigsRequest(resources=[resource], validate_only=False)
    assert (await client.request(request, 2)).responses[0].error_code == 0
    found = await configs(client)
    assert found["share.auto.offset.reset"].value == "earliest"
    assert found["share.delivery.count.limit"].value == "5"


def test_configs_outlast_a_restart(tmp_path: Path) -> None:
    async def set_one() -> None:
        async with running(tmp_path) as client:
            await alter(client, "share.isolation.level", "read_committed")

    async def find_it() -> None:
        async with running(tmp_path) as client:
            assert (await configs(client))["share.isolation.level"].value == "read_committed"

    asyncio.run(set_one())
    asyncio.run(find_it())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latest", "latest"),
        ("by_duration:PT1H", timedelta(hours=1)),
        ("by_duration:P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
    ],
)
def test_where_a_group_begins(text: str, expected: str | timedelta) -> None:
    assert parse_offset_reset(text) == expected
    for wrong in ("by_duration:P", "by_duration:PT", "by_duration:-PT1H", "by_duration:", "none"):
        with pytest.raises(ValueError, match="by_duration"):
            parse_offset_reset(wrong)
