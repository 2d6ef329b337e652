"""Consumer groups (KIP-848) over the wire: heartbeats, descriptions, offsets at epochs, other types, and restarts."""

from __future__ import annotations

import asyncio
import itertools
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.groups import catalog
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from mainstem.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from mainstem.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from mainstem.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from mainstem.protocol.messages.list_groups import ListGroupsRequest
from mainstem.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mainstem.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from mainstem.testing.clock import ManualClock
from tests.broker.handlers.test_groups import join as join_classic
from tests.broker.handlers.test_groups import join_request, sync
from tests.broker.harness import Client, LogProcess, running, with_broker


def request(member_id: str, epoch: int, *, group: str = "g", **more: Any) -> ConsumerGroupHeartbeatRequest:
    if epoch == 0:
        more = {"rebalance_timeout_ms": 60_000, "topic_partitions": ()} | more
        if "subscribed_topic_regex" not in more:
            more.setdefault("subscribed_topic_names", ["t"])
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **more)


async def beat(client: Client, member_id: str, epoch: int, **more: Any) -> Any:
    return await client.request(request(member_id, epoch, **more), 1)


def given_by(answer: Any) -> list[int]:
    return sorted(number for topic in answer.assignment.topic_partitions for number in topic.partitions)


def owned(answer: Any) -> list[RequestTopicPartitions]:
    return [
        RequestTopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
        for topic in answer.assignment.topic_partitions
    ]


async def described(client: Client, group: str = "g") -> Any:
    return (
        await client.request(ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False), 1)
    ).groups[0]


async def commit(client: Client, offset: int, member_id: str = "", epoch: int = -1) -> int:
    topic = client.broker.node.topics.find("t")
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    body = OffsetCommitRequest(
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(topic_id=topic.topic_id, partitions=[partition])],
    )
    return int((await client.request(body, 10)).topics[0].partitions[0].error_code)


async def fetched(client: Client, member_id: str | None = None, epoch: int = -1) -> tuple[int, list[int]]:
    group = OffsetFetchRequestGroup(group_id="g", topics=None, member_id=member_id, member_epoch=epoch)
    answer = (await client.request(OffsetFetchRequest(groups=[group]), 9)).groups[0]
    return answer.error_code, [item.committed_offset for topic in answer.topics for item in topic.partitions]


@with_broker()
async def test_two_members_share_a_topic(client: Client) -> None:
    await client.create_topic("t", 4)
    assert given_by(await beat(client, "a", 0)) == [0, 1, 2, 3]
    assert given_by(await beat(client, "b", 0)) == []
    told = await beat(client, "a", 2)
    assert (told.member_epoch, len(given_by(told))) == (2, 2)
    assert (await beat(client, "a", 2, topic_partitions=owned(told))).member_epoch == 3
    got = await beat(client, "b", 3)
    assert sorted(given_by(told) + given_by(got)) == [0, 1, 2, 3]


def test_members_that_wait_for_each_other_stay_as_long_as_they_send_heartbeats(tmp_path: Path) -> None:
    clock = ManualClock()

    async def main() -> None:
        async with running(tmp_path / "data", clock=clock) as client:
            await client.create_topic("t", 2)
            await beat(client, "a", 0, rebalance_timeout_ms=600_000)
            await beat(client, "b", 0)
            told = await beat(client, "a", 2)
            for _ in range(3):  # a gives nothing up yet, b waits: neither heartbeat has anything to write
                clock.advance(30)
                assert (await beat(client, "a", told.member_epoch)).error_code == 0
                assert (await beat(client, "b", 3)).error_code == 0
                client.broker.node.groups.consumer._expire("g")
                assert len((await described(client)).members) == 2

    asyncio.run(main())


@with_broker()
async def test_a_group_is_described_with_what_each_has_and_shall_have(client: Client) -> None:
    await client.create_topic("t", 2)
    await beat(client, "a", 0, instance_id="one", rack_id="r", server_assignor="range")
    await beat(client, "b", 0)
    group = await described(client)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignor_name) == (
        0,
        "Reconciling",
        3,
        "range",
    )
    first, second = group.members
    assert (first.instance_id, first.rack_id, first.member_epoch, first.member_type) == ("one", "r", 2, 1)
    assert (first.client_id, first.client_host) == ("test", "/127.0.0.1")
    assert first.assignment.topic_partitions[0].topic_name == "t"
    assert first.assignment.topic_partitions[0].partitions == [0, 1]
    assert [len(part.partitions) for part in second.target_assignment.topic_partitions] == [1]
    assert (await described(client, "none")).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_broker()
async def test_a_new_partition_reaches_the_member_with_its_next_heartbeat(client: Client) -> None:
    await client.create_topic("t", 1)
    await beat(client, "a", 0)
    grown = CreatePartitionsTopic(name="t", count=3, assignments=None)
    await client.request(CreatePartitionsRequest(topics=[grown], timeout_ms=1, validate_only=False), 3)
    assert given_by(await beat(client, "a", 2)) == [0, 1, 2]


@with_broker()
async def test_a_regular_expression_matches_whole_names_and_those_that_come_later(client: Client) -> None:
    for topic in ("t", "test", "nott"):
        await client.create_topic(topic)
    answer = await beat(client, "a", 0, subscribed_topic_regex="t.*")
    assert len(answer.assignment.topic_partitions) == 2
    assert (await described(client)).members[0].subscribed_topic_regex == "t.*"
    await client.create_topic("tail")
    assert len((await beat(client, "a", 2)).assignment.topic_partitions) == 3


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", "x{1001}", r"(a)\1"])
@with_broker()
async def test_a_pattern_that_is_none_is_refused(client: Client, pattern: str) -> None:
    answer = await beat(client, "a", 0, subscribed_topic_regex=pattern)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert client.broker.node.groups.groups() == []


@with_broker()
async def test_a_pattern_that_backtracks_holds_up_nobody(client: Client) -> None:
    await client.create_topic("a" * 200 + "b")
    answer = await beat(client, "a", 0, subscribed_topic_regex="(a+)+(a*)*(a|a)*$")
    assert (answer.error_code, answer.assignment.topic_partitions) == (0, [])


@with_broker()
async def test_a_heartbeat_with_a_pattern_is_answered_while_topics_change(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, loop = client.broker.node, asyncio.get_running_loop()
    matches, numbers = catalog._matches, itertools.count()

    def slowly(fullmatch: Callable[[str], object], names: frozenset[str]) -> frozenset[str]:
        created = threading.Event()

        def create() -> None:
            node.topics.create(f"t{next(numbers)}", 1, {})
            created.set()

        loop.call_soon_threadsafe(create)
        assert created.wait(60)
        return matches(fullmatch, names)

    monkeypatch.setattr(catalog, "_matches", slowly)
    async with asyncio.timeout(60):
        answer = await beat(client, "a", 0, subscribed_topic_regex="t.*")
    assert answer.error_code == 0
    monkeypatch.setattr(catalog, "_matches", matches)
    answer = await beat(client, "a", answer.member_epoch, topic_partitions=())
    assert len(answer.assignment.topic_partitions) == next(numbers)


@with_broker()
async def test_offsets_are_committed_and_fetched_at_the_member_s_epoch(client: Client) -> None:
    await client.create_topic("t")
    await beat(client, "a", 0)
    assert await commit(client, 7, "a", 2) == 0
    assert await commit(client, 8, "a", 3) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit(client, 8, "b", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit(client, 8) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await fetched(client, "a", 2) == (0, [7])
    assert await fetched(client) == (0, [7])
    assert (await fetched(client, "a", 0))[0] == ErrorCode.STALE_MEMBER_EPOCH
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    group = OffsetFetchRequestGroup(group_id="g", member_id="a", member_epoch=0, topics=topics)
    (refused,) = (await client.request(OffsetFetchRequest(groups=[group]), 9)).groups
    assert (refused.error_code, refused.topics) == (ErrorCode.STALE_MEMBER_EPOCH, [])


@with_broker()
async def test_offsets_are_committed_at_an_older_epoch_where_the_member_had_the_partition(client: Client) -> None:
    await client.create_topic("t")
    await beat(client, "a", 0)
    await beat(client, "b", 0)
    assert (await beat(client, "a", 2)).member_epoch == 3
    assert await commit(client, 7, "a", 2) == 0
    assert await commit(client, 8, "a", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit(client, 8, "b", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert await fetched(client) == (0, [7])


@with_broker()
async def test_a_group_changes_its_protocol_while_it_is_empty(client: Client) -> None:
    await client.create_topic("t")
    joined = await join_classic(client)
    await sync(client, joined)
    assert (await beat(client, "a", 0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    client.broker.node.groups.group("g").members[joined.member_id].session_deadline_s = 0.0
    client.broker.node.groups.classic._expire("g")
    assert await commit(client, 7) == 0
    assert (await beat(client, "a", 0)).error_code == 0
    assert (await join_classic(client)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    await beat(client, "a", -1)
    (listed,) = (await client.request(ListGroupsRequest(types_filter=["consumer"]), 5)).groups
    assert (listed.group_state, listed.protocol_type) == ("Empty", "consumer")
    assert (await join_classic(client)).error_code == 0
    assert await fetched(client) == (0, [7])


@with_broker()
async def test_a_consumer_group_is_deleted_when_it_is_empty(client: Client) -> None:
    await client.create_topic("t")
    await beat(client, "a", 0)
    for code in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE):
        (result,) = (await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)).results
        assert result.error_code == code
        await beat(client, "a", -1)
    assert (await beat(client, "a", 2)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@with_broker()
async def test_clients_are_told_that_consumer_groups_are_there(client: Client) -> None:
    body = ApiVersionsRequest(client_software_name="me", client_software_version="1")
    features = (await client.request(body, 4)).finalized_features
    assert ("group.version", 1) in [(feature.name, feature.max_version_level) for feature in features]


@pytest.mark.parametrize("last", ["stays", "is deleted", "is classic again"])
def test_a_group_is_what_it_was_after_a_restart(tmp_path: Path, last: str) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "data") as client:
            await client.create_topic("t", 3)
            await beat(client, "a", 0, instance_id="one")
            await beat(client, "b", 0, subscribed_topic_regex="t+")
            before = await described(client)
            if last != "stays":
                await beat(client, "a", -1)
                await beat(client, "b", -1)
            if last == "is deleted":
                await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)
            elif last == "is classic again":
                await sync(client, await join_classic(client))
        async with running(tmp_path / "data") as client:
            groups = client.broker.node.groups.groups()
            if last == "stays":
                assert await described(client) == before
                assert (await beat(client, "b", 3)).error_code == 0
            elif last == "is deleted":
                assert groups == []
            else:
                assert [group.state_name for group in groups] == ["Stable"]

    asyncio.run(scenario())


def test_members_go_on_after_the_log_was_killed(tmp_path: Path) -> None:
    group = uuid.uuid4().hex

    async def scenario(log: LogProcess) -> None:
        async def connect() -> Client:
            host, port = log.bootstrap.split(":")
            return await Client((host, int(port)), None).connect()  # type: ignore[arg-type]

        client = await connect()
        await client.create_topic("t", 4)
        await beat(client, "a", 0, group=group)
        await beat(client, "b", 0, group=group)
        told = await beat(client, "a", 2, group=group)
        log.kill()
        log.start()
        client = await connect()
        again = await beat(client, "a", 2, group=group, topic_partitions=owned(told))
        assert (again.error_code, again.member_epoch) == (0, 3)
        got = await beat(client, "b", 3, group=group)
        assert sorted(given_by(told) + given_by(got)) == [0, 1, 2, 3]

    with LogProcess(tmp_path / "data") as log:
        asyncio.run(scenario(log))


async def remove(client: Client, *members: tuple[str, str | None], version: int = 5) -> Any:
    asked = [MemberIdentity(member_id=member_id, group_instance_id=instance_id) for member_id, instance_id in members]
    if version < 3:
        return await client.request(LeaveGroupRequest(group_id="g", member_id=members[0][0]), version)
    return await client.request(LeaveGroupRequest(group_id="g", members=asked), version)


def test_an_admin_removes_members_by_their_ids_and_they_stay_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as client:
            await client.create_topic("t", partitions=2)
            await beat(client, "a", 0, instance_id="one")
            epoch = (await beat(client, "b", 0)).member_epoch
            asked = (("z", None), ("b", "one"), ("", "two"), ("", "one"), ("a", None))
            answer = await remove(client, *asked)
            codes = [ErrorCode(member.error_code).name for member in answer.members]
            assert codes == ["UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID", "NONE", "NONE"]
            assert (await described(client)).group_epoch == epoch + 1
            assert given_by(await beat(client, "b", epoch)) == [0, 1]

    async def again() -> None:
        async with running(tmp_path) as client:
            assert [member.member_id for member in (await described(client)).members] == ["b"]
            assert (await remove(client, ("b", None), version=2)).error_code == 0
            assert (await remove(client, ("b", None), version=2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert (await described(client)).group_state == "Empty"

    asyncio.run(scenario())
    asyncio.run(again())


@with_broker()
async def test_a_member_is_shown_with_what_it_has_still_to_give_up(client: Client) -> None:
    await client.create_topic("t", partitions=2)
    epoch = (await beat(client, "a", 0)).member_epoch
    await beat(client, "b", 0)
    assert len(given_by(await beat(client, "a", epoch))) == 1
    (member,) = [each for each in (await described(client)).members if each.member_id == "a"]
    assert (given_by(member), len(member.target_assignment.topic_partitions[0].partitions)) == ([0, 1], 1)


@with_broker()
async def test_a_session_that_no_group_allows_is_named_before_the_group_s_type(client: Client) -> None:
    await client.create_topic("t")
    await beat(client, "a", 0)
    answer = await client.request(join_request("x", session_ms=1), 7)
    assert (answer.error_code, answer.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "x")


@pytest.mark.parametrize("more", [{"group": ""}, {"group": " "}, {"instance_id": " "}])
@with_broker()
async def test_a_heartbeat_names_what_it_names(client: Client, more: dict[str, str]) -> None:
    assert (await beat(client, "a", 0, **more)).error_code == ErrorCode.INVALID_REQUEST
