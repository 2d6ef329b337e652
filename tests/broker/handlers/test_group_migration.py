"""Groups that change their protocol while members are there, over the wire: as admins see it, and over restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.groups.classic.classic_group import GroupState
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.describe_groups import DescribeGroupsRequest
from mainstem.protocol.messages.heartbeat import HeartbeatRequest
from mainstem.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mainstem.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from mainstem.protocol.messages.list_groups import ListGroupsRequest
from mainstem.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.groups.test_mixed_groups import embedded, given_bytes
from tests.broker.handlers.test_consumer_groups import beat, commit, described, fetched
from tests.broker.harness import Client, running, with_broker


def join_request(member_id: str = "", instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=embedded(["t"]))],
    )


async def join(client: Client, member_id: str = "", instance: str | None = None) -> Any:
    answer = await client.request(join_request(member_id, instance), 9)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return await join(client, answer.member_id)
    return answer


async def sync(client: Client, joined: Any, assignment: bytes = b"") -> Any:
    leads = joined.leader == joined.member_id
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)] if leads else (),
    )
    return await client.request(request, 5)


async def live(client: Client, joined: Any) -> int:
    request = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
    return int((await client.request(request, 4)).error_code)


async def leave(client: Client, member_id: str) -> int:
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    return int((await client.request(request, 5)).members[0].error_code)


async def type_of(client: Client) -> tuple[str, str]:
    (listed,) = (await client.request(ListGroupsRequest(), 5)).groups
    return listed.group_type, listed.group_state


async def classic_member(client: Client, **more: Any) -> Any:
    """A stable classic group of one member, which has both partitions of the topic."""
    await client.create_topic("t", 2)
    joined = await join(client, **more)
    assert (await sync(client, joined, given_bytes(t=[0, 1]))).error_code == 0
    return joined


@with_broker()
async def test_a_group_is_upgraded_by_the_first_and_downgraded_by_the_last_of_the_new_protocol(client: Client) -> None:
    old = await classic_member(client)
    new = await beat(client, "new", 0)
    assert (new.error_code, new.member_epoch, new.assignment.topic_partitions) == (0, 2, [])
    assert await type_of(client) == ("consumer", "Reconciling")
    members = {member.member_id: member for member in (await described(client)).members}
    assert [members[each].member_type for each in (old.member_id, "new")] == [0, 1]
    (seen,) = (await client.request(DescribeGroupsRequest(groups=["g"]), 6)).groups
    assert seen.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert await commit(client, 5, old.member_id, old.generation_id) == 0
    assert await live(client, old) == ErrorCode.REBALANCE_IN_PROGRESS
    again = await join(client, old.member_id)
    assert (again.generation_id, again.members, again.leader) == (2, [], "")
    assert (await sync(client, again)).assignment in (given_bytes3(t=[0]), given_bytes3(t=[1]))
    assert await live(client, again) == 0
    assert (await beat(client, "new", 2, topic_partitions=())).assignment.topic_partitions
    await beat(client, "new", -1)
    assert await type_of(client) == ("classic", "PreparingRebalance")
    assert await live(client, again) == ErrorCode.REBALANCE_IN_PROGRESS
    last = await join(client, old.member_id)
    assert (last.generation_id, last.leader) == (3, old.member_id)
    assert (await sync(client, last, given_bytes(t=[0, 1]))).error_code == 0
    assert await type_of(client) == ("classic", "Stable")
    assert await fetched(client) == (0, [5])


def given_bytes3(**topics: list[int]) -> bytes:
    """An assignment in the version of the member's subscription."""
    return b"\0\3" + given_bytes(**topics)[2:]


@with_broker()
async def test_a_member_that_waits_for_the_others_is_asked_to_join_again(client: Client) -> None:
    old = await classic_member(client)
    waits = await Client(client.address, client.broker).connect()
    asked = await waits.request(join_request(), 9)
    waiting = asyncio.ensure_future(waits.request(join_request(asked.member_id), 9))
    while await live(client, old) != ErrorCode.REBALANCE_IN_PROGRESS:
        await asyncio.sleep(0)
    await beat(client, "new", 0)
    assert (await waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert (await join(waits, asked.member_id)).error_code == 0
    waits.close()


@with_broker()
async def test_the_last_member_of_the_new_protocol_is_fenced_or_removed(client: Client) -> None:
    old = await classic_member(client)
    for name in ("fenced", "removed"):
        await beat(client, name, 0)
        old = await join(client, old.member_id)
        if name == "fenced":
            client.broker.node.groups.group("g").sessions[name] = 0.0
            client.broker.node.groups.consumer._expire("g")
        else:
            assert await leave(client, name) == 0
        assert await type_of(client) == ("classic", "PreparingRebalance")
        old = await join(client, old.member_id)
        await sync(client, old, given_bytes(t=[0, 1]))
        assert await live(client, old) == 0


@with_broker()
async def test_a_classic_member_leaves_a_mixed_group(client: Client) -> None:
    old = await classic_member(client)
    await beat(client, "new", 0)
    assert await leave(client, old.member_id) == 0
    assert [member.member_id for member in (await described(client)).members] == ["new"]
    assert await live(client, old) == ErrorCode.UNKNOWN_MEMBER_ID


@with_broker()
async def test_members_of_both_protocols_that_come_at_once_all_get_in(client: Client) -> None:
    """Requests of several connections are read in one turn of the event loop, and each changes the same group."""
    old = await classic_member(client)
    await beat(client, "new", 0)
    others = [await client.another() for _ in range(3)]
    for number in range(10):
        await asyncio.gather(
            beat(others[0], f"before {number}", 0),
            client.request(join_request(old.member_id), 9),
            beat(others[1], f"after {number}", 0),
            join(others[2]),
        )
    members = (await described(client)).members
    assert sorted(member.member_type for member in members) == [0] * 11 + [1] * 21
    for other in others:
        other.close()


@with_broker()
async def test_requests_of_the_classic_protocol_find_the_group_of_the_type_that_it_has_meanwhile(
    client: Client,
) -> None:
    old, other = await classic_member(client), await client.another()
    for request in (sync, leave, join):
        await beat(client, "new", 0)
        old = await join(client, old.member_id)
        asked = old if request is sync else "unknown" if request is leave else old.member_id
        await asyncio.gather(beat(other, "new", -1), request(client, asked))
        old = await join(client, old.member_id)
        assert (await sync(client, old, given_bytes(t=[0, 1]))).error_code == 0
        assert await type_of(client) == ("classic", "Stable")
    other.close()


@with_broker()
async def test_a_static_member_takes_its_place_over_the_protocols(client: Client) -> None:
    await classic_member(client, instance="one")
    new = await beat(client, "new", 0, instance_id="one")
    assert (new.error_code, sum(len(each.partitions) for each in new.assignment.topic_partitions)) == (0, 2)
    assert (await type_of(client))[0] == "consumer"
    back = await join(client, instance="one")
    assert (back.error_code, back.generation_id) == (0, new.member_epoch)
    assert await type_of(client) == ("classic", "Stable")
    assert (await sync(client, back)).assignment == given_bytes3(t=[0, 1])


@with_broker()
async def test_a_static_member_that_takes_the_last_place_with_news_begins_a_rebalance(client: Client) -> None:
    await client.create_topic("t", 2)
    new = await beat(client, "new", 0, instance_id="one", subscribed_topic_names=["t", "u"])
    back = await join(client, instance="one")
    assert (back.error_code, back.generation_id) == (0, new.member_epoch)
    assert await type_of(client) == ("classic", "PreparingRebalance")
    assert (await sync(client, back)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("policy", ["disabled", "upgrade", "downgrade"])
def test_a_policy_keeps_a_group_as_it_is(tmp_path: Path, policy: str) -> None:
    async def main() -> None:
        async with running(tmp_path, {"group.consumer.migration.policy": policy}) as client:
            old = await classic_member(client)
            new = await beat(client, "new", 0)
            if policy != "upgrade":
                assert (new.error_code, await live(client, old)) == (ErrorCode.GROUP_ID_NOT_FOUND, 0)
                assert policy in new.error_message
                await leave(client, old.member_id)
                await beat(client, "new", 0)
                refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL if policy == "disabled" else ErrorCode.NONE
                assert (await join(client)).error_code == refused
                return
            old = await join(client, old.member_id)
            await beat(client, "new", -1)
            assert (await type_of(client))[0] == "consumer"
            old = await join(client, old.member_id)
            assert (await sync(client, old)).assignment == given_bytes3(t=[0, 1])

    asyncio.run(main())


def test_a_restart_in_the_middle_of_an_upgrade_and_of_a_downgrade(tmp_path: Path) -> None:
    old: Any = None

    async def upgrade() -> None:
        nonlocal old
        async with running(tmp_path) as client:
            old = await classic_member(client)
            await beat(client, "new", 0)

    async def go_on() -> None:
        nonlocal old
        async with running(tmp_path) as client:
            assert await type_of(client) == ("consumer", "Reconciling")
            assert [member.member_type for member in (await described(client)).members] == [0, 1]
            assert client.broker.node.groups.group("g").next_deadline_s() < client.broker.node.clock.monotonic_s() + 11
            assert await live(client, old) == ErrorCode.REBALANCE_IN_PROGRESS
            old = await join(client, old.member_id)
            assert len((await sync(client, old)).assignment) == len(given_bytes3(t=[0]))
            await beat(client, "new", -1)

    async def end() -> None:
        async with running(tmp_path) as client:
            # The rebalance that the downgrade began is not in the log, and begins again.
            assert client.broker.node.groups.group("g").state is GroupState.PREPARING_REBALANCE
            assert await live(client, old) == ErrorCode.REBALANCE_IN_PROGRESS
            last = await join(client, old.member_id)
            assert (await sync(client, last, given_bytes(t=[0, 1]))).error_code == 0
            assert await type_of(client) == ("classic", "Stable")

    for part in (upgrade, go_on, end):
        asyncio.run(part())
