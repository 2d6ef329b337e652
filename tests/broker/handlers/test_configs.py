"""Configs of topics and of the node over the wire: what is listed, what can be changed, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.configs.broker_config import SETTINGS
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import alter_configs, incremental_alter_configs
from mainstem.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.broker.harness import Client, running, with_broker

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


async def change(
    client: Client, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> int:
    """The error code that the change of one resource's configs is answered with."""
    configs = [
        incremental_alter_configs.AlterableConfig(name=config, config_operation=operation, value=value)
        for config, operation, value in changes
    ]
    asked = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[asked], validate_only=validate_only)
    (response,) = (await client.request(request, 1)).responses
    return int(response.error_code)


async def replace(client: Client, kind: int, name: str, *values: tuple[str, str | None]) -> int:
    configs = [alter_configs.AlterableConfig(name=config, value=value) for config, value in values]
    asked = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = alter_configs.AlterConfigsRequest(resources=[asked], validate_only=False)
    (response,) = (await client.request(request, 2)).responses
    return int(response.error_code)


async def described(client: Client, kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True, include_documentation=True)
    (result,) = (await client.request(request, 4)).results
    assert result.error_code == 0, result
    return {config.name: config for config in result.configs}


@with_broker()
async def test_a_list_of_no_names_describes_all_configs(client: Client) -> None:
    assert await described(client, BROKER, "1", []) == await described(client, BROKER, "1")
    assert (await described(client, BROKER, "1", ["num.partitions"])).keys() == {"num.partitions"}


@with_broker()
async def test_every_setting_is_listed_with_type_and_documentation(client: Client) -> None:
    entries = await described(client, BROKER, "1")
    changeable = client.broker.node.configs.changeable
    assert {"max.connections", "log.retention.ms"} < changeable
    assert entries.keys() == SETTINGS.keys()
    for name, entry in entries.items():
        assert entry.documentation
        assert entry.config_type > 0
        assert entry.read_only == (name not in changeable)
        assert [(each.name, each.source) for each in entry.synonyms][-1] == (name, 5)


@with_broker()
async def test_a_default_of_topics_changes_while_the_node_runs(client: Client) -> None:
    await client.create_topic("t")
    assert await change(client, BROKER, "", ("message.max.bytes", SET, "200")) == 0
    assert (await client.produce("t", b"x" * 300)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert await change(client, BROKER, "1", ("message.max.bytes", SET, "2000")) == 0
    assert (await client.produce("t", b"x" * 300)).error_code == 0
    entry = (await described(client, TOPIC, "t"))["max.message.bytes"]
    assert [(each.value, each.source) for each in entry.synonyms] == [("2000", 2), ("200", 3), ("1048588", 5)]
    assert (entry.value, entry.config_source) == ("2000", 2)
    assert await change(client, BROKER, "1", ("message.max.bytes", DELETE, None)) == 0
    assert (await client.produce("t", b"x" * 300)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (await described(client, BROKER, "")).keys() == {"message.max.bytes"}


def test_what_was_set_while_the_node_ran_outlasts_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = {"max.connections": "50", "log.retention.ms": "1000"}
        async with running(tmp_path / "data", settings) as client:
            assert await change(client, BROKER, "1", ("max.connections", SET, "60")) == 0
            assert client.broker.node.network.connections_max == 60
            assert await change(client, BROKER, "", ("log.retention.ms", SET, "2000")) == 0
        async with running(tmp_path / "data", settings) as client:
            assert client.broker.node.network.connections_max == 60
            await client.create_topic("t")
            assert client.broker.node.topics.partition("t", 0).config.retention_ms == 2000
            entry = (await described(client, BROKER, "1"))["max.connections"]
            assert [(each.value, each.source) for each in entry.synonyms] == [("60", 2), ("50", 4), ("10000", 5)]

    asyncio.run(scenario())


def test_retention_may_be_given_in_hours_and_minutes(tmp_path: Path) -> None:
    async def scenario(expected_ms: int, **settings: str) -> None:
        texts = {name.replace("_", "."): value for name, value in settings.items()}
        async with running(tmp_path / str(expected_ms), texts) as client:
            await client.create_topic("t")
            assert client.broker.node.topics.partition("t", 0).config.retention_ms == expected_ms
            assert (await described(client, TOPIC, "t"))["retention.ms"].value == str(expected_ms)

    asyncio.run(scenario(3_600_000, log_retention_hours="1"))
    asyncio.run(scenario(120_000, log_retention_hours="1", log_retention_minutes="2"))
    asyncio.run(scenario(3, log_retention_hours="1", log_retention_minutes="2", log_retention_ms="3"))
    asyncio.run(scenario(-1, log_retention_hours="-1"))


@pytest.mark.parametrize(
    ("name", "changes", "code"),
    [
        ("1", [("num.partitions", SET, "2")], ErrorCode.INVALID_REQUEST),  # read once, at the start
        ("1", [("socket.request.max.bytes", SET, "2")], ErrorCode.INVALID_REQUEST),
        ("1", [("nope", SET, "2")], ErrorCode.INVALID_CONFIG),
        ("1", [("message.max.bytes", SET, "many")], ErrorCode.INVALID_CONFIG),
        ("7", [("message.max.bytes", SET, "2")], ErrorCode.INVALID_REQUEST),  # another node
    ],
)
@with_broker()
async def test_a_setting_that_cannot_be_changed_is_refused(
    client: Client, name: str, changes: list[tuple[str, int, str | None]], code: int
) -> None:
    before = await described(client, BROKER, "1")
    assert await change(client, BROKER, name, *changes) == code
    assert await described(client, BROKER, "1") == before


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        ([("nope", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("nope", DELETE, None)], 0),
        ([("segment.bytes", SET, "1048575")], ErrorCode.INVALID_CONFIG),
        ([("internal.segment.bytes", SET, "100000")], 0),
        ([("segment.index.bytes", SET, "4")], 0),
        ([("retention.bytes", SET, "-5")], 0),
        ([("retention.ms", SET, "1_000")], ErrorCode.INVALID_CONFIG),
        ([("local.retention.ms", SET, "-2")], 0),
        ([("remote.log.copy.disable", SET, "true")], 0),
        ([("remote.storage.enable", SET, "true")], ErrorCode.INVALID_CONFIG),
        ([("leader.replication.throttled.replicas", SET, "0:1,1:1")], 0),
        ([("leader.replication.throttled.replicas", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("min.compaction.lag.ms", SET, "2"), ("max.compaction.lag.ms", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", APPEND, "compact")], 0),
        ([("cleanup.policy", SUBTRACT, "delete")], 0),  # nothing removes records then
    ],
)
@with_broker()
async def test_changes_of_a_topics_configs_are_answered_as_by_kafka(
    client: Client, changes: list[tuple[str, int, str | None]], code: int
) -> None:
    await client.create_topic("t")
    assert await change(client, TOPIC, "t", *changes) == code


@with_broker()
async def test_validating_changes_nothing(client: Client) -> None:
    await client.create_topic("t")
    for kind, name, config in ((TOPIC, "t", "retention.ms"), (BROKER, "1", "log.retention.ms")):
        before = await described(client, kind, name)
        assert await change(client, kind, name, (config, SET, "5"), validate_only=True) == 0
        assert await described(client, kind, name) == before


@with_broker()
async def test_replacing_takes_back_what_is_not_given(client: Client) -> None:
    await client.create_topic("t")
    assert await replace(client, TOPIC, "t", ("retention.ms", "5"), ("flush", "os")) == 0
    assert await replace(client, TOPIC, "t", ("flush", "os")) == 0
    entries = await described(client, TOPIC, "t")
    assert (entries["retention.ms"].value, entries["flush"].value) == ("604800000", "os")
    assert await replace(client, TOPIC, "t", ("flush", "os"), ("flush", "commit")) == ErrorCode.INVALID_REQUEST
    assert await replace(client, TOPIC, "t", ("flush", None)) == ErrorCode.INVALID_REQUEST


@with_broker()
async def test_a_resource_that_stands_twice_is_refused_twice(client: Client) -> None:
    await client.create_topic("t")
    asked = incremental_alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[])
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[asked, asked], validate_only=False)
    response = await client.request(request, 1)
    assert [each.error_code for each in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
