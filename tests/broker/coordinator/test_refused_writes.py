"""A disk that refuses what a coordinator writes: the memory stays what the log says, and the coordinator goes on.

Every change that clients or admins can make to what the coordinators keep is made on a full disk, and on a disk whose
sync fails after the write. Nothing of a refused change is to be seen before the next start or after it, the answer is
the error that makes a client try again, and the change can be made when there is room.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

import pytest

from mainstem.broker.groups.classic.classic_group import ClassicGroup
from mainstem.broker.groups.consumer.consumer_group import ConsumerGroup
from mainstem.broker.share.group import ShareGroup
from mainstem.broker.transactions import steps
from mainstem.broker.transactions.state import ENDING, Transaction
from mainstem.errors import StorageError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from mainstem.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from mainstem.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from mainstem.testing.disk import FaultyDisk
from tests.broker.handlers.test_consumer_groups import beat
from tests.broker.handlers.test_groups import commit, join, sync
from tests.broker.harness import Client
from tests.broker.share.member import ACCEPT, RELEASE, RENEW, Member, alter_offset, begin_early
from tests.broker.test_faults import over_restarts
from tests.broker.transactions.producer import Producer

GROUPS: Final = "__consumer_offsets"
SHARE_STATE: Final = "__share_group_state"
TRANSACTIONS: Final = "__transaction_state"

Made = Mapping[str, Any]


# ---- what the coordinators keep, as far as the log has it


def kept(client: Client) -> dict[str, Any]:
    """What the coordinators of the node have in memory, without what is not written: deadlines, locks, rebalances.

    A transaction that is decided is shown as it is when the decision is carried out, which the next start does.
    """
    node = client.broker.node
    groups = {group.group_id: group_state(group) for group in node.groups.registry if is_written(group)}
    offsets = {
        (group_id, *key): offset.offset for group_id, held in node.groups.committed() for key, offset in held.items()
    }
    pending = {each.group_id: node.groups.transactional.unstable(each.group_id) for each in node.groups.registry}
    shares = {
        (each.key.group_id, each.key.partition): (each.epochs.state, each.in_flight.written())
        for each in node.share.state.all()
    }
    transactions = {name: carried_out(held) for name, held in node.transactions._transactions.items()}
    return {
        "groups": groups,
        "offsets": offsets,
        "pending": {group_id: keys for group_id, keys in pending.items() if keys},
        "shares": shares,
        "transactions": transactions,
    }


def carried_out(transaction: Transaction) -> object:
    if transaction.state in ENDING:
        transaction = steps.complete(transaction, 0)
    return transaction.state, transaction.client, transaction.partitions


def locks(client: Client) -> dict[object, object]:
    """Who holds what of share partitions, which is in memory only."""
    return {
        each.key: [(run.first, run.last, run.state, run.member_id) for run in each.in_flight.runs]
        for each in client.broker.node.share.state.all()
    }


def is_written(group: Any) -> bool:
    """Of a classic group's rebalance nothing is written, nor that a group is there because it has offsets."""
    return not isinstance(group, ClassicGroup) or (
        group.state_name in ("Stable", "Empty") and group.protocol_type is not None
    )


def group_state(group: Any) -> object:
    if isinstance(group, ClassicGroup):
        members = {member.member_id: member.assignment for member in group.members.values()}
        return group.generation_id, group.leader, members
    if isinstance(group, ConsumerGroup):
        return group.epoch, group.assignment_epoch, dict(group.members), dict(group.targets)
    assert isinstance(group, ShareGroup)
    members = {each.member_id: (each.epoch, each.topics, each.assigned) for each in group.members.values()}
    return group.epoch, group.assignment_epoch, members, dict(group.target), dict(group.shared)


# ---- the changes


@dataclass(frozen=True)
class Change:
    """``make`` makes the change over the wire, again if need be, and returns its error code.

    ``log`` is the topic that keeps it. A coordinator refuses as Kafka's do when their log fails: with NOT_COORDINATOR,
    on which clients look for the coordinator and try again. KAFKA_STORAGE_ERROR would end a Java consumer. What members
    of share groups say of records goes to the leader of the partition, and that answers with the storage error.
    """

    name: str
    log: str
    before: Callable[[Client], Awaitable[Made]]
    make: Callable[[Client, Made], Awaitable[int]]
    code: ErrorCode = ErrorCode.NOT_COORDINATOR

    def __str__(self) -> str:
        return self.name


async def nothing(client: Client) -> Made:
    await client.create_topic("t", 2)
    return {}


async def classic_joined(client: Client) -> Made:
    """A classic group in which the leader has to bring the assignment."""
    await client.create_topic("t")
    return {"joined": await join(client)}


async def classic_stable(client: Client) -> Made:
    made = await classic_joined(client)
    assert (await sync(client, made["joined"])).error_code == 0
    return made


async def classic_sync(client: Client, made: Made) -> int:
    return int((await sync(client, made["joined"])).error_code)


async def classic_leave(client: Client, made: Made) -> int:
    leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=made["joined"].member_id)])
    answer = await client.request(leaving, 5)
    return int(answer.error_code or answer.members[0].error_code)


async def offset_committed(client: Client) -> Made:
    await client.create_topic("t")
    assert await commit(client, 1) == 0
    return {}


async def commit_offset(client: Client, made: Made) -> int:
    return await commit(client, 2)


async def delete_offset(client: Client, made: Made) -> int:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])
    answer = await client.request(request, 0)
    return int(answer.error_code or answer.topics[0].partitions[0].error_code)


async def delete_group(client: Client, made: Made) -> int:
    answer = await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)
    return int(answer.results[0].error_code)


async def consumer_joined(client: Client) -> Made:
    await client.create_topic("t", 2)
    assert (await beat(client, "a", 0)).error_code == 0
    return {}


async def consumer_join(client: Client, made: Made) -> int:
    return int((await beat(client, "b", 0)).error_code)


async def consumer_leave(client: Client, made: Made) -> int:
    return int((await beat(client, "a", -1)).error_code)


async def consumer_empty(client: Client) -> Made:
    made = await consumer_joined(client)
    assert (await beat(client, "a", -1)).error_code == 0
    return made


async def classic_join_of_a_consumer_group(client: Client, made: Made) -> int:
    return int((await join(client)).error_code)


async def share_joined(client: Client) -> Made:
    await client.create_topic("t")
    await client.produce("t", b"0", b"1")
    await client.produce("t", b"2", b"3")
    await begin_early(client)
    member = Member(client)
    await member.join()
    return {"member": member}


async def share_holds(client: Client) -> Made:
    made = await share_joined(client)
    assert await made["member"].acquire(max_records=2) == [(0, 1, 1)]
    return made


async def share_empty(client: Client) -> Made:
    made = await share_joined(client)
    assert (await made["member"].leave()).error_code == 0
    return made


async def share_join(client: Client, made: Made) -> int:
    return int((await Member(client, "m2").heartbeat(["t"], epoch=0)).error_code)


async def share_leave(client: Client, made: Made) -> int:
    return int((await Member(client, "m1").leave()).error_code)


async def share_accept(client: Client, made: Made) -> int:
    outer, inner = await made["member"].acknowledge(0, 1, ACCEPT)
    return outer or inner


async def share_release(client: Client, made: Made) -> int:
    outer, inner = await made["member"].acknowledge(0, 1, RELEASE)
    return outer or inner


async def share_alter_offset(client: Client, made: Made) -> int:
    answer = await alter_offset(client, 3)
    return int(answer.error_code or answer.responses[0].partitions[0].error_code)


async def share_delete_offsets(client: Client, made: Made) -> int:
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
    answer = await client.request(DeleteShareGroupOffsetsRequest(group_id="g", topics=topics), 0)
    return int(answer.error_code or answer.responses[0].error_code)


async def transaction_ready(client: Client) -> Made:
    await client.create_topic("t", 2)
    await commit(client, 1)
    return {"producer": await Producer(client, version=1).ready(version=3)}


async def transaction_open(client: Client) -> Made:
    made = await transaction_ready(client)
    assert await made["producer"].add("t") == 0
    assert (await made["producer"].produce("t", b"v")).error_code == 0
    return made


async def transaction_of_offsets(client: Client) -> Made:
    made = await transaction_ready(client)
    assert await made["producer"].add_group("g") == 0
    return made


async def transaction_init(client: Client, made: Made) -> int:
    return int((await Producer(client, version=1).init(version=3)).error_code)


async def transaction_add(client: Client, made: Made) -> int:
    return int(await made["producer"].add("t", 1))


async def transaction_commit(client: Client, made: Made) -> int:
    return int((await made["producer"].end()).error_code)


async def transaction_offset(client: Client, made: Made) -> int:
    return int(await made["producer"].offset("g", "t", 5))


_STORAGE: Final = ErrorCode.KAFKA_STORAGE_ERROR
CHANGES: Final = (
    Change("classic-sync", GROUPS, classic_joined, classic_sync),
    Change("classic-leave", GROUPS, classic_stable, classic_leave),
    Change("commit-offset", GROUPS, offset_committed, commit_offset),
    Change("delete-offset", GROUPS, offset_committed, delete_offset),
    Change("delete-classic-group", GROUPS, offset_committed, delete_group),
    Change("consumer-join", GROUPS, consumer_joined, consumer_join),
    Change("consumer-leave", GROUPS, consumer_joined, consumer_leave),
    Change("delete-consumer-group", GROUPS, consumer_empty, delete_group),
    Change("consumer-to-classic", GROUPS, consumer_empty, classic_join_of_a_consumer_group),
    Change("share-join", GROUPS, share_joined, share_join),
    Change("share-leave", GROUPS, share_joined, share_leave),
    Change("delete-share-group", GROUPS, share_empty, delete_group),
    Change("share-delete-offsets", GROUPS, share_empty, share_delete_offsets),
    Change("share-accept", SHARE_STATE, share_holds, share_accept, _STORAGE),
    Change("share-release", SHARE_STATE, share_holds, share_release, _STORAGE),
    Change("share-alter-offset", SHARE_STATE, share_empty, share_alter_offset),
    Change("init-producer", TRANSACTIONS, transaction_ready, transaction_init),
    Change("add-partitions", TRANSACTIONS, transaction_open, transaction_add),
    Change("end-transaction", TRANSACTIONS, transaction_open, transaction_commit),
    Change("transaction-offset", GROUPS, transaction_of_offsets, transaction_offset),
)


class RefusingDisk(FaultyDisk):
    """A disk that writes to no file whose path matches ``refused``."""

    refused = ""

    def write(self, path: PurePath, content: Any, file_position: int, data: bytes) -> None:
        if self.refused and path.match(self.refused):
            raise StorageError(f"cannot write {path}: Input/output error")
        super().write(path, content, file_position, data)


@contextmanager
def full(disk: FaultyDisk) -> Iterator[None]:
    """The disk has room for nothing."""
    disk.capacity_bytes = disk.used_bytes()
    try:
        yield
    finally:
        disk.capacity_bytes = None


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_change_that_the_disk_refuses_is_not_made_and_can_be_made_when_there_is_room(change: Change) -> None:
    disk = FaultyDisk()
    at_the_end: dict[str, Any] = {}

    async def refuses(client: Client) -> None:
        made = await change.before(client)
        before = kept(client), locks(client)
        with full(disk):
            assert await change.make(client, made) == change.code
            assert (kept(client), locks(client)) == before
        assert await change.make(client, made) == 0
        at_the_end.update(kept(client))
        assert (at_the_end, locks(client)) != before
        disk.cut_power()

    async def again(client: Client) -> None:
        assert kept(client) == at_the_end

    over_restarts(disk, refuses, again)


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_change_whose_sync_fails_is_refused_and_the_next_start_goes_on_from_the_log(change: Change) -> None:
    disk = FaultyDisk()
    possible: list[dict[str, Any]] = []

    async def fails(client: Client) -> None:
        made = await change.before(client)
        possible.append(kept(client))
        disk.fail_syncs(f"*/{change.log}-0/*.log", times=1)
        assert await change.make(client, made) == change.code
        possible.append(kept(client))
        assert await change.make(client, made) != 0
        disk.cut_power()

    async def again(client: Client) -> None:
        assert kept(client) in possible

    over_restarts(disk, fails, again)


def test_a_lock_is_renewed_on_a_full_disk_because_locks_are_not_written() -> None:
    disk = FaultyDisk()

    async def renews(client: Client) -> None:
        made = await share_holds(client)
        before = kept(client)
        with full(disk):
            assert await made["member"].acknowledge(0, 1, RENEW, renews=True) == (0, 0)
            assert kept(client) == before
        disk.kill()

    async def delivers_again(client: Client) -> None:
        member = Member(client, "m2")
        await member.join()
        assert await member.acquire(max_records=2) == [(0, 1, 2)]

    over_restarts(disk, renews, delivers_again)


def test_a_share_group_that_begins_again_has_nothing_of_a_former_one_whose_state_could_not_be_removed() -> None:
    disk = RefusingDisk()

    async def begins_again(client: Client) -> None:
        made = await share_holds(client)
        assert await share_accept(client, made) == 0
        assert (await made["member"].leave()).error_code == 0
        disk.refused = f"*/{SHARE_STATE}-0/*.log"
        assert await delete_group(client, made) == 0
        assert await share_join(client, made) == ErrorCode.NOT_COORDINATOR
        disk.refused = ""
        await begin_early(client)
        member = Member(client)
        await member.join()
        assert await member.acquire() == [(0, 3, 1)]

    over_restarts(disk, begins_again)
