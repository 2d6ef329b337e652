"""Configs that an earlier version stored and today's rules would refuse: the node starts, and they hold."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainstem.log.files.disk import OsDisk
from mainstem.log.node.node_log import NodeLog
from mainstem.protocol.errors import ErrorCode
from mainstem.testing.clock import ManualClock
from tests.broker.handlers.test_configs import BROKER, SET, TOPIC, change, described
from tests.broker.harness import running
from tests.broker.test_group_configs import alter, configs


def _store(data_dir: Path) -> None:
    """What an earlier version wrote: numbers as Python reads them."""
    node = NodeLog.open(OsDisk(), ManualClock(), data_dir, {})
    node.metadata.create_topic(
        "t", 1, {"segment.bytes": "1_000", "retention.ms": "9_000_000_000_000", "min.cleanable.dirty.ratio": "0.2_5"}
    )
    node.metadata.put_entries("broker-config", {("",): {"message.max.bytes": "2_000"}, ("1",): {"log.roll.ms": "7_0"}})
    node.metadata.put_entries("group configs", {("g",): {"share.record.lock.duration.ms": "45_000"}})
    node.close()


def test_numbers_that_were_taken_once_hold_after_a_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as client:
            topic = await described(client, TOPIC, "t")
            names = ("segment.bytes", "retention.ms", "min.cleanable.dirty.ratio", "max.message.bytes", "segment.ms")
            assert [topic[name].value for name in names] == ["1000", "9000000000000", "0.25", "2000", "70"]
            assert (await described(client, BROKER, "1"))["log.roll.ms"].value == "70"
            assert (await configs(client))["share.record.lock.duration.ms"].value == "45000"
            assert await client.values("t") == []
            assert (await client.produce("t", b"x" * 3000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert (await client.produce("t", b"x" * 300)).error_code == 0

    _store(tmp_path)
    asyncio.run(scenario())


def test_other_configs_are_set_beside_them_and_new_ones_are_held_to_the_rules(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as client:
            assert await change(client, TOPIC, "t", ("retention.bytes", SET, "5")) == 0
            assert await change(client, BROKER, "", ("num.partitions", SET, "1")) == ErrorCode.INVALID_REQUEST
            assert await change(client, BROKER, "", ("log.retention.bytes", SET, "7")) == 0
            assert await alter(client, "share.delivery.count.limit", "3") == 0
            assert await change(client, TOPIC, "t", ("retention.ms", SET, "1_000")) == ErrorCode.INVALID_CONFIG
            assert await change(client, BROKER, "", ("message.max.bytes", SET, "1_000")) == ErrorCode.INVALID_CONFIG
            assert await alter(client, "share.record.lock.duration.ms", "45_000") == ErrorCode.INVALID_CONFIG

    _store(tmp_path)
    asyncio.run(scenario())
