"""A share group, step by step: what its members are told, and that its state is a replay of its records."""

from __future__ import annotations

import copy
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.coordinator.timers import NEVER
from mainstem.broker.share import group_records, group_steps
from mainstem.broker.share.assignor import TopicShape
from mainstem.broker.share.group import ShareGroup
from mainstem.broker.share.group_steps import GroupEffects, GroupLimits, ShareNow
from mainstem.errors import RemoteError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

IDS = {"t": UUID(int=1), "u": UUID(int=2)}


class Driver:
    """A group with its clock, its topics, and the records that it wrote."""

    def __init__(self, members_max: int = 10) -> None:
        self.group = ShareGroup("g")
        self.topics = {"t": TopicShape(IDS["t"], 4), "u": TopicShape(IDS["u"], 1)}
        self.time_s = 0.0
        self.limits = GroupLimits(members_max, 5000, 45_000)
        self.log: list[StateRecord] = []
        self.epochs: dict[str, int] = {}

    @property
    def now(self) -> ShareNow:
        return ShareNow(self.time_s, int(self.time_s * 1000), self.limits)

    def _run(self, effects: GroupEffects) -> GroupEffects:
        self.log += effects.records
        return effects

    def heartbeat(self, member: str, *topics: str, epoch: int | None = None) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id="g",
            member_id=member,
            member_epoch=self.epochs.get(member, 0) if epoch is None else epoch,
            subscribed_topic_names=list(topics) or None,
        )
        group_steps.check_request(request)
        effects = self._run(group_steps.heartbeat(self.group, request, ("client", "/host"), self.topics, self.now))
        assert effects.answer is not None
        self.epochs[member] = effects.answer.member_epoch if effects.answer.member_epoch > 0 else 0
        return effects.answer

    def expire(self, after_s: float) -> list[str]:
        self.time_s += after_s
        before = list(self.group.members)
        self._run(group_steps.expire(self.group, self.topics, self.now))
        return [member_id for member_id in before if member_id not in self.group.members]

    def replayed(self) -> ShareGroup:
        group = ShareGroup("g")
        for key, value in self.log:
            change = group_records.read_share_group_change(key, value)
            if change.member_id is not None:
                group_steps.replay_member(group, change)
            else:
                group_steps.replay_group(group, change)
        return group


def told(answer: Any) -> dict[UUID, list[int]]:
    return {topic.topic_id: list(topic.partitions) for topic in answer.assignment.topic_partitions}


def refused(driver: Driver, member: str, *topics: str, epoch: int | None = None) -> ErrorCode:
    with pytest.raises(RemoteError) as raised:
        driver.heartbeat(member, *topics, epoch=epoch)
    return ErrorCode(raised.value.code)


def test_a_member_is_told_its_assignment_when_it_joins_and_when_it_changes() -> None:
    driver = Driver()
    assert told(driver.heartbeat("a", "t")) == {IDS["t"]: [0, 1, 2, 3]}
    assert driver.heartbeat("a").assignment is None
    assert len(told(driver.heartbeat("b", "t"))[IDS["t"]]) == 2
    assert len(told(driver.heartbeat("a"))[IDS["t"]]) == 2
    assert driver.heartbeat("a").assignment is None


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    driver = Driver()
    driver.heartbeat("a", "t")
    before = list(driver.log)
    driver.heartbeat("a")
    driver.heartbeat("a", "t")
    assert driver.log == before


def test_a_member_whose_answer_got_lost_goes_on_with_the_epoch_before() -> None:
    driver = Driver()
    first = driver.heartbeat("a", "t").member_epoch
    driver.heartbeat("b", "t")
    second = driver.heartbeat("a").member_epoch
    assert second > first
    assert driver.heartbeat("a", epoch=first).member_epoch == second
    assert refused(driver, "a", epoch=second + 1) == ErrorCode.FENCED_MEMBER_EPOCH


def test_topics_that_grow_appear_or_go_make_a_new_assignment() -> None:
    driver = Driver()
    driver.heartbeat("a", "t", "later")
    driver.topics["t"] = TopicShape(IDS["t"], 6)
    assert told(driver.heartbeat("a")) == {IDS["t"]: [0, 1, 2, 3, 4, 5]}
    driver.topics["later"] = TopicShape(UUID(int=9), 1)
    assert told(driver.heartbeat("a"))[UUID(int=9)] == [0]
    del driver.topics["t"]
    assert told(driver.heartbeat("a")) == {UUID(int=9): [0]}


def test_what_a_member_leaves_goes_to_the_others() -> None:
    driver = Driver()
    driver.heartbeat("a", "t")
    driver.heartbeat("b", "t")
    assert len(told(driver.heartbeat("a"))[IDS["t"]]) == 2
    answer = driver.heartbeat("b", epoch=-1)
    assert answer.member_epoch == -1
    assert told(driver.heartbeat("a")) == {IDS["t"]: [0, 1, 2, 3]}


def test_a_silent_member_is_out_and_one_that_beats_is_not() -> None:
    driver = Driver()
    driver.heartbeat("a", "t")
    driver.time_s += 30
    driver.heartbeat("b", "t")
    assert driver.group.next_deadline_s == 45.0
    assert driver.expire(15) == ["a"]
    assert list(driver.group.members) == ["b"]


def test_a_group_takes_no_more_members_than_it_may_have() -> None:
    driver = Driver(members_max=1)
    driver.heartbeat("a", "t")
    assert refused(driver, "b", "t") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.heartbeat("a", "t", epoch=0).error_code == 0


_MEMBERS = st.sampled_from("abc")
_STEPS = st.one_of(
    st.tuples(st.just("heartbeat"), _MEMBERS, st.sets(st.sampled_from("tu"))),
    st.tuples(st.just("leave"), _MEMBERS),
    st.tuples(st.just("expire"), st.integers(0, 50)),
    st.tuples(st.just("grow"), st.sampled_from("tu"), st.integers(1, 6)),
)


@settings(max_examples=150)
@given(st.lists(_STEPS, max_size=25))
def test_whatever_happens_the_state_is_a_replay_of_the_records(steps: list[tuple[Any, ...]]) -> None:
    driver = Driver()
    for name, *arguments in steps:
        try:
            if name == "heartbeat":
                driver.heartbeat(arguments[0], *arguments[1])
            elif name == "leave":
                driver.heartbeat(arguments[0], epoch=-1)
            elif name == "expire":
                driver.expire(arguments[0])
            else:
                driver.topics[arguments[0]] = TopicShape(IDS[arguments[0]], arguments[1])
        except RemoteError:
            continue
        expected = copy.deepcopy(driver.group)
        for member in expected.members.values():
            member.session_deadline_s = NEVER
        assert driver.replayed() == expected
