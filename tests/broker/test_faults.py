"""A disk that fails under the broker: the protocol's errors, nothing that was acknowledged lost, others served on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path, PurePath

import pytest

from mainstem.errors import StorageError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_topics import CreateTopicsRequest
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest
from mainstem.protocol.messages.heartbeat import HeartbeatRequest
from mainstem.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from mainstem.protocol.messages.offset_fetch import OffsetFetchRequest
from mainstem.testing.disk import FaultyDisk, PowerCutError
from tests.broker.handlers.test_groups import commit, committed, described, join, sync
from tests.broker.handlers.test_topics import creatable
from tests.broker.harness import Client, running
from tests.broker.share.member import Member

DATA = Path("/data")


def over_restarts(
    disk: FaultyDisk, *lives: Callable[[Client], Awaitable[None]], settings: dict[str, str] | None = None
) -> None:
    """Run one broker after the other on ``disk``; a life may end with a disk that does not let it end cleanly.

    A life that ends in ``disk.cut_power()`` loses what was not synced at that moment: its broker stops without a disk.
    """

    async def main() -> None:
        for live in lives:
            failure: AssertionError | None = None
            has_begun = False
            try:
                async with running(DATA, settings, disk=disk) as client:
                    has_begun = True
                    try:
                        await live(client)
                    except AssertionError as error:
                        failure = error
            except (StorageError, PowerCutError):
                if not has_begun:
                    raise  # a start that fails is no end of a life
                if disk.is_off:
                    disk.power_cut()
                else:
                    disk.kill()
            assert not disk.is_off, "the broker stopped without its disk, and raised no error"
            if failure is not None:
                raise failure

    asyncio.run(main())


def test_a_failed_sync_is_told_to_the_producer_and_the_partition_takes_no_more(tmp_path: Path) -> None:
    disk = FaultyDisk()

    async def fails(client: Client) -> None:
        await client.create_topic("t")
        await client.create_topic("u")
        assert (await client.produce("t", b"kept")).error_code == 0
        disk.fail_syncs("*/t-0/*.log")
        for _ in range(2):
            assert (await client.produce("t", b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await client.values("t") == [b"kept"]
        assert (await client.produce("u", b"served")).error_code == 0

    async def recovers(client: Client) -> None:
        assert (await client.values("t"))[0] == b"kept"
        assert (await client.produce("t", b"again")).error_code == 0

    over_restarts(disk, fails, recovers)


def test_a_full_disk_is_told_to_the_producer_and_room_makes_it_work_again() -> None:
    disk = FaultyDisk()

    async def fills(client: Client) -> None:
        await client.create_topic("t")
        await client.produce("t", b"a")
        disk.capacity_bytes = disk.used_bytes() + 1000
        assert (await client.produce("t", bytes(5000))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.capacity_bytes = None
        assert (await client.produce("t", b"b")).base_offset == 1
        assert await client.values("t") == [b"a", b"b"]

    over_restarts(disk, fills)


def test_a_topic_that_the_disk_has_no_room_for_is_not_half_there() -> None:
    disk = FaultyDisk()

    async def fills(client: Client) -> None:
        await client.create_topic("before")
        disk.capacity_bytes = disk.used_bytes() + 50
        topics = [creatable("t", 50)]
        response = await client.request(CreateTopicsRequest(topics=topics), 7)
        assert response.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.capacity_bytes = None
        await client.create_topic("t", 3)
        assert (await client.produce("t", b"a", partition=2)).error_code == 0

    over_restarts(disk, fills)


@pytest.mark.parametrize("seed", range(5))
def test_what_was_acknowledged_and_committed_survives_a_power_cut(seed: int) -> None:
    disk = FaultyDisk(seed)

    async def before(client: Client) -> None:
        await client.create_topic("t")
        for number in range(20):
            await client.produce("t", b"%d" % number)
            assert await commit(client, number) == 0
        disk.cut_power()

    async def after(client: Client) -> None:
        assert (await client.values("t"))[:20] == [b"%d" % number for number in range(20)]
        assert (await committed(client))[0] == 19

    over_restarts(disk, before, after)


def test_a_commit_that_cannot_be_kept_is_refused_and_not_shown() -> None:
    disk = FaultyDisk()

    async def fails(client: Client) -> None:
        await client.create_topic("t")
        assert await commit(client, 1) == 0
        disk.fail_syncs("*/__consumer_offsets-0/*.log")
        assert await commit(client, 2) == ErrorCode.NOT_COORDINATOR

    async def recovers(client: Client) -> None:
        assert await commit(client, 3) == 0
        assert (await committed(client))[0] == 3

    over_restarts(disk, fails, recovers)


def test_groups_whose_log_is_damaged_are_refused_and_topics_are_served() -> None:
    disk = FaultyDisk()

    async def before(client: Client) -> None:
        await client.create_topic("t")
        await commit(client, 1)

    async def after(client: Client) -> None:
        assert (await join(client)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert (await client.request(beat, 4)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await commit(client, 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await client.produce("t", b"a")).error_code == 0

    over_restarts(disk, before)
    disk.flip_bit(DATA / "__consumer_offsets-0" / f"{0:020d}.log", 70)
    over_restarts(disk, after)


async def delete(client: Client, name: str) -> int:
    response = await client.request(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5)
    return int(response.responses[0].error_code)


class StuckDisk(FaultyDisk):
    """A disk that renames nothing whose name matches ``stuck``."""

    stuck = ""

    def rename(self, source: PurePath, target: PurePath) -> None:
        if self.stuck and source.match(self.stuck):
            raise StorageError(f"cannot rename {source}: Input/output error")
        super().rename(source, target)


@pytest.mark.parametrize("stuck", ["t-0", "t-1", "t-2"])
def test_a_topic_whose_files_the_disk_keeps_is_deleted_and_passes_nothing_on(stuck: str) -> None:
    disk = StuckDisk()

    async def fails(client: Client) -> None:
        await client.create_topic("t", 3)
        for partition in range(3):
            await client.produce("t", b"former", partition=partition)
        assert await commit(client, 1) == 0
        disk.stuck = stuck
        assert await delete(client, "t") == 0
        assert (await committed(client))[0] == -1
        answer = await client.request(CreateTopicsRequest(topics=[creatable("t", 3)]), 7)
        assert answer.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.stuck = ""
        await client.create_topic("t", 3)
        for partition in range(3):
            assert (await client.produce("t", b"new", partition=partition)).base_offset == 0

    async def again(client: Client) -> None:
        for partition in range(3):
            assert await client.values("t", partition=partition) == [b"new"]
        assert (await committed(client))[0] == -1

    over_restarts(disk, fails, again)


def test_a_topic_is_deleted_with_its_offsets_when_the_disk_refuses_their_tombstones() -> None:
    disk = FaultyDisk()

    async def fails(client: Client) -> None:
        await client.create_topic("t")
        assert await commit(client, 1) == 0
        disk.fail_syncs("*/__consumer_offsets-0/*.log")
        assert await delete(client, "t") == 0
        await client.create_topic("t")
        answer = await client.request(OffsetFetchRequest(group_id="g", topics=None), 7)
        assert (answer.error_code, list(answer.topics)) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])

    async def again(client: Client) -> None:
        assert (await committed(client))[0] == -1
        assert await commit(client, 3) == 0

    over_restarts(disk, fails, again)


def test_a_classic_group_stays_as_the_log_has_it_when_the_disk_refuses_its_records() -> None:
    disk = FaultyDisk()

    async def refuses(client: Client) -> None:
        await client.create_topic("t")
        first = await join(client)
        disk.capacity_bytes = disk.used_bytes()
        assert (await sync(client, first)).error_code == ErrorCode.NOT_COORDINATOR
        assert (await described(client)).group_state == "CompletingRebalance"
        disk.capacity_bytes = None
        assert (await sync(client, first)).assignment == b"mine"
        disk.capacity_bytes = disk.used_bytes()
        leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=first.member_id)])
        assert (await client.request(leaving, 5)).error_code == ErrorCode.NOT_COORDINATOR
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=first.member_id)
        assert (await client.request(beat, 4)).error_code == 0
        assert (await described(client)).group_state == "Stable"
        disk.capacity_bytes = None
        disk.cut_power()

    async def again(client: Client) -> None:
        group = await described(client)
        assert (group.group_state, len(group.members)) == ("Stable", 1)

    over_restarts(disk, refuses, again)


def test_a_member_whose_session_ends_while_the_disk_is_full_is_out_when_there_is_room() -> None:
    disk = FaultyDisk()

    async def refuses(client: Client) -> None:
        first = await join(client, session_ms=1000)
        assert (await sync(client, first)).error_code == 0
        disk.capacity_bytes = disk.used_bytes()
        before = disk.calls
        async with asyncio.timeout(20):
            while disk.calls == before:  # the session ends, and its record is refused
                await asyncio.sleep(0)
        assert (await described(client)).group_state == "Stable"
        disk.capacity_bytes = None
        async with asyncio.timeout(20):
            while (await described(client)).group_state != "Empty":
                await asyncio.sleep(0)

    over_restarts(disk, refuses, settings={"group.min.session.timeout.ms": "50"})


def test_a_share_group_stays_as_the_log_has_it_when_the_disk_refuses_its_records() -> None:
    disk = FaultyDisk()

    async def refuses(client: Client) -> None:
        await client.create_topic("t")
        first, second = Member(client, "m1"), Member(client, "m2")
        await first.join()
        disk.capacity_bytes = disk.used_bytes()
        assert (await second.heartbeat(["t"], epoch=0)).error_code == ErrorCode.NOT_COORDINATOR
        assert (await first.heartbeat(epoch=-1)).error_code == ErrorCode.NOT_COORDINATOR
        group = client.broker.node.share.coordinator.find("g")
        assert (list(group.members), group.epoch) == (["m1"], 2)
        disk.capacity_bytes = None
        disk.cut_power()

    async def again(client: Client) -> None:
        group = client.broker.node.share.coordinator.find("g")
        assert (list(group.members), group.epoch) == (["m1"], 2)

    over_restarts(disk, refuses, again)


def test_groups_whose_log_failed_a_sync_are_refused_until_the_next_start() -> None:
    disk = FaultyDisk()

    async def fails(client: Client) -> None:
        await client.create_topic("t")
        first = await join(client, session_ms=1000)  # after the restart a join waits until this session ends
        disk.fail_syncs("*/__consumer_offsets-0/*.log")
        assert (await sync(client, first)).error_code == ErrorCode.NOT_COORDINATOR
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=first.member_id)
        assert (await client.request(beat, 4)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def again(client: Client) -> None:
        assert (await sync(client, await join(client))).assignment == b"mine"

    over_restarts(disk, fails, again, settings={"group.min.session.timeout.ms": "50"})
