"""What share groups keep: through kills and power cuts, on failing disks, and without growing for ever."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path, PurePath
from typing import Any, cast

import pytest

from mainstem.broker.server import Broker
from mainstem.broker.storage.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from mainstem.errors import StorageError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest
from mainstem.testing.disk import FaultyDisk, FaultyFile
from tests.broker.harness import Client, LogProcess, with_broker
from tests.broker.share.member import ACCEPT, REJECT, RELEASE, Member, begin_early, offsets, partition_of
from tests.broker.test_faults import DATA, over_restarts

RECORDS = 60


async def new_member(client: Client, name: str = "m1") -> Member:
    member = Member(client, name)
    await member.join()
    return member


async def with_topic(client: Client) -> Member:
    await client.create_topic("t")
    for begin in range(0, RECORDS, 5):
        await client.produce("t", *(b"%d" % number for number in range(begin, begin + 5)))
    await begin_early(client)
    return await new_member(client)


def state_log(client: Client) -> Any:
    topic = client.broker.node.topics.get(SHARE_STATE_TOPIC)
    assert topic is not None
    return topic.partition(0)


@pytest.mark.parametrize("seed", range(6))
def test_what_was_acknowledged_never_comes_again_after_a_power_cut_and_all_the_rest_does(seed: int) -> None:
    disk, rng = FaultyDisk(seed), random.Random(seed)
    done: set[int] = set()

    async def works(client: Client, member: Member) -> None:
        for _ in range(8):
            for first, last, _count in await member.acquire(max_records=5):
                assert not done.intersection(range(first, last + 1))
                types = [rng.choice((ACCEPT, ACCEPT, REJECT, RELEASE)) for _ in range(first, last + 1)]
                assert await member.acknowledge(first, last, *types) == (0, 0)
                done.update(offset for offset, type_ in enumerate(types, first) if type_ != RELEASE)
        await member.acquire(max_records=10)  # held when the power goes
        disk.cut_power()

    async def first(client: Client) -> None:
        await works(client, await with_topic(client))

    async def again(client: Client) -> None:
        await works(client, await new_member(client, "m2"))

    async def last(client: Client) -> None:
        member = await new_member(client, "m3")
        while found := await member.acquire():
            for begin, end, count in found:
                assert count <= 5
                assert not done.intersection(range(begin, end + 1))
                assert await member.acknowledge(begin, end, ACCEPT) == (0, 0)
                done.update(range(begin, end + 1))
        assert done == set(range(RECORDS))
        assert await offsets(client) == {("t", 0): (RECORDS, 0)}

    over_restarts(disk, first, again, last)


def test_a_record_that_a_kill_took_from_its_member_comes_again_with_its_count() -> None:
    disk = FaultyDisk()

    async def holds(client: Client) -> None:
        member = await with_topic(client)
        assert await member.acquire(max_records=5) == [(0, 4, 1)]
        disk.kill()

    async def holds_again(client: Client) -> None:
        member = await new_member(client, "m2")
        assert await member.acquire(max_records=5) == [(0, 4, 2)]

    over_restarts(disk, holds, holds_again)


def test_an_acknowledgement_that_cannot_be_kept_is_refused_and_the_record_comes_again() -> None:
    disk = FaultyDisk()

    async def fails(client: Client) -> None:
        member = await with_topic(client)
        await member.acquire(max_records=5)
        disk.fail_syncs(f"*/{SHARE_STATE_TOPIC}-0/*.log")
        assert await member.acknowledge(0, 4, ACCEPT) == (0, ErrorCode.KAFKA_STORAGE_ERROR)
        assert partition_of(await member.fetch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    async def recovers(client: Client) -> None:
        member = await new_member(client, "m2")
        found = await member.acquire(max_records=5)
        assert [run[:2] for run in found] in ([(0, 4)], [(5, 9)])  # the failed write may have reached the disk

    over_restarts(disk, fails, recovers)


def test_a_topic_can_be_deleted_although_the_state_of_its_groups_cannot_be_written() -> None:
    disk = FaultyDisk()

    async def deletes(client: Client) -> None:
        member = await with_topic(client)
        await member.acquire(max_records=5)
        disk.fail_syncs(f"*/{SHARE_STATE_TOPIC}-0/*.log")
        assert await member.acknowledge(0, 4, ACCEPT) == (0, ErrorCode.KAFKA_STORAGE_ERROR)
        answer = await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
        assert answer.responses[0].error_code == 0

    async def finds_nothing(client: Client) -> None:
        assert client.broker.node.share.state.all() == []

    over_restarts(disk, deletes, finds_nothing)


def test_a_full_disk_changes_nothing_and_room_makes_it_work_again() -> None:
    disk = FaultyDisk()

    async def fills(client: Client) -> None:
        member = await with_topic(client)
        await member.acquire(max_records=5)
        disk.capacity_bytes = disk.used_bytes()
        assert await member.acknowledge(0, 4, ACCEPT) == (0, ErrorCode.KAFKA_STORAGE_ERROR)
        disk.capacity_bytes = None
        assert await member.acknowledge(0, 4, ACCEPT) == (0, 0)
        assert (await offsets(client))["t", 0][0] == 5

    over_restarts(disk, fills)


def test_damaged_state_is_not_served_and_what_is_whole_is_not_given_up() -> None:
    disk = FaultyDisk()

    async def before(client: Client) -> None:
        member = await with_topic(client)
        await member.acquire(max_records=5)
        await member.acknowledge(0, 4, ACCEPT)
        log = state_log(client)
        path = next(
            path for path in (log.directory / name for name in disk.list(log.directory)) if path.suffix == ".log"
        )
        disk.flip_bit(path, 100)

    async def after(client: Client) -> None:
        member = Member(client, "m2")
        answer = await member.heartbeat(["t"], epoch=0)
        assert answer.error_code in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        member.topic_id = next(iter(client.broker.node.share.coordinator.find("g").shared))
        data = partition_of(await member.fetch())
        assert data.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not data.acquired_records

    over_restarts(disk, before, after)


def test_the_state_s_log_is_cut_at_snapshots_and_gives_the_same_state_again() -> None:
    disk = FaultyDisk()
    settings = {"share.coordinator.snapshot.update.records.per.snapshot": "7"}
    kept: dict[str, Any] = {}

    async def works(client: Client) -> None:
        member = await with_topic(client)
        cold = Member(client, "c1", group="cold")
        await begin_early(client, "cold")
        await cold.join()
        await cold.acquire(max_records=5)
        for _ in range(300):
            for first, last, _count in await member.acquire(max_records=2, share_acquire_mode=1):
                await member.acknowledge(first, last, RELEASE if first % 7 else ACCEPT)
        log = state_log(client)
        assert log.log_end_offset > 300
        assert log.log_end_offset - log.log_start_offset < 20 * 8
        state = client.broker.node.share.state
        kept.update({partition.key.text: partition.in_flight.written() for partition in state.all()})
        assert len(kept) == 2

    async def after(client: Client) -> None:
        state = client.broker.node.share.state
        assert {partition.key.text: partition.in_flight for partition in state.all()} == kept

    over_restarts(disk, works, after, settings=settings)


def test_records_that_a_topic_lost_do_not_hide_the_new_ones_at_their_offsets(tmp_path: Path) -> None:
    async def loses(client: Client) -> None:
        topic = CreatableTopic(
            name="t",
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=[CreatableTopicConfig(name="flush", value="os")],
        )
        await client.request(CreateTopicsRequest(topics=[topic]), 7)
        await begin_early(client)
        member = await new_member(client)
        await client.produce("t", b"lost", b"lost")
        assert await member.acquire() == [(0, 1, 1)]
        assert await member.acknowledge(0, 1, ACCEPT) == (0, 0)

    async def goes_on(client: Client) -> None:
        assert await client.values("t") == []
        await client.produce("t", b"new")
        member = await new_member(client, "m2")
        assert await member.acquire() == [(0, 0, 1)]
        assert member.values == [b"new"]

    with LogProcess(tmp_path / "data") as log:
        asyncio.run(_talk(log, loses))
        log.kill()
        for path in (tmp_path / "data" / "t-0").glob("*.log"):
            path.write_bytes(b"")  # as a power cut may leave what was never synced
        log.start()
        asyncio.run(_talk(log, goes_on))


async def _talk(log: LogProcess, life: Callable[[Client], Awaitable[None]]) -> None:
    host, _, port = log.bootstrap.rpartition(":")
    client = await Client((host, int(port)), cast("Broker", None)).connect()
    await life(client)
    client.close()


def test_state_that_outlived_its_group_is_removed_at_the_start() -> None:
    disk = FaultyDisk()

    async def deletes(client: Client) -> None:
        member = await with_topic(client)
        await member.leave()
        node = client.broker.node
        node.share.state.remove = lambda partitions: None  # type: ignore[method-assign]
        assert (await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)).results[0].error_code == 0
        assert node.share.state.all()

    async def finds_nothing(client: Client) -> None:
        assert client.broker.node.share.state.all() == []

    over_restarts(disk, deletes, finds_nothing)


class UnreadableDisk(FaultyDisk):
    """A disk that opens no file whose name matches ``unreadable``."""

    unreadable = ""

    def open(self, path: PurePath) -> FaultyFile:
        if self.unreadable and path.match(self.unreadable):
            raise StorageError(f"cannot open {path}: Input/output error")
        return super().open(path)


@pytest.mark.parametrize("is_offline", [True, False], ids=["offline", "damaged"])
def test_state_stays_when_a_start_cannot_read_its_group(*, is_offline: bool) -> None:
    disk = UnreadableDisk()
    path = DATA / f"{OFFSETS_TOPIC}-0" / f"{0:020d}.log"

    async def works(client: Client) -> None:
        member = await with_topic(client)
        await member.acquire(max_records=5)
        assert await member.acknowledge(0, 4, ACCEPT) == (0, 0)

    async def cannot_read_the_group(client: Client) -> None:
        answer = await Member(client, "m2").heartbeat(["t"], epoch=0)
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def goes_on(client: Client) -> None:
        assert await offsets(client) == {("t", 0): (5, RECORDS - 5)}

    def toggle() -> None:
        if is_offline:
            disk.unreadable = "" if disk.unreadable else f"*/{OFFSETS_TOPIC}-0/*.log"
        else:
            disk.flip_bit(path, 70)

    over_restarts(disk, works)
    toggle()
    over_restarts(disk, cannot_read_the_group)
    toggle()
    over_restarts(disk, goes_on)


@with_broker()
async def test_a_broker_without_share_groups_has_no_topic_for_them(client: Client) -> None:
    assert client.broker.node.topics.get(SHARE_STATE_TOPIC) is None
