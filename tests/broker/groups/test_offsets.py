"""When committed offsets expire (KIP-211), and that the node forgets them."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.groups.classic.classic_group import ClassicGroup, GroupState, Member
from mainstem.broker.groups.consumer.consumer_group import ConsumerGroup, ConsumerMember
from mainstem.broker.groups.group_types import Group
from mainstem.broker.groups.offsets.offsets import expired
from mainstem.broker.groups.records import CommittedOffset, OffsetKey, offset_record, read_offset_change
from mainstem.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mainstem.testing import ManualClock
from tests.broker.handlers.test_groups import committed, join, sync
from tests.broker.harness import Client, running, until

RETENTION_MS = 1000


def subscription(*topics: str) -> bytes:
    parts = [struct.pack(">h", len(topic)) + topic.encode() for topic in topics]
    return struct.pack(">hi", 1, len(topics)) + b"".join(parts) + b"\xff\xff\xff\xff" + bytes(4)


def classic(state: GroupState, *topics: str, since_ms: int = -1, protocol_type: str | None = "consumer") -> Group:
    group = ClassicGroup("g", state, protocol_type=protocol_type, protocol="range", state_timestamp_ms=since_ms)
    if topics:
        group.add(Member("m", None, "", "", 1, 1, protocol_type or "", [("range", subscription(*topics))]))
    return group


def consumer(*topics: str) -> Group:
    group = ConsumerGroup("g")
    if topics:
        group.put(ConsumerMember("m", topic_names=frozenset(topics)))
    return group


@pytest.mark.parametrize(
    ("group", "offset_ms", "expires_at_ms"),
    [
        (classic(GroupState.EMPTY, since_ms=5000), 2000, 6000),
        (classic(GroupState.EMPTY, since_ms=5000), 5500, 6500),
        (classic(GroupState.EMPTY, protocol_type=None), 2000, 3000),
        (classic(GroupState.STABLE, "t"), 2000, None),
        (classic(GroupState.STABLE, "other"), 2000, 3000),
        (classic(GroupState.PREPARING_REBALANCE, "other"), 2000, None),
        (classic(GroupState.STABLE, "other", protocol_type="connect"), 2000, None),
        (consumer("t"), 2000, None),
        (consumer("other"), 2000, 3000),
        (consumer(), 2000, 3000),
    ],
)
def test_an_offset_expires_when_nobody_uses_it(group: Group, offset_ms: int, expires_at_ms: int | None) -> None:
    held = {("t", 0): CommittedOffset(7, -1, "", offset_ms)}
    if expires_at_ms is None:
        assert expired(group, held, 10**12, RETENTION_MS) == []
    else:
        assert expired(group, held, expires_at_ms - 1, RETENTION_MS) == []
        assert expired(group, held, expires_at_ms, RETENTION_MS) == [OffsetKey("g", "t", 0)]


def test_a_client_may_say_when_its_offset_expires() -> None:
    committed_offset = CommittedOffset(7, -1, "note", 2000, 2500)
    record = offset_record(OffsetKey("g", "t", 0), committed_offset)
    assert read_offset_change(record.key, record.value).committed == committed_offset
    held = {("t", 0): committed_offset}
    assert expired(consumer(), held, 2499, RETENTION_MS) == []
    assert len(expired(consumer(), held, 2500, RETENTION_MS)) == 1


async def commit(client: Client, **more: Any) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    body = OffsetCommitRequest(group_id="g", member_id="", topics=topics, **more)
    return int((await client.request(body, 4)).topics[0].partitions[0].error_code)


def test_the_node_forgets_old_offsets_and_their_group(tmp_path: Path) -> None:
    clock = ManualClock()
    settings = {"offsets.retention.check.interval.ms": "10", "offsets.retention.minutes": "1"}

    async def scenario() -> None:
        async with running(tmp_path / "data", settings, clock=clock) as client:
            await client.create_topic("t")
            assert await commit(client) == 0
            groups = client.broker.node.groups
            clock.advance(59)
            await sync(client, await join(client, group="other"), group="other")
            assert (await committed(client))[0] == 7
            clock.advance(1)
            await until(lambda: groups.group("g") is None)
            assert (await committed(client))[0] == -1
            assert [group.group_id for group in groups.groups()] == ["other"]
        async with running(tmp_path / "data", clock=clock) as client:
            assert (await committed(client))[0] == -1

    asyncio.run(scenario())
