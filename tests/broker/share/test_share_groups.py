"""Share groups as clients see them: raw requests to a broker in the test's own event loop."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from mainstem.log.partition.checkpoints import encode_uuid
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from mainstem.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest
from mainstem.protocol.messages.find_coordinator import FindCoordinatorRequest
from mainstem.protocol.messages.list_groups import ListGroupsRequest
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from mainstem.record.writer import NewRecord, build_batch
from mainstem.testing import ManualClock
from tests.broker.handlers.test_groups import commit, described, join, sync
from tests.broker.harness import Client, running, with_broker
from tests.broker.share.member import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Member,
    alter_offset,
    begin_early,
    offsets,
    partition_of,
    set_config,
)
from tests.support.eventually import eventually


async def with_records(client: Client, count: int = 10, *, batches: int = 1) -> Member:
    """A member of group g, which begins at the first of ``count`` records in t."""
    await client.create_topic("t")
    size = count // batches
    for begin in range(0, count, size):
        await client.produce("t", *(b"%d" % number for number in range(begin, begin + size)))
    await begin_early(client)
    member = Member(client)
    await member.join()
    return member


@with_broker()
async def test_a_record_is_delivered_to_one_member_and_never_again_once_it_is_accepted(client: Client) -> None:
    first = await with_records(client, 10, batches=2)
    second = Member(client, "m2")
    await second.join()
    assert await first.acquire(max_records=5) == [(0, 4, 1)]
    assert first.values == [b"0", b"1", b"2", b"3", b"4"]
    assert await second.acquire(max_records=5) == [(5, 9, 1)]
    assert await first.acknowledge(0, 4, ACCEPT) == (0, 0)
    assert await second.acquire((5, 9, [ACCEPT])) == []
    assert await first.acquire() == []
    assert await offsets(client) == {("t", 0): (10, 0)}


@with_broker()
async def test_a_group_begins_at_the_end_unless_it_says_otherwise(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"before")
    member = Member(client)
    await member.join()
    assert await member.acquire() == []
    await client.produce("t", b"after")
    assert await member.acquire() == [(1, 1, 1)]
    assert member.values == [b"after"]


@with_broker()
async def test_a_group_begins_so_long_ago_as_it_says(client: Client) -> None:
    await client.create_topic("t")
    an_hour_ago_ms = int(time.time() * 1000) - 3_600_000
    old = build_batch([NewRecord(None, b"an hour ago", (), an_hour_ago_ms)])
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=old)])
    await client.request(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 9)
    await client.produce("t", b"now")
    await set_config(client, "share.auto.offset.reset", "by_duration:PT30M")
    member = Member(client)
    await member.join()
    assert await member.acquire() == [(1, 1, 1)]


@with_broker()
async def test_a_group_id_has_one_type(client: Client) -> None:
    member = await with_records(client, 1)
    assert (await join(client)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert await commit(client, 5) == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await described(client, version=6)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await sync(client, await join(client, group="classic"), group="classic")
    other = Member(client, "m2", group="classic")
    assert (await other.heartbeat(["t"], epoch=0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await member.heartbeat()).error_code == 0


@with_broker()
async def test_the_coordinator_of_a_share_partition_is_this_node(client: Client) -> None:
    member = await with_records(client, 1)
    keys = [f"g:{encode_uuid(member.topic_id)}:0", "g", "g:x:0", f"g:{encode_uuid(member.topic_id)}:-1"]
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=keys)
    answers = (await client.request(request, 6)).coordinators
    assert [answer.error_code for answer in answers] == [0, *[ErrorCode.INVALID_REQUEST] * 3]


@with_broker()
async def test_sessions_that_ended_leave_nothing_with_their_connection(client: Client) -> None:
    member = await with_records(client, 1)
    for number in range(5):
        member.member_id = f"m{number}"
        await member.fetch(epoch=0)
        await member.fetch(epoch=-1)
    sessions = client.broker.node.share.sessions
    assert sessions.statistics() == {"sessions": 0}


@with_broker()
async def test_a_released_record_comes_again_and_a_rejected_one_does_not(client: Client) -> None:
    member = await with_records(client, 4)
    await member.acquire()
    types = [RELEASE, REJECT, ACCEPT, GAP]
    assert await member.acquire((0, 3, types)) == [(0, 0, 2)]
    assert await offsets(client) == {("t", 0): (0, 1)}
    assert await member.acquire((0, 0, [ACCEPT])) == []
    assert await offsets(client) == {("t", 0): (4, 0)}


@with_broker()
async def test_a_record_limit_is_exact_and_whole_batches_are_not(client: Client) -> None:
    member = await with_records(client, 10)
    assert await member.acquire(max_records=3, share_acquire_mode=1) == [(0, 2, 1)]
    assert member.values == [b"0", b"1", b"2"]
    assert await member.acquire(max_records=3, version=1) == [(3, 9, 1)]


@with_broker()
async def test_a_fetch_waits_for_records(client: Client) -> None:
    member = await with_records(client, 1)
    assert await member.acquire() == [(0, 0, 1)]
    other = await client.another()
    waiting = asyncio.ensure_future(member.acquire(max_wait_ms=60_000))
    await other.produce("t", b"new")
    assert await waiting == [(1, 1, 1)]
    other.close()


@with_broker()
async def test_a_fetch_waits_for_what_another_member_gives_back(client: Client) -> None:
    first = await with_records(client, 1)
    await first.acquire()
    second = Member(await client.another(), "m2")
    await second.join()
    waiting = asyncio.ensure_future(second.acquire(max_wait_ms=60_000))
    assert await first.acknowledge(0, 0, RELEASE) == (0, 0)
    assert await waiting == [(0, 0, 2)]
    second.client.close()


@with_broker()
async def test_what_a_closed_connection_held_is_for_others(client: Client) -> None:
    first = await with_records(client, 1)
    second = Member(await client.another(), "m2")
    await second.join()
    assert await second.acquire() == [(0, 0, 1)]
    waiting = asyncio.ensure_future(first.acquire(max_wait_ms=60_000))
    second.client.close()
    assert await waiting == [(0, 0, 2)]


@with_broker()
async def test_a_fetch_that_waits_does_not_bring_back_state_that_was_deleted_meanwhile(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, other = await with_records(client, 1), await client.another()
    assert await member.acquire() == [(0, 0, 1)]
    assert await member.acknowledge(0, 0, ACCEPT) == (0, 0)
    node, waits = client.broker.node, asyncio.Event()
    wait = node.fetches.wait

    async def noted_wait(*arguments: Any) -> bool:
        waits.set()
        return await wait(*arguments)

    monkeypatch.setattr(node.fetches, "wait", noted_wait)
    waiting = asyncio.ensure_future(member.acquire(max_wait_ms=60_000))
    await waits.wait()
    same = Member(other)
    same.epoch = member.epoch
    assert (await same.leave()).error_code == 0
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
    answer = await other.request(DeleteShareGroupOffsetsRequest(group_id="g", topics=topics), 0)
    assert [topic.error_code for topic in answer.responses] == [0]
    await other.produce("t", b"new")
    assert await waiting == []
    assert await offsets(other) == {}
    assert not node.share.state.all()
    other.close()


@with_broker()
async def test_the_records_of_a_member_that_ends_its_session_are_available_again(client: Client) -> None:
    first = await with_records(client, 2)
    second = Member(client, "m2")
    await second.join()
    await first.acquire()
    assert await first.acknowledge(0, 0, ACCEPT, epoch=-1) == (0, 0)
    assert await second.acquire() == [(1, 1, 2)]


@with_broker()
async def test_a_member_that_leaves_keeps_its_records_until_its_session_ends(client: Client) -> None:
    first = await with_records(client, 2)
    second = Member(client, "m2")
    await second.join()
    await first.acquire()
    assert (await first.leave()).member_epoch == -1
    assert await second.acquire() == []
    assert await first.acknowledge(0, 0, ACCEPT, epoch=-1) == (0, 0)
    assert await second.acquire() == [(1, 1, 2)]


@with_broker()
async def test_requests_of_a_session_come_in_order(client: Client) -> None:
    member = await with_records(client, 1)
    assert await member.acknowledge(0, 0, ACCEPT, epoch=1) == (ErrorCode.SHARE_SESSION_NOT_FOUND, 0)
    assert await member.acknowledge(0, 0, ACCEPT, epoch=0) == (ErrorCode.INVALID_SHARE_SESSION_EPOCH, 0)
    assert (await member.fetch(epoch=5)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    await member.acquire()
    assert (await member.fetch(epoch=5)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert (await member.fetch((0, 0, [ACCEPT]), epoch=0)).error_code == ErrorCode.INVALID_REQUEST
    assert await member.acquire((0, 0, [ACCEPT])) == []


@with_broker(group_share_max_share_sessions="1")
async def test_sessions_are_bounded(client: Client) -> None:
    first = await with_records(client, 1)
    await first.fetch()
    second = Member(client, "m2")
    await second.join()
    assert (await second.fetch()).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert (await first.fetch(epoch=0)).error_code == 0
    await first.fetch(epoch=-1)
    assert (await second.fetch()).error_code == 0


@with_broker()
async def test_what_is_not_there_is_told(client: Client) -> None:
    member = await with_records(client, 1)
    answer = await member.fetch(partitions=[7, 0], max_records=1)
    assert partition_of(answer, 0).error_code == 0
    assert partition_of(answer, 7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    assert partition_of(await member.fetch()).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert await member.acknowledge(0, 0, ACCEPT) == (0, ErrorCode.UNKNOWN_TOPIC_ID)
    assert await offsets(client) == {}
    stranger = Member(client, "s", group="nobody")
    assert (await stranger.fetch()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert await offsets(client, "nobody") == {}
    stranger.member_id = "x" * 37
    assert (await stranger.fetch()).error_code == ErrorCode.INVALID_REQUEST
    stranger.member_id = "s"
    assert (await stranger.fetch(epoch=1)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert (await stranger.acknowledge(0, 0, ACCEPT, epoch=1))[0] == ErrorCode.SHARE_SESSION_NOT_FOUND
    stranger.group = None
    assert (await stranger.fetch()).error_code == ErrorCode.INVALID_REQUEST
    assert (await stranger.acknowledge(0, 0, ACCEPT, epoch=0))[0] == ErrorCode.INVALID_REQUEST


@with_broker()
async def test_a_topic_that_is_made_anew_is_shared_anew(client: Client) -> None:
    member = await with_records(client, 3)
    await member.acquire()
    await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    await client.create_topic("t")
    await client.produce("t", b"new")
    answer = await member.heartbeat()
    assert answer.assignment is not None
    again = Member(client, "m2")
    await again.join()
    assert await again.acquire() == [(0, 0, 1)]
    assert again.values == [b"new"]


@with_broker()
async def test_the_log_s_start_moves_past_what_is_in_flight(client: Client) -> None:
    member = await with_records(client, 10, batches=5)
    assert await member.acquire(max_records=4) == [(0, 3, 1)]
    item = DeleteRecordsPartition(partition_index=0, offset=6)
    await client.request(
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[item])], timeout_ms=1000), 2
    )
    assert await offsets(client) == {("t", 0): (6, 4)}
    assert await member.acquire((0, 3, [ACCEPT])) == [(6, 9, 1)]


def test_a_lock_ends_in_time_and_the_last_delivery_is_the_last(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(int(time.time() * 1000))
        async with running(tmp_path, {"group.share.delivery.count.limit": "2"}, clock=clock) as client:
            member = await with_records(client, 1)
            assert await member.acquire() == [(0, 0, 1)]
            clock.advance(29.9)
            assert await member.acquire() == []
            clock.advance(0.2)
            assert await member.acquire() == [(0, 0, 2)]
            clock.advance(30.1)
            assert await member.acquire() == []
            assert await offsets(client) == {("t", 0): (1, 0)}

    asyncio.run(scenario())


def test_a_lock_is_renewed(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(int(time.time() * 1000))
        async with running(tmp_path, clock=clock) as client:
            member = await with_records(client, 2)
            await member.acquire()
            clock.advance(20)
            assert await member.acknowledge(0, 0, RENEW) == (0, ErrorCode.INVALID_REQUEST)
            assert await member.acknowledge(0, 0, RENEW, renews=True) == (0, 0)
            clock.advance(20)
            assert await member.acquire() == [(1, 1, 2)]
            assert await member.acknowledge(0, 0, ACCEPT) == (0, 0)
            answer = await member.fetch(
                (1, 1, [RENEW]), is_renew_ack=True, max_bytes=0, min_bytes=0, max_records=0, max_wait_ms=0
            )
            assert partition_of(answer).acknowledge_error_code == 0
            clock.advance(29)
            assert await member.acquire((1, 1, [ACCEPT])) == []
            await set_config(client, "share.renew.acknowledge.enable", "false")
            assert await member.acknowledge(0, 0, RENEW, renews=True) == (0, ErrorCode.INVALID_REQUEST)

    asyncio.run(scenario())


@with_broker(group_share_min_record_lock_duration_ms="1000")
async def test_a_timer_gives_back_what_is_held_too_long(client: Client) -> None:
    member = await with_records(client, 1)
    await set_config(client, "share.record.lock.duration.ms", "1000")
    await member.acquire()
    assert await member.acquire(max_wait_ms=60_000) == [(0, 0, 2)]


@with_broker()
async def test_members_share_partitions_evenly(client: Client) -> None:
    await client.create_topic("t", 4)
    first, second = Member(client), Member(client, "m2")
    joined = await first.join()
    assert [list(topic.partitions) for topic in joined.assignment.topic_partitions] == [[0, 1, 2, 3]]
    joined = await second.join()
    theirs = joined.assignment.topic_partitions[0].partitions
    kept = (await first.heartbeat()).assignment.topic_partitions[0].partitions
    assert sorted([*theirs, *kept]) == [0, 1, 2, 3]
    assert (await first.heartbeat()).assignment is None
    described = (
        await client.request(ShareGroupDescribeRequest(group_ids=["g", "no"], include_authorized_operations=False), 1)
    ).groups
    assert [group.error_code for group in described] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
    assert described[0].group_state == "Stable"
    assert {
        member.member_id: list(member.assignment.topic_partitions[0].partitions) for member in described[0].members
    } == {
        "m1": list(kept),
        "m2": list(theirs),
    }


@with_broker(group_share_max_size="1")
async def test_heartbeats_that_cannot_be_are_refused(client: Client) -> None:
    await client.create_topic("t")
    member = Member(client)
    assert (await member.heartbeat(epoch=3)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await member.heartbeat(epoch=0)).error_code == ErrorCode.INVALID_REQUEST
    assert (await member.heartbeat(["t"], epoch=-2)).error_code == ErrorCode.INVALID_REQUEST
    await member.join()
    assert (await member.heartbeat(epoch=member.epoch + 1)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    other = Member(client, "m2")
    assert (await other.heartbeat(["t"], epoch=0)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await other.heartbeat(epoch=1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await other.leave()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@with_broker(group_share_session_timeout_ms="2000")
async def test_a_silent_member_is_out_and_holds_its_records_until_its_connection_ends(client: Client) -> None:
    other = await with_records(client, 1)
    await other.leave()
    member = Member(await client.another(), "m2")
    await member.join()
    await member.acquire()
    group = client.broker.node.share.coordinator.find
    await asyncio.to_thread(eventually, lambda: group("g").is_empty, "the member is out")
    assert (await member.heartbeat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert await other.acquire() == []
    member.client.close()
    assert await other.acquire(max_wait_ms=60_000) == [(0, 0, 2)]


@with_broker()
async def test_admins_list_alter_and_delete(client: Client) -> None:
    member = await with_records(client, 5)
    await member.acquire()
    listed = (await client.request(ListGroupsRequest(types_filter=["share"]), 5)).groups
    assert [(group.group_id, group.protocol_type, group.group_state) for group in listed] == [("g", "share", "Stable")]
    assert (await alter_offset(client, 2)).error_code == ErrorCode.NON_EMPTY_GROUP
    assert (await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)).results[
        0
    ].error_code == ErrorCode.NON_EMPTY_GROUP
    await member.leave()
    answer = await alter_offset(client, 2)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)
    assert await offsets(client) == {("t", 0): (2, 3)}
    assert (await alter_offset(client, 6)).responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    missing = (await alter_offset(client, 0, topic="u")).responses[0].partitions[0]
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("t", "u")]
    answer = await client.request(DeleteShareGroupOffsetsRequest(group_id="g", topics=topics), 0)
    assert [topic.error_code for topic in answer.responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await offsets(client) == {}
    assert (await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)).results[0].error_code == 0
    assert (await client.request(ListGroupsRequest(), 5)).groups == []
    assert not client.broker.node.share.state.all()


@with_broker()
async def test_an_admin_makes_a_group_by_saying_where_it_begins(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"0", b"1", b"2")
    assert (await alter_offset(client, 1)).error_code == 0
    member = Member(client)
    await member.join()
    assert await member.acquire() == [(1, 2, 1)]


def test_a_group_outlasts_a_clean_restart(tmp_path: Path) -> None:
    async def before() -> None:
        async with running(tmp_path) as client:
            member = await with_records(client, 6, batches=3)
            await member.acquire(max_records=4)
            await member.acknowledge(0, 3, ACCEPT, RELEASE, ACCEPT, ACCEPT)

    async def after() -> None:
        async with running(tmp_path) as client:
            assert await offsets(client) == {("t", 0): (1, 3)}
            member = Member(client)
            group = client.broker.node.share.coordinator.find("g")
            member.epoch, held = group.members["m1"].epoch, group.members["m1"]
            assert held.topics == ("t",)
            assert list(held.assigned.values()) == [(0,)]
            assert (await member.heartbeat()).error_code == 0
            member.topic_id = next(iter(group.shared))
            assert await member.acquire() == [(1, 1, 2), (4, 5, 1)]

    asyncio.run(before())
    asyncio.run(after())
