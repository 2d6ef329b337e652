"""Groups over the wire: rebalances, committed offsets, what admins see, and all of it after a restart."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.groups.classic.classic_group import GroupState
from mainstem.broker.groups.group_types import CommitCheck
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest
from mainstem.protocol.messages.describe_groups import DescribeGroupsRequest
from mainstem.protocol.messages.heartbeat import HeartbeatRequest
from mainstem.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mainstem.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from mainstem.protocol.messages.list_groups import ListGroupsRequest
from mainstem.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mainstem.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from mainstem.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from mainstem.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.harness import Client, running, with_broker


def join_request(member_id: str = "", *, group: str = "g", session_ms: int = 10_000, **more: Any) -> JoinGroupRequest:
    more.setdefault("protocols", [JoinGroupRequestProtocol(name="range", metadata=b"meta")])
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        **more,
    )


async def join(client: Client, member_id: str = "", **more: Any) -> Any:
    """Join until the member is in a generation."""
    answer = await client.request(join_request(member_id, **more), 7)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await client.request(join_request(answer.member_id, **more), 7)
    return answer


async def sync(client: Client, joined: Any, group: str = "g", **assignments: bytes) -> Any:
    """Sync; the leader gives the assignments, by member id with _ for the dashes, or to itself."""
    given = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")]
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type=joined.protocol_type or "consumer",
        protocol_name=joined.protocol_name or "range",
        assignments=given if joined.leader == joined.member_id else (),
    )
    return await client.request(request, 5)


def commit_request(offset: int, *, group: str = "g", joined: Any = None, **more: Any) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=more.pop("partition", 0),
        committed_offset=offset,
        committed_metadata=more.pop("metadata", "note"),
        committed_leader_epoch=5,
    )
    return OffsetCommitRequest(
        group_id=group,
        member_id=joined.member_id if joined else "",
        generation_id_or_member_epoch=joined.generation_id if joined else -1,
        topics=[OffsetCommitRequestTopic(name=more.pop("topic", "t"), partitions=[partition])],
    )


async def commit(client: Client, offset: int, **more: Any) -> int:
    response = await client.request(commit_request(offset, **more), 7)
    return int(response.topics[0].partitions[0].error_code)


async def committed(client: Client, group: str = "g", partition: int = 0) -> tuple[int, int, str]:
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[partition])]
    response = await client.request(OffsetFetchRequest(group_id=group, topics=topics), 7)
    found = response.topics[0].partitions[0]
    return found.committed_offset, found.committed_leader_epoch, found.metadata


async def described(client: Client, group: str = "g", version: int = 5) -> Any:
    return (await client.request(DescribeGroupsRequest(groups=[group]), version)).groups[0]


@with_broker()
async def test_a_member_joins_syncs_beats_and_leaves(client: Client) -> None:
    joined = await join(client)
    assert (await sync(client, joined)).assignment == b"mine"
    beat = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
    assert (await client.request(beat, 4)).error_code == 0
    leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)])
    assert (await client.request(leaving, 5)).members[0].error_code == 0
    assert (await client.request(beat, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@with_broker()
async def test_a_rebalance_keeps_the_assignments_until_the_next_sync(client: Client) -> None:
    first = await join(client)
    await sync(client, first)
    again = await join(client, first.member_id)
    assert again.generation_id == 2
    group = await described(client)
    assert (group.group_state, group.members[0].member_assignment) == ("CompletingRebalance", b"mine")


@with_broker()
async def test_an_empty_protocol_name_is_null_from_version_7_on(client: Client) -> None:
    joined = await join(client, protocols=[JoinGroupRequestProtocol(name="", metadata=b"meta")])
    assert (joined.error_code, joined.protocol_name) == (0, None)


@with_broker()
async def test_a_second_member_joins_when_the_first_one_joins_again(client: Client) -> None:
    first = await join(client)
    await sync(client, first)
    other = await client.another()
    waiting = asyncio.create_task(join(other))
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=first.member_id)
    while (await client.request(beat, 4)).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
        await asyncio.sleep(0)
    first, second = await asyncio.gather(join(client, first.member_id), waiting)
    assert (first.generation_id, second.generation_id, len(first.members)) == (2, 2, 2)


@with_broker(group_min_session_timeout_ms="50")
async def test_a_member_that_falls_silent_is_out_when_its_session_ends(client: Client) -> None:
    joined = await join(client, session_ms=50)
    await sync(client, joined)
    while client.broker.node.groups.group("g").state is not GroupState.EMPTY:
        await asyncio.sleep(0)
    assert (await described(client)).group_state == "Empty"


@pytest.mark.parametrize("session_ms", [1, 2**31 - 1])
@with_broker()
async def test_a_session_time_out_that_is_out_of_bounds_is_refused(client: Client, session_ms: int) -> None:
    assert (await join(client, session_ms=session_ms)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


@with_broker()
async def test_a_group_without_a_name_is_refused(client: Client) -> None:
    assert (await join(client, group="")).error_code == ErrorCode.INVALID_GROUP_ID


@with_broker()
async def test_who_asks_for_an_id_and_is_not_heard_of_again_leaves_a_group_that_is_forgotten(client: Client) -> None:
    await client.request(join_request(), 7)
    group = client.broker.node.groups.group("g")
    group.pending_members = dict.fromkeys(group.pending_members, 0.0)
    client.broker.node.groups.classic._expire(group.group_id)
    assert [each.state_name for each in client.broker.node.groups.groups()] == ["Empty"]
    for _ in client.broker.node.groups.expire_offsets(now_ms=0, retention_ms=1):
        pass
    assert client.broker.node.groups.groups() == []


@with_broker()
async def test_who_leaves_a_group_that_is_not_there_is_unknown(client: Client) -> None:
    members = [MemberIdentity(member_id="a"), MemberIdentity(member_id="", group_instance_id="i")]
    answer = await client.request(LeaveGroupRequest(group_id="g", members=members), 5)
    assert answer.error_code == 0
    assert [each.error_code for each in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    answer = await client.request(LeaveGroupRequest(group_id="g", member_id="a"), 2)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@with_broker()
async def test_a_sync_names_its_protocol(client: Client) -> None:
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id="a", protocol_type="consumer", assignments=())
    assert (await client.request(request, 5)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (await client.request(request, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@with_broker()
async def test_offsets_without_a_group_s_name_are_kept(client: Client) -> None:
    await client.create_topic("t")
    assert await commit(client, 7, group="") == 0
    response = await client.request(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="", topics=None)]), 8)
    assert response.groups[0].topics[0].partitions[0].committed_offset == 7
    assert (await client.request(DeleteGroupsRequest(groups_names=[""]), 2)).results[0].error_code == 0


@with_broker()
async def test_offsets_come_back_with_their_metadata_and_leader_epoch(client: Client) -> None:
    await client.create_topic("t")
    assert await committed(client) == (-1, -1, "")
    assert await commit(client, 42, metadata="why") == 0
    assert await committed(client) == (42, 5, "why")


@with_broker()
async def test_offsets_are_fetched_for_several_groups_and_all_partitions(client: Client) -> None:
    await client.create_topic("t", 2)
    await commit(client, 1, group="a")
    await commit(client, 2, group="a", partition=1)
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("a", "b")]
    response = await client.request(OffsetFetchRequest(groups=groups), 8)
    found = {
        group.group_id: [partition.committed_offset for topic in group.topics for partition in topic.partitions]
        for group in response.groups
    }
    assert found == {"a": [1, 2], "b": []}


@with_broker()
async def test_offsets_are_committed_and_fetched_by_topic_id(client: Client) -> None:
    await client.create_topic("t")
    topic_id = client.broker.node.topics.find("t").topic_id
    request = commit_request(7)
    request.topics[0].topic_id = topic_id
    assert (await client.request(request, 10)).topics[0].partitions[0].error_code == 0
    topics = [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=topics)]
    response = await client.request(OffsetFetchRequest(groups=groups), 10)
    assert response.groups[0].topics[0].partitions[0].committed_offset == 7


@with_broker(offset_metadata_max_bytes="10")
async def test_each_partition_of_a_commit_fails_alone(client: Client) -> None:
    await client.create_topic("t")
    assert await commit(client, 1, metadata="x" * 11) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert await commit(client, 1, partition=3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(client, 1, topic="u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await committed(client) == (-1, -1, "")
    assert (await client.request(ListGroupsRequest(), 5)).groups == []


@with_broker()
async def test_only_members_of_the_generation_commit_while_the_group_has_members(client: Client) -> None:
    await client.create_topic("t")
    joined = await join(client)
    assert await commit(client, 1, joined=joined) == ErrorCode.REBALANCE_IN_PROGRESS
    await sync(client, joined)
    assert await commit(client, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    joined.generation_id += 1
    assert await commit(client, 1, joined=joined) == ErrorCode.ILLEGAL_GENERATION
    joined.generation_id -= 1
    assert await commit(client, 1, joined=joined) == 0


@with_broker()
async def test_a_commit_with_a_generation_of_an_unknown_group_is_refused(client: Client) -> None:
    await client.create_topic("t")
    joined = await join(client)
    assert await commit(client, 1, group="other", joined=joined) == ErrorCode.ILLEGAL_GENERATION


@with_broker()
async def test_groups_are_listed_by_state_and_type_and_described(client: Client) -> None:
    await client.create_topic("t")
    await sync(client, await join(client, group="members"), group="members")
    await commit(client, 1, group="simple")

    async def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[str]:
        response = await client.request(ListGroupsRequest(states_filter=states, types_filter=types), 5)
        return sorted(group.group_id for group in response.groups)

    assert await listed() == ["members", "simple"]
    assert await listed(states=("stable",)) == ["members"]
    assert await listed(types=("consumer",)) == []
    group = await described(client, "members")
    assert (group.group_state, group.protocol_data, len(group.members)) == ("Stable", "range", 1)
    assert (await described(client, "unknown")).group_state == "Dead"
    assert (await described(client, "unknown", 6)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_broker()
async def test_a_group_is_deleted_with_its_offsets_when_it_has_no_members(client: Client) -> None:
    await client.create_topic("t")
    joined = await join(client)
    await sync(client, joined)
    await commit(client, 1, group="empty")
    request = DeleteGroupsRequest(groups_names=["g", "empty", "unknown"])
    codes = [result.error_code for result in (await client.request(request, 2)).results]
    assert codes == [ErrorCode.NON_EMPTY_GROUP, 0, ErrorCode.GROUP_ID_NOT_FOUND]
    assert await committed(client, "empty") == (-1, -1, "")


@with_broker()
async def test_offsets_are_deleted_partition_by_partition(client: Client) -> None:
    await client.create_topic("t", 2)
    await commit(client, 1)
    await commit(client, 2, partition=1)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name="t", partitions=partitions)]
    response = await client.request(OffsetDeleteRequest(group_id="g", topics=topics), 0)
    assert response.topics[0].partitions[0].error_code == 0
    assert [(await committed(client, partition=number))[0] for number in (0, 1)] == [-1, 2]
    response = await client.request(OffsetDeleteRequest(group_id="none", topics=topics), 0)
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_broker()
async def test_offsets_are_deleted_but_in_topics_that_members_subscribe_to(client: Client) -> None:
    for topic in ("t", "u"):
        await client.create_topic(topic)
        await commit(client, 1, topic=topic)
    subscription = b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00"
    await sync(client, await join(client, protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)]))
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("t", "u")]
    answer = await client.request(OffsetDeleteRequest(group_id="g", topics=topics), 0)
    codes = [topic.partitions[0].error_code for topic in answer.topics]
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]


@with_broker()
async def test_a_member_that_joins_within_a_long_deletion_of_offsets_keeps_its_topic_s(client: Client) -> None:
    await client.create_topic("many", 600)
    await client.create_topic("u")
    await commit(client, 7, topic="u")
    other = await client.another()
    groups = client.broker.node.groups
    delete = groups.delete_offsets

    async def delete_then_join(keys: Any) -> None:
        groups.delete_offsets = delete  # type: ignore[method-assign]
        await delete(keys)
        subscription = b"\x00\x01" + b"\x00\x00\x00\x01" + b"\x00\x01u" + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00"
        await sync(other, await join(other, protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)]))

    groups.delete_offsets = delete_then_join  # type: ignore[method-assign]
    numbers = {"many": range(600), "u": range(1)}
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers[name]]
        )
        for name in numbers
    ]
    answer = await client.request(OffsetDeleteRequest(group_id="g", topics=topics), 0)
    assert answer.topics[1].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    asked = [OffsetFetchRequestTopic(name="u", partition_indexes=[0])]
    fetched = await client.request(OffsetFetchRequest(group_id="g", topics=asked), 7)
    assert fetched.topics[0].partitions[0].committed_offset == 7
    other.close()


@with_broker()
async def test_each_offset_of_a_long_commit_is_answered_as_it_is_stored(client: Client) -> None:
    """The member is refused before the third piece, as after a rebalance: the first two are stored."""
    await client.create_topic("many", 1_200)
    groups = client.broker.node.groups
    check, checks = groups.check_commit, itertools.count()

    def refused_later(*arguments: Any) -> CommitCheck:
        return check(*arguments) if next(checks) < 3 else CommitCheck(ErrorCode.ILLEGAL_GENERATION)

    groups.check_commit = refused_later  # type: ignore[method-assign]
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=5, committed_metadata="")
        for number in range(1_200)
    ]
    topics = [OffsetCommitRequestTopic(name="many", partitions=partitions)]
    asked = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)
    answer = await client.request(asked, 9)
    codes = [each.error_code for each in answer.topics[0].partitions]
    assert codes == [ErrorCode.NONE] * 1_000 + [ErrorCode.ILLEGAL_GENERATION] * 200
    wanted = [OffsetFetchRequestTopic(name="many", partition_indexes=list(range(1_200)))]
    fetched = await client.request(OffsetFetchRequest(group_id="g", topics=wanted), 7)
    stored = [each.committed_offset == 5 for each in fetched.topics[0].partitions]
    assert stored == [True] * 1_000 + [False] * 200


@with_broker()
async def test_what_was_committed_in_a_topic_is_gone_with_it(client: Client) -> None:
    await client.create_topic("t")
    await commit(client, 42)
    await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)
    await client.create_topic("t")
    assert await committed(client) == (-1, -1, "")


def after_restart(
    tmp_path: Path, before: Callable[[Client], Awaitable[Any]], after: Callable[[Client, Any], Awaitable[None]]
) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "data") as client:
            kept = await before(client)
        async with running(tmp_path / "data") as client:
            await after(client, kept)

    asyncio.run(scenario())


def test_committed_offsets_survive_a_restart(tmp_path: Path) -> None:
    async def before(client: Client) -> None:
        await client.create_topic("t")
        for offset in range(20):
            await commit(client, offset, group="a")
            await commit(client, 100 + offset, group="b")

    async def after(client: Client, _: Any) -> None:
        assert (await committed(client, "a"), await committed(client, "b")) == ((19, 5, "note"), (119, 5, "note"))

    after_restart(tmp_path, before, after)


def test_a_member_goes_on_after_a_restart_without_a_rebalance(tmp_path: Path) -> None:
    async def before(client: Client) -> Any:
        joined = await join(client)
        await sync(client, joined)
        return joined

    async def after(client: Client, joined: Any) -> None:
        beat = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        assert (await client.request(beat, 4)).error_code == 0
        assert (await sync(client, joined)).assignment == b"mine"

    after_restart(tmp_path, before, after)


def test_a_deleted_group_stays_deleted_after_a_restart(tmp_path: Path) -> None:
    async def before(client: Client) -> None:
        await client.create_topic("t")
        await commit(client, 1)
        await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)

    async def after(client: Client, _: Any) -> None:
        assert (await client.request(ListGroupsRequest(), 4)).groups == []
        assert await committed(client) == (-1, -1, "")

    after_restart(tmp_path, before, after)


@with_broker()
async def test_clients_of_old_versions_join_commit_and_go_on(client: Client) -> None:
    """As kafka-go does: JoinGroup 2, OffsetCommit 2, OffsetFetch 1, and the others in their first versions."""
    await client.create_topic("t")
    joined = await client.request(join_request(), 2)
    assert (joined.error_code, joined.leader == joined.member_id) == (0, True)
    given = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")]
    identity = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
    assert (await client.request(SyncGroupRequest(**identity, assignments=given), 0)).assignment == b"mine"
    assert (await client.request(HeartbeatRequest(**identity), 0)).error_code == 0
    committed_at_2 = await client.request(commit_request(7, joined=joined), 2)
    assert committed_at_2.topics[0].partitions[0].error_code == 0
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    fetched = await client.request(OffsetFetchRequest(group_id="g", topics=topics), 1)
    assert fetched.topics[0].partitions[0].committed_offset == 7
    left = await client.request(LeaveGroupRequest(group_id="g", member_id=joined.member_id), 0)
    assert (left.error_code, (await described(client)).group_state) == (0, "Empty")
    again = await client.request(join_request(), 2)
    assert (again.error_code, again.generation_id) == (0, joined.generation_id + 2)


@pytest.mark.parametrize("groups", [3])
@with_broker(offsets_topic_num_partitions="4")
async def test_groups_that_rebalance_at_once_do_not_disturb_each_other(client: Client, groups: int) -> None:
    async def member(group: str, name: int) -> None:
        own = await client.another()
        joined = await join(own, group=group)
        for _ in range(20):
            synced = await sync(own, joined, group=group)
            assert synced.error_code in (0, ErrorCode.REBALANCE_IN_PROGRESS)
            if synced.error_code == 0 and len(client.broker.node.groups.group(group).members) == 3:
                break
            joined = await join(own, joined.member_id, group=group)
            assert joined.error_code == 0, (group, name)
        own.close()

    await asyncio.gather(*(member(f"g{group}", name) for group in range(groups) for name in range(3)))
    states = {group.state for group in client.broker.node.groups.groups()}
    assert states <= {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.PREPARING_REBALANCE}


@with_broker()
async def test_a_rebalance_that_waits_does_not_hold_up_other_connections(client: Client) -> None:
    joined = await join(client)
    await sync(client, joined)
    other = await client.another()
    other.send(join_request(), 3)
    assert (await described(client)).error_code == 0
    assert ApiKey.JOIN_GROUP in client.broker.node.apis
