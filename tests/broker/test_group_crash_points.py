"""A crash between any two steps of the disk, while a consumer group (KIP-848) or a share group changes.

Invariants of a consumer group: no acknowledged epoch, member or commit is lost; no partition has two owners, and none
that a member was given goes to another before that one has let go of it; a deleted group is gone as a whole. Of a share
group: a record whose end was acknowledged is never delivered again, every other one is, and deliveries stay counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.testing.disk import FaultyDisk
from tests.broker.handlers.test_consumer_groups import beat, commit, described, fetched, given_by, owned
from tests.broker.harness import Client
from tests.broker.share.member import ACCEPT, REJECT, RELEASE, Member, alter_offset, begin_early
from tests.broker.test_crash_points import Facts, History, crash_everywhere

_PARTITIONS = (0, 1)
_RECORDS = 10


async def delete_group(client: Client, facts: Facts) -> None:
    facts["deleting"] = 1
    answer = await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert answer.results[0].error_code == 0
    facts["deleted"] = 1


# ---- consumer groups


async def heard(client: Client, facts: Facts, name: str, epoch: int, **more: Any) -> Any:
    """A heartbeat, and what its answer lets the member believe: its epoch, and the partitions that it owns."""
    keeps = {number for topic in more.get("topic_partitions") or () for number in topic.partitions}
    if "topic_partitions" in more:
        facts |= {f"{name} owns {number}": int(number in keeps) for number in _PARTITIONS}
    answer = await beat(client, name, epoch, **more)
    assert answer.error_code == 0
    facts[f"{name} joined"] = 1
    facts[f"{name} epoch"] = answer.member_epoch
    if answer.assignment is not None:
        facts |= {f"{name} owns {number}": 1 for number in given_by(answer)}
    return answer


async def leave(client: Client, facts: Facts, name: str) -> None:
    facts[f"{name} leaving"] = 1
    facts |= {f"{name} owns {number}": 0 for number in _PARTITIONS}
    assert (await beat(client, name, -1)).error_code == 0
    facts[f"{name} left"] = 1


async def change_consumer_group(client: Client, disk: FaultyDisk, history: History) -> None:
    """Two members share a topic: one joins, commits and gives up a partition for the other; both leave."""
    facts = history.facts
    await client.create_topic("t", len(_PARTITIONS))
    disk.on_call = history.on_call
    assert given_by(await heard(client, facts, "a", 0)) == [0, 1]
    facts["committing"] = 1
    assert await commit(client, 7, "a", facts["a epoch"]) == 0
    facts["committed"] = 1
    assert given_by(await heard(client, facts, "b", 0)) == []
    kept = await heard(client, facts, "a", facts["a epoch"])
    await heard(client, facts, "a", facts["a epoch"], topic_partitions=owned(kept))
    assert facts["a epoch"] == facts["b epoch"]
    assert len(given_by(await heard(client, facts, "b", facts["b epoch"]))) == 1
    await leave(client, facts, "a")
    assert given_by(await heard(client, facts, "b", facts["b epoch"])) == [0, 1]
    await leave(client, facts, "b")
    await delete_group(client, facts)


def owners(members: Iterable[Any]) -> dict[int, str]:
    """Who owns which partition. Fails if one has two owners."""
    found: dict[int, str] = {}
    for member in members:
        for number in given_by(member):
            assert number not in found, f"partition {number} has two owners"
            found[number] = member.member_id
    return found


async def check_consumer_group(client: Client, facts: Facts) -> None:
    group = await described(client)
    error, offsets = await fetched(client)
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        assert "deleting" in facts or "a joined" not in facts, "an acknowledged group is missing"
        assert offsets == [], "half a group"
    else:
        assert "deleted" not in facts, "a deleted group came back"
        assert error == 0
        assert offsets == [7] if "committed" in facts else offsets in ([], *([[7]] if "committing" in facts else []))
        members = {member.member_id: member for member in group.members}
        for name in ("a", "b"):
            check_member(members.get(name), name, facts)
        for number, owner in owners(group.members).items():
            assert all(facts.get(f"{name} owns {number}", 0) == 0 for name in {"a", "b"} - {owner}), "taken away"
        for member in group.members:
            again = await beat(client, member.member_id, member.member_epoch, topic_partitions=owned(member))
            assert again.error_code == 0
    assert (await beat(client, "c", 0)).error_code == 0


def check_member(member: Any, name: str, facts: Facts) -> None:
    if member is None:
        assert f"{name} leaving" in facts or f"{name} joined" not in facts, f"{name} is missing"
    else:
        assert f"{name} left" not in facts, f"{name} came back"
        assert member.member_epoch >= facts.get(f"{name} epoch", 0), f"{name} is at an older epoch"


def test_a_consumer_group_is_what_was_acknowledged_after_a_crash_at_any_step() -> None:
    crash_everywhere(change_consumer_group, check_consumer_group, seed=3, power=True)


# ---- share groups


async def acknowledge(member: Member, facts: Facts, first: int, last: int, type_: int) -> None:
    is_last = type_ in (ACCEPT, REJECT)
    facts |= {f"ending {offset}": int(is_last) for offset in range(first, last + 1)}
    assert await member.acknowledge(first, last, type_) == (0, 0)
    facts |= {f"ended {offset}": int(is_last) for offset in range(first, last + 1)}


async def acquire(member: Member, facts: Facts, records_max: int) -> list[tuple[int, int, int]]:
    acquired = await member.acquire(max_records=records_max)
    facts |= {f"delivered {offset}": count for first, last, count in acquired for offset in range(first, last + 1)}
    return acquired


async def change_share_group(client: Client, disk: FaultyDisk, history: History) -> None:
    """Records are accepted, released, rejected and delivered again; the offset is altered, and the group deleted."""
    facts = history.facts
    await client.create_topic("t")
    for _ in range(2):
        await client.produce("t", *(b"v",) * (_RECORDS // 2))
    await begin_early(client)
    disk.on_call = history.on_call
    member = Member(client)
    await member.join()
    assert await acquire(member, facts, 5) == [(0, 4, 1)]
    await acknowledge(member, facts, 0, 1, ACCEPT)
    await acknowledge(member, facts, 2, 2, RELEASE)
    await acknowledge(member, facts, 3, 3, REJECT)
    assert await acquire(member, facts, 2) == [(2, 2, 2), (5, 9, 1)]
    await acknowledge(member, facts, 2, 2, ACCEPT)
    await acknowledge(member, facts, 6, 7, ACCEPT)
    assert (await member.leave()).error_code == 0
    facts["altering"] = 1
    assert (await alter_offset(client, 8)).error_code == 0
    facts["altered"] = 1
    await delete_group(client, facts)


async def check_share_group(client: Client, facts: Facts) -> None:
    await Member(client).leave()  # of a member that the group may not have
    member = Member(client, "m2")
    await member.join()
    delivered: dict[int, int] = {}
    for _ in range(_RECORDS):
        for first, last, count in await member.acquire():
            assert not delivered.keys() & set(range(first, last + 1)), "delivered to one member twice"
            delivered |= dict.fromkeys(range(first, last + 1), count)
    anew = dict.fromkeys(range(_RECORDS), 1)
    altered = {8: 1, 9: 1}
    if "deleted" in facts:
        assert delivered == anew
    elif "deleting" in facts:
        assert delivered in (anew, altered), "half a group"
    elif "altered" in facts:
        assert delivered == altered
    elif "altering" not in facts or delivered != altered:
        check_deliveries(delivered, facts)


def check_deliveries(delivered: dict[int, int], facts: Facts) -> None:
    for offset in range(_RECORDS):
        if offset not in delivered:
            assert facts.get(f"ending {offset}", 0), f"record {offset} is lost"
            continue
        assert not facts.get(f"ended {offset}", 0), f"record {offset} was done"
        before = facts.get(f"delivered {offset}", 0)
        assert before < delivered[offset] <= before + 2, f"record {offset}: delivered {delivered[offset]} times"


def test_a_share_group_is_what_was_acknowledged_after_a_crash_at_any_step() -> None:
    crash_everywhere(change_share_group, check_share_group, seed=4, power=True)
