"""A crash between any two steps of the disk, while topics come and go, offsets are committed and groups change.

One history runs on a simulated disk, which is copied at every call that it gets. Each copy is then a disk whose power
was cut there: a broker starts on it, and has to hold what was acknowledged up to that call. Invariants: an acknowledged
commit is there; a topic that was recreated inherits no record and no committed offset; no topic is half there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_topics import CreateTopicsRequest
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest
from mainstem.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from mainstem.testing.disk import CutDisk, FaultyDisk
from tests.broker.handlers.test_groups import commit, committed, described, join, sync
from tests.broker.handlers.test_topics import creatable
from tests.broker.harness import Client, running

DATA = Path("/data")
SETTINGS = {"offsets.topic.num.partitions": "3"}
GROUPS = ("g", "h", "i")
PARTITIONS = 2


Facts = dict[str, int]


@dataclass
class History:
    """What was acknowledged up to each crash point, and the disk as a crash would find it."""

    seed: int
    facts: Facts = field(default_factory=dict)
    points: list[tuple[FaultyDisk, Facts]] = field(default_factory=list)

    def on_call(self, cut: CutDisk) -> None:
        self.points.append((cut.copy(self.seed + len(self.points)), dict(self.facts)))


Live = Callable[[Client, FaultyDisk, History], Awaitable[None]]
Check = Callable[[Client, Facts], Awaitable[None]]


async def delete(client: Client, name: str) -> int:
    response = await client.request(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5)
    return int(response.responses[0].error_code)


async def remake_topic(client: Client, disk: FaultyDisk, history: History) -> None:
    """Commit in a topic, delete it, recreate it, and commit in the new one."""
    await _commit_in_former_topic(client, disk, history)
    assert await delete(client, "t") == 0
    history.facts["deleted"] = 1
    await client.create_topic("t", PARTITIONS)
    await _commit_in_new_topic(client, history)


async def remake_topic_meanwhile(client: Client, disk: FaultyDisk, history: History) -> None:
    """The same, while another client makes the topic again as soon as its name is free."""
    await _commit_in_former_topic(client, disk, history)
    other = await client.another()
    deletion = asyncio.create_task(delete(client, "t"))
    made = CreateTopicsRequest(topics=[creatable("t", PARTITIONS)])
    while (await other.request(made, 7)).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
        await asyncio.sleep(0)
    assert await deletion == 0
    history.facts["deleted"] = 1
    await _commit_in_new_topic(client, history)


async def _commit_in_former_topic(client: Client, disk: FaultyDisk, history: History) -> None:
    facts = history.facts
    await client.create_topic("t", PARTITIONS)
    for _ in range(5):
        await client.produce("t", b"former", partition=1)
    topic = client.broker.node.topics.get("t")
    assert topic is not None
    facts |= {"life": 1, "former": topic.topic_id.int}
    disk.on_call = history.on_call
    for group in GROUPS:
        assert await commit(client, 5, group=group, partition=1) == 0
        facts[f"committed {group}"] = 5
    facts["deleting"] = 1


async def _commit_in_new_topic(client: Client, history: History) -> None:
    facts = history.facts
    facts["life"] = 2
    for _ in range(3):
        assert (await client.produce("t", b"new", partition=1)).error_code == 0
    facts["written"] = 3
    facts["again"] = 1
    assert await commit(client, 2, group="g", partition=1) == 0
    facts["committed again"] = 2


async def check_topic(client: Client, facts: Facts) -> None:
    topic = client.broker.node.topics.get("t")
    if topic is None:
        assert "deleting" in facts, "an acknowledged topic is missing"
        assert facts["life"] == 1, "the new topic was acknowledged"
        await client.create_topic("t", PARTITIONS)
        is_former = False
    else:
        is_former = topic.topic_id.int == facts["former"]
    if is_former:
        assert "deleted" not in facts, "a deleted topic came back"
    for partition in range(PARTITIONS):
        assert (await client.produce("t", b"after", partition=partition)).error_code == 0
    values = await client.values("t", partition=1)
    if is_former:
        assert values[:5] == [b"former"] * 5
    else:
        assert b"former" not in values, "records of the former topic"
        assert values.count(b"new") >= facts.get("written", 0)
    for group in GROUPS:
        offset = (await committed(client, group, 1))[0]
        if is_former:
            assert offset == 5 if f"committed {group}" in facts else offset in (-1, 5)
        elif group == "g" and "committed again" in facts:
            assert offset == 2
        else:
            assert offset in (-1, 2 if "again" in facts and group == "g" else -1), "an offset of the former topic"


async def change_group(client: Client, disk: FaultyDisk, history: History) -> None:
    """A group gets a generation, commits, loses its member, and is deleted."""
    facts = history.facts
    await client.create_topic("t", PARTITIONS)
    disk.on_call = history.on_call
    joined = await join(client)
    facts["syncing"] = 1
    assert (await sync(client, joined)).assignment == b"mine"
    facts["stable"] = 1
    facts["committing"] = 1
    assert await commit(client, 7, joined=joined) == 0
    facts["committed"] = 1
    facts["leaving"] = 1
    leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)])
    assert (await client.request(leaving, 5)).members[0].error_code == 0
    facts["left"] = 1
    facts["deleting"] = 1
    answer = await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert answer.results[0].error_code == 0
    facts["deleted"] = 1


async def check_group(client: Client, facts: Facts) -> None:
    state = (await described(client)).group_state
    offset = (await committed(client))[0]
    if "deleted" in facts:
        assert (state, offset) == ("Dead", -1)
    elif "deleting" in facts:
        assert (state, offset) in (("Dead", -1), ("Empty", 7)), "half a group"
    elif "leaving" in facts:
        assert state == "Empty" if "left" in facts else state in ("Stable", "Empty")
        assert offset == 7
    else:
        known = {"Stable"} if "stable" in facts else {"Dead", "Empty", *(["Stable"] if "syncing" in facts else [])}
        assert state in known
        assert offset == 7 if "committed" in facts else offset in (-1, 7 if "committing" in facts else -1)
    if state != "Stable":  # there a new member waits for the one of before the crash
        assert (await sync(client, await join(client))).assignment == b"mine"


def run(disk: FaultyDisk, life: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with running(DATA, SETTINGS, disk=disk) as client:
            await life(client)

    asyncio.run(main())


def crash_everywhere(live: Live, check: Check, *, seed: int, power: bool) -> None:
    """Run ``live`` once, then ``check`` on the disk of each crash point: ``power`` is cut, or the process killed."""
    history = History(seed)
    disk = FaultyDisk(seed)
    run(disk, lambda client: live(client, disk, history))
    assert len(history.points) > 20
    for number, (after, facts) in enumerate(history.points):
        if power:
            after.power_cut()
        else:
            after.kill()
        try:
            run(after, lambda client, facts=facts: check(client, facts))  # type: ignore[misc]
        except AssertionError as error:
            raise AssertionError(f"crash at call {number}, acknowledged before: {facts}: {error}") from error


@pytest.mark.parametrize(
    ("live", "power"), [(remake_topic, True), (remake_topic, False), (remake_topic_meanwhile, True)]
)
def test_a_topic_that_was_made_again_inherits_nothing_over_a_crash_at_any_step(live: Live, power: bool) -> None:
    crash_everywhere(live, check_topic, seed=1, power=power)


def test_a_group_is_what_was_acknowledged_after_a_crash_at_any_step() -> None:
    crash_everywhere(change_group, check_group, seed=2, power=True)
