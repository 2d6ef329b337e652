"""Streams groups (KIP-1071) over the wire: heartbeats, internal topics, descriptions, offsets, rights and restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import streams_group_heartbeat as messages
from mainstem.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.protocol.messages.list_groups import ListGroupsRequest
from mainstem.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tests.broker.groups.test_streams_steps import active_of
from tests.broker.groups.test_topology import info, subtopology
from tests.broker.handlers.test_consumer_groups import beat as beat_consumer
from tests.broker.handlers.test_consumer_groups import commit, fetched
from tests.broker.harness import Client, running, with_broker

TOPOLOGY = messages.Topology(
    epoch=0,
    subtopologies=[
        subtopology("0", "t", sinks=["by-key"]),
        subtopology("1", repartitions=[info("by-key", cleanup_policy="delete")], logs=["counts"]),
    ],
)


async def beat(client: Client, member_id: str, epoch: int, **more: Any) -> Any:
    request = messages.StreamsGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, **{"endpoint_information_epoch": 0, **more}
    )
    return await client.request(request, 0)


async def join(client: Client, member_id: str, topology: messages.Topology = TOPOLOGY) -> Any:
    more = {"rebalance_timeout_ms": 60_000, "topology": topology, "process_id": f"p-{member_id}"}
    return await beat(client, member_id, 0, active_tasks=(), standby_tasks=(), warmup_tasks=(), **more)


async def described(client: Client) -> Any:
    asked = StreamsGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
    return (await client.request(asked, 0)).groups[0]


async def type_of(client: Client) -> tuple[str, str]:
    (listed,) = (await client.request(ListGroupsRequest(), 5)).groups
    return listed.group_type, listed.group_state


@with_broker()
async def test_a_member_gets_its_tasks_and_the_topics_that_they_need(client: Client) -> None:
    await client.create_topic("t", 2)
    answer = await join(client, "m")
    assert (answer.error_code, list(answer.status)) == (ErrorCode.NONE, [])
    assert active_of(answer) == {("0", 0), ("0", 1), ("1", 0), ("1", 1)}
    topics = client.broker.node.topics
    assert [len(topics.find(name).partitions) for name in ("by-key", "counts")] == [2, 2]
    assert topics.find("by-key").configs["cleanup.policy"] == "delete"
    assert await type_of(client) == ("streams", "Stable")
    group = await described(client)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert [each.subtopology_id for each in group.topology.subtopologies] == ["0", "1"]
    assert group.topology.subtopologies[1].state_changelog_topics[0].partitions == 2
    (member,) = group.members
    assert (member.member_id, member.process_id, member.member_epoch) == ("m", "p-m", 2)
    assert [(each.subtopology_id, list(each.partitions)) for each in member.assignment.active_tasks] == [
        ("0", [0, 1]),
        ("1", [0, 1]),
    ]


@with_broker()
async def test_a_topic_that_cannot_be_made_is_said(client: Client) -> None:
    await client.create_topic("t", 2)
    wrong = messages.Topology(
        epoch=0, subtopologies=[subtopology("0", "t"), subtopology("1", repartitions=[info("no name!", 1)])]
    )
    (status,) = (await join(client, "m", wrong)).status
    assert status.status_code == 3
    assert "topic no name! cannot be created" in status.status_detail


@with_broker()
async def test_offsets_of_a_member_are_committed_at_its_epoch(client: Client) -> None:
    await client.create_topic("t", 2)
    epoch = (await join(client, "m")).member_epoch
    assert await commit(client, 5, "m", epoch) == ErrorCode.NONE
    assert await fetched(client, "m", epoch) == (ErrorCode.NONE, [5])
    assert await commit(client, 6, "m", epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit(client, 6, "other", epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await fetched(client, "m", epoch + 1))[0] == ErrorCode.STALE_MEMBER_EPOCH
    assert await fetched(client) == (ErrorCode.NONE, [5])


@with_broker()
async def test_the_group_is_of_one_type_and_is_deleted_when_it_is_empty(client: Client) -> None:
    await client.create_topic("t", 2)
    await join(client, "m")
    assert (await beat_consumer(client, "c", 0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    asked = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
    assert (await client.request(asked, 1)).groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    delete = DeleteGroupsRequest(groups_names=["g"])
    assert (await client.request(delete, 2)).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert (await beat(client, "m", -1)).member_epoch == -1
    assert await type_of(client) == ("streams", "Empty")
    assert (await client.request(delete, 2)).results[0].error_code == ErrorCode.NONE
    assert (await described(client)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await beat(client, "m", 2)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("leaves", [False, True])
def test_a_restart_finds_the_group_as_it_was(tmp_path: Path, leaves: bool) -> None:
    async def main() -> None:
        async with running(tmp_path / "data") as client:
            await client.create_topic("t", 2)
            epoch = (await join(client, "m")).member_epoch
            await commit(client, 5, "m", epoch)
            if leaves:
                await beat(client, "m", -1)
            before = await described(client)
        async with running(tmp_path / "data") as client:
            assert await described(client) == before
            if not leaves:
                again = await beat(client, "m", epoch)
                assert (again.error_code, again.member_epoch, again.active_tasks) == (ErrorCode.NONE, epoch, None)
            assert await fetched(client) == (ErrorCode.NONE, [5])

    asyncio.run(main())
