"""A wall clock that jumps by a year, either way: nobody is put out, no transaction ends, nothing committed is lost.

Retention goes by the wall clock, as in Apache Kafka: a jump forwards ends the time of what is stored.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainstem.log.node.retention import Retention
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_topics import CreatableTopicConfig, CreateTopicsRequest
from mainstem.protocol.messages.heartbeat import HeartbeatRequest
from mainstem.testing.clock import ManualClock
from tests.broker.handlers.test_groups import commit, committed, join, sync
from tests.broker.handlers.test_topics import creatable
from tests.broker.harness import running
from tests.broker.transactions.producer import Producer, visible

SETTINGS = {"log.message.timestamp.after.max.ms": str(2**63 - 1)}  # the test's producers have a clock of their own
YEAR_MS = 365 * 24 * 3600 * 1000
RETENTION_MS = 7 * 24 * 3600 * 1000
JUMPS = pytest.mark.parametrize("jump_ms", [YEAR_MS, -YEAR_MS], ids=["forwards", "back"])


@JUMPS
def test_members_transactions_and_their_offsets_outlast_a_jump(tmp_path: Path, jump_ms: int) -> None:
    clock = ManualClock()

    async def main() -> None:
        async with running(tmp_path / "data", SETTINGS, clock=clock) as client:
            await client.create_topic("t")
            joined = await join(client)
            assert (await sync(client, joined)).error_code == ErrorCode.NONE
            assert await commit(client, 5, joined=joined) == ErrorCode.NONE
            producer = await Producer(client).ready()
            await producer.send("t", b"before")
            node = client.broker.node
            clock.set_time_ms(clock.time_ms() + jump_ms)
            node.transactions.expire()
            node.transactions.expire_ids()
            for _ in node.groups.expire_offsets(clock.time_ms(), RETENTION_MS):
                await asyncio.sleep(0)
            beat = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
            assert (await client.request(beat, 4)).error_code == ErrorCode.NONE
            await producer.send("t", b"after")
            await producer.commit()
            assert await visible(client, "t") == [b"before", b"after"]
            assert (await committed(client))[0] == 5
        async with running(tmp_path / "data", SETTINGS, clock=clock) as client:
            assert await visible(client, "t") == [b"before", b"after"]
            assert (await committed(client))[0] == 5
            producer.client = client
            await producer.send("t", b"restarted")
            await producer.commit()
            assert await visible(client, "t") == [b"before", b"after", b"restarted"]

    asyncio.run(main())


@JUMPS
def test_a_topic_with_the_brokers_own_times_keeps_its_order_over_a_jump(tmp_path: Path, jump_ms: int) -> None:
    clock = ManualClock()

    async def main() -> None:
        async with running(tmp_path / "data", SETTINGS, clock=clock) as client:
            topic = creatable("t", 1)
            topic.configs = [CreatableTopicConfig(name="message.timestamp.type", value="LogAppendTime")]
            assert (await client.request(CreateTopicsRequest(topics=[topic]), 7)).topics[0].error_code == 0
            for number in range(4):
                assert (await client.produce("t", b"%d" % number)).base_offset == number
                clock.set_time_ms(clock.time_ms() + (jump_ms if number == 1 else 1000))
            log = client.broker.node.topics.partition("t", 0)
            found = log.offset_for_timestamp(clock.time_ms() - 1000)
            assert found is not None
            assert found.offset == (3 if jump_ms > 0 else 0)
        async with running(tmp_path / "data", SETTINGS, clock=clock) as client:
            assert await client.values("t") == [b"0", b"1", b"2", b"3"]

    asyncio.run(main())


@JUMPS
def test_retention_goes_by_the_clock_and_offsets_go_on(tmp_path: Path, jump_ms: int) -> None:
    clock = ManualClock()
    large = [bytes([number]) * 700_000 for number in range(4)]  # a segment each

    async def main() -> None:
        async with running(tmp_path / "data", {"log.segment.bytes": str(1 << 20)}, clock=clock) as client:
            topic = creatable("t", 1)
            topic.configs = [CreatableTopicConfig(name="message.timestamp.type", value="LogAppendTime")]
            assert (await client.request(CreateTopicsRequest(topics=[topic]), 7)).topics[0].error_code == 0
            for value in large[:3]:
                assert (await client.produce("t", value)).error_code == ErrorCode.NONE
            node = client.broker.node
            retention = Retention(node.log.directory, clock, node.log.config_of)
            before_ms = clock.time_ms()
            for now_ms in (before_ms + jump_ms, before_ms):
                clock.set_time_ms(now_ms)
                for _ in retention.round():
                    await asyncio.sleep(0)
            start = node.topics.partition("t", 0).log_start_offset
            assert start == (3 if jump_ms > 0 else 0)
            assert (await client.produce("t", large[3])).base_offset == 3
        async with running(tmp_path / "data", {}, clock=clock) as client:
            assert client.broker.node.topics.partition("t", 0).log_start_offset == start
            for offset in range(start, 4):
                assert (await client.values("t", offset))[:1] == [large[offset]]

    asyncio.run(main())
