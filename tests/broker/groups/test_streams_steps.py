"""Streams groups (KIP-1071), step by step, without I/O: who gets which tasks when, and what the log keeps.

The property test at the end plays whole groups by random: members that come, go, fall silent and hold on to tasks.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from mainstem.broker.groups.streams import streams_steps as steps
from mainstem.broker.groups.streams.streams_group import StreamsGroup
from mainstem.broker.groups.streams.streams_records import read_record
from mainstem.broker.groups.streams.streams_replay import finish_replay, replay_into
from mainstem.broker.groups.streams.tasks import Task, TaskSet, each_of, gathered
from mainstem.broker.groups.streams.topology import GroupStatus
from mainstem.errors import RemoteError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import streams_group_heartbeat as messages
from tests.broker.groups.test_consumer_steps import CALLER, Topics
from tests.broker.groups.test_topology import subtopology

NOTHING = TaskSet()


def wire(tasks: TaskSet | None) -> dict[str, Any]:
    if tasks is None:
        return {}
    active, standby, warmup = (
        [messages.TaskIds(subtopology_id=each, partitions=sorted(role[each])) for each in role] for role in tasks
    )
    return {"active_tasks": active, "standby_tasks": standby, "warmup_tasks": warmup}


class Driver:
    """A group with its log, its clock and members that do as they are told."""

    def __init__(self, *, standbys: int = 0, **topics: int) -> None:
        self.topics = Topics(**(topics or {"a": 4}))
        self.group = StreamsGroup("g")
        self.log: list[tuple[Any, Any]] = []
        self.time_s = 0.0
        self.settings = steps.StreamsSettings(session_timeout_ms=45_000, standbys=standbys)
        self.subtopologies = [subtopology("0", "a")]

    @property
    def now(self) -> steps.StreamsNow:
        return steps.StreamsNow(self.time_s, int(self.time_s * 1000), self.settings, self.topics)

    def keep(self, step: steps.StreamsStep) -> Any:
        self.group = step.group
        self.log += [read_record(record.key, record.value) for record in step.records]
        return step.answer

    def beat(self, member_id: str, epoch: int, owned: TaskSet | None = None, **more: Any) -> Any:
        request = messages.StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            **wire(owned),
            **{"endpoint_information_epoch": 0, **more},
        )
        steps.check_request(request)
        return self.keep(steps.heartbeat(self.group, request, CALLER, self.now))

    def join(self, member_id: str, process: str | None = None, **more: Any) -> Any:
        topology = messages.Topology(epoch=more.pop("topology_epoch", 0), subtopologies=self.subtopologies)
        given = {"rebalance_timeout_ms": 60_000, "topology": topology, "process_id": process or f"p-{member_id}"} | more
        return self.beat(member_id, 0, NOTHING, **given)

    def pass_time(self, seconds: float) -> None:
        self.time_s += seconds
        self.keep(steps.expire(self.group, self.now))

    def replayed(self) -> StreamsGroup:
        group = StreamsGroup("g")
        for key, value in self.log:
            replay_into(group, key, value)
        finish_replay(group)
        return group


def active_of(answer: Any) -> set[Task]:
    return {(each.subtopology_id, number) for each in answer.active_tasks for number in each.partitions}


def refused(code: ErrorCode, call: Any, *arguments: Any, **more: Any) -> None:
    with pytest.raises(RemoteError) as error:
        call(*arguments, **more)
    assert error.value.code == code


def test_the_first_member_gets_all_tasks_at_once() -> None:
    driver = Driver()
    answer = driver.join("m1")
    assert active_of(answer) == {("0", number) for number in range(4)}
    assert (answer.member_epoch, list(answer.status)) == (2, [])
    assert driver.group.state_name == "Stable"


def test_a_second_member_waits_until_the_first_has_given_up() -> None:
    driver = Driver()
    first = driver.join("m1")
    second = driver.join("m2")
    assert active_of(second) == set()
    kept = driver.beat("m1", first.member_epoch)
    assert len(active_of(kept)) == 2
    assert kept.member_epoch == first.member_epoch  # it stays there until it has given up
    assert active_of(driver.beat("m2", second.member_epoch, NOTHING)) == set()
    owned = TaskSet(gathered(active_of(kept)))
    assert driver.beat("m1", first.member_epoch, owned).member_epoch == second.member_epoch
    got = driver.beat("m2", second.member_epoch)
    assert active_of(got) | active_of(kept) == {("0", number) for number in range(4)}
    assert driver.group.state_name == "Stable"


def test_a_standby_task_is_in_another_process() -> None:
    driver = Driver(standbys=1)
    first = driver.join("m1", "p1")
    assert not first.standby_tasks
    second = driver.join("m2", "p2")
    kept = driver.beat("m1", first.member_epoch)
    owned = TaskSet(gathered(active_of(kept)))
    driver.beat("m1", first.member_epoch, owned)
    driver.beat("m2", second.member_epoch)
    driver.beat("m1", second.member_epoch)
    one, two = (driver.group.members[name].assigned for name in ("m1", "m2"))
    assert (one.standby, two.standby) == (two.active, one.active)


def test_what_is_not_there_is_said_and_nobody_has_tasks() -> None:
    driver = Driver(other=1)
    answer = driver.join("m1")
    assert [(each.status_code, each.status_detail) for each in answer.status] == [
        (GroupStatus.MISSING_SOURCE_TOPICS, "source topics a are missing")
    ]
    assert (active_of(answer), driver.group.state_name) == (set(), "NotReady")
    driver.topics.set("a", 2)
    then = driver.beat("m1", answer.member_epoch)
    assert (list(then.status), active_of(then)) == ([], {("0", 0), ("0", 1)})
    driver.topics.set("a", 0)
    assert active_of(driver.beat("m1", then.member_epoch)) == set()


def test_another_topology_needs_that_no_other_member_is_there() -> None:
    driver = Driver(a=4, b=2)
    epoch = driver.join("m1").member_epoch
    driver.subtopologies = [subtopology("0", "a"), subtopology("1", "b")]
    refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, driver.join, "m2")
    driver.beat("m1", -1)
    assert epoch
    assert driver.group.is_empty
    assert len(active_of(driver.join("m2", topology_epoch=1))) == 6
    driver.subtopologies = [subtopology("0", "a")]
    stale = driver.join("m3")
    assert [each.status_code for each in stale.status] == [GroupStatus.STALE_TOPOLOGY]


def test_one_member_can_end_the_whole_application() -> None:
    driver = Driver()
    epoch = driver.join("m1").member_epoch
    driver.join("m2")
    driver.beat("m2", driver.group.members["m2"].member_epoch, shutdown_application=True)
    told = driver.beat("m1", epoch)
    assert [each.status_code for each in told.status] == [GroupStatus.SHUTDOWN_APPLICATION]
    driver.beat("m1", -1)
    driver.beat("m2", -1)
    assert not list(driver.join("m3").status)


def test_endpoints_tell_who_has_which_partitions() -> None:
    driver = Driver(a=3)
    answer = driver.join("m1", user_endpoint=messages.Endpoint(host="h", port=7), endpoint_information_epoch=-1)
    (told,) = answer.partitions_by_user_endpoint
    assert (told.user_endpoint.host, told.user_endpoint.port) == ("h", 7)
    assert [(each.topic, list(each.partitions)) for each in told.active_partitions] == [("a", [0, 1, 2])]
    same = driver.beat("m1", answer.member_epoch, endpoint_information_epoch=answer.endpoint_information_epoch)
    assert same.partitions_by_user_endpoint is None


def test_offsets_are_committed_at_the_epoch_at_which_a_task_came_or_later() -> None:
    driver = Driver()
    first = driver.join("m1").member_epoch
    driver.join("m2")
    kept = driver.beat("m1", first)
    then = driver.beat("m1", first, TaskSet(gathered(active_of(kept)))).member_epoch
    assert then > first
    topic = driver.topics.topic("a")
    assert topic is not None
    check = driver.group.check_commit("m1", None, first, 9)
    assert check is not None
    mine = {number for _, number in active_of(kept)}
    assert {number for number in range(4) if check(topic.topic_id, number) == ErrorCode.NONE} == mine
    assert driver.group.check_commit("m1", None, then, 9) is None
    refused(ErrorCode.STALE_MEMBER_EPOCH, driver.group.check_commit, "m1", None, then + 1, 9)
    refused(ErrorCode.UNKNOWN_MEMBER_ID, driver.group.check_commit, "m9", None, then, 9)
    refused(ErrorCode.UNSUPPORTED_VERSION, driver.group.check_commit, "m1", None, then, 8)
    refused(ErrorCode.STALE_MEMBER_EPOCH, driver.group.check_fetch, "m1", first)


def test_members_times_tasks_are_bounded_and_a_topology_counts_as_held() -> None:
    driver = Driver(a=10_000)
    for number in range(41):
        driver.join(f"m{number}")
    refused(ErrorCode.GROUP_MAX_SIZE_REACHED, driver.join, "m41")
    member = driver.group.members["m0"]
    assert member.held.names == ("0", "a") == driver.replayed().members["m0"].held.names


def test_a_silent_member_is_out_and_one_that_keeps_tasks_too_long() -> None:
    driver = Driver()
    first = driver.join("m1", rebalance_timeout_ms=10_000).member_epoch
    driver.join("m2")
    driver.beat("m1", first)
    driver.pass_time(11)
    assert set(driver.group.members) == {"m2"}
    driver.pass_time(46)
    assert driver.group.is_empty
    refused(ErrorCode.UNKNOWN_MEMBER_ID, driver.beat, "m2", 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"member_id": " "},
        {"group_id": ""},
        {"instance_id": "i"},
        {"member_epoch": -3},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"process_id": ""},
        {"active_tasks": [messages.TaskIds(subtopology_id="0", partitions=[0])]},
        {"member_epoch": 3},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    topology = messages.Topology(epoch=0, subtopologies=[subtopology("0", "a")])
    request = messages.StreamsGroupHeartbeatRequest(
        **{
            "group_id": "g",
            "member_id": "m",
            "member_epoch": 0,
            "endpoint_information_epoch": 0,
            "rebalance_timeout_ms": 1,
            "topology": topology,
            "process_id": "p",
            **wrong,
        }
    )
    refused(ErrorCode.INVALID_REQUEST, steps.check_request, request)


def test_who_is_at_another_epoch_is_fenced_but_for_a_lost_answer() -> None:
    driver = Driver()
    epoch = driver.join("m1").member_epoch
    refused(ErrorCode.FENCED_MEMBER_EPOCH, driver.beat, "m1", epoch + 1)
    driver.join("m2")
    kept = driver.beat("m1", epoch)
    driver.beat("m1", epoch, TaskSet(gathered(active_of(kept))))
    again = driver.beat("m1", epoch, TaskSet(gathered(active_of(kept))))  # the answer got lost
    assert again.member_epoch > epoch
    refused(ErrorCode.FENCED_MEMBER_EPOCH, driver.beat, "m1", epoch)


# ---- whole groups by random


class Player(Driver):
    """Members with tasks of their own, which they hold on to for a while."""

    def __init__(self, chance: Random, standbys: int) -> None:
        super().__init__(standbys=standbys, a=3, b=4)
        self.subtopologies = [subtopology("0", "a"), subtopology("1", "a", "b")]
        self.chance = chance
        self.held: dict[str, TaskSet] = {}
        self.epochs: dict[str, int] = {}

    def turn(self) -> None:
        name = f"m{self.chance.randrange(5)}"
        if name not in self.epochs:
            self.take(name, self.join(name, f"p{int(name[1:]) % 3}"))
            return
        match self.chance.randrange(12):
            case 0:
                self.beat(name, -1)
                self.drop(name)
            case 1:
                self.pass_time(self.chance.randrange(30))
                for gone in set(self.epochs) - set(self.group.members):
                    self.drop(gone)
            case 2:
                self.topics.set("b", self.chance.randrange(1, 7))
            case 3:
                self.settings = replace(self.settings, standbys=self.chance.randrange(3))
            case 4:
                self.drop(name)  # it comes back with the same id and nothing
            case _:
                self.take(name, self.beat(name, self.epochs[name], self.held[name]))

    def take(self, name: str, answer: Any) -> None:
        self.epochs[name] = answer.member_epoch
        told = TaskSet.of(answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
        kept = self.held.get(name, NOTHING)
        self.held[name] = told if self.chance.random() < 0.7 else kept.plus(told)  # it has yet to give up

    def drop(self, name: str) -> None:
        self.epochs.pop(name, None)
        self.held.pop(name, None)

    def check(self) -> None:
        owners: dict[Task, str] = {}
        for member in self.group.members.values():
            for task in member.active_tasks():
                assert owners.setdefault(task, member.member_id) == member.member_id
        seen: set[tuple[str, Task]] = set()
        for member in self.group.members.values():
            for task in [*member.active_tasks(), *member.copies()]:
                assert (member.process_id, task) not in seen
                seen.add((member.process_id, task))
        again = self.replayed()
        assert again.members == self.group.members
        assert again.targets == {name: self.group.targets.get(name, NOTHING) for name in again.targets}
        assert (again.epoch, again.assignment_epoch) == (self.group.epoch, self.group.assignment_epoch)
        assert (again.topology, again.standbys) == (self.group.topology, self.group.standbys)

    def settle(self) -> None:
        """Every member does as it is told until nothing moves."""
        for name in list(self.group.members):
            if name not in self.epochs:
                self.beat(name, -1)
        if not self.epochs:
            self.take("m0", self.join("m0"))
        for _ in range(12):
            for name in list(self.epochs):
                answer = self.beat(name, self.epochs[name], self.held[name])
                self.epochs[name] = answer.member_epoch
                self.held[name] = TaskSet.of(answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)


@seed(1071)
@settings(max_examples=75, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.integers(0, 2))
def test_no_active_task_has_two_owners_and_all_are_assigned_in_the_end(number: int, standbys: int) -> None:
    player = Player(Random(number), standbys)
    for _ in range(60):
        player.turn()
        player.check()
    player.settle()
    player.check()
    assert player.group.state_name == "Stable"
    counts = player.group.configured.task_counts
    expected = sorted((key, part) for key in counts for part in range(counts[key]))
    assert sorted(task for held in player.held.values() for task in each_of(held.active)) == expected
