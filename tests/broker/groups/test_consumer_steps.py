"""Consumer groups (KIP-848), step by step, without I/O: who gets what when, who is fenced, and what the log keeps.

The property tests at the end play whole groups by random: members that come, go, fall silent, lose answers and hold on
to partitions for a while.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from mainstem.broker.groups.consumer import consumer_steps as steps
from mainstem.broker.groups.consumer.assignors import Assignment
from mainstem.broker.groups.consumer.consumer_group import ConsumerGroup, assignment_of
from mainstem.broker.groups.consumer.consumer_records import current_record, member_record, read_record
from mainstem.broker.groups.consumer.consumer_replay import finish_replay, replay_into
from mainstem.errors import RemoteError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions

CALLER = steps.Caller("client", "/127.0.0.1")


class Topics:
    """A catalog that tests change."""

    def __init__(self, **topics: int) -> None:
        self.version = 0
        self._topics: dict[str, steps.GroupTopic] = {}
        for name, partitions in topics.items():
            self.set(name, partitions)

    def set(self, name: str, partitions: int) -> None:
        """Create a topic, let it grow, or delete it (0); a new one has a new id."""
        self.version += 1
        if partitions == 0:
            self._topics.pop(name, None)
        else:
            old = self._topics.get(name)
            topic_id = old.topic_id if old is not None else UUID(int=self.version * 1000 + len(name))
            self._topics[name] = steps.GroupTopic(topic_id, max(partitions, old.partitions if old else 0))

    def topic(self, name: str) -> steps.GroupTopic | None:
        return self._topics.get(name)

    def matching(self, pattern: str) -> frozenset[str] | None:
        return frozenset(name for name in self._topics if re.fullmatch(pattern, name))

    def partitions(self) -> set[tuple[UUID, int]]:
        return {(info.topic_id, number) for info in self._topics.values() for number in range(info.partitions)}


class Driver:
    """A group with its log, its clock and clients that do as they are told."""

    def __init__(self, *, members_max: int = 100, **topics: int) -> None:
        self.topics = Topics(**topics)
        self.group = ConsumerGroup("g")
        self.log: list[tuple[Any, Any]] = []
        self.time_s = 0.0
        self.settings = steps.ConsumerSettings(session_timeout_ms=45_000, members_max=members_max)
        self.hidden: set[str] = set()

    @property
    def now(self) -> steps.ConsumerNow:
        return steps.ConsumerNow(self.time_s, int(self.time_s * 1000), self.settings, self.topics, self.may_see)

    def may_see(self, topic: str) -> bool:
        return topic not in self.hidden

    def keep(self, step: steps.Step) -> Any:
        self.group = step.group
        self.log += [read_record(record.key, record.value) for record in step.records]
        return step.answer

    def beat(self, member_id: str, epoch: int, owned: Assignment | None = None, **more: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, topic_partitions=wire(owned), **more
        )
        steps.check_request(request, 1, self.settings)
        return self.keep(steps.heartbeat(self.group, request, CALLER, self.now))

    def join(self, member_id: str, *names: str, **more: Any) -> Any:
        more = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(names) or ["t"]} | more
        return self.beat(member_id, 0, {}, **more)

    def pass_time(self, seconds: float) -> None:
        self.time_s += seconds
        self.keep(steps.expire(self.group, self.now))

    def replayed(self) -> ConsumerGroup:
        group = ConsumerGroup("g")
        for key, value in self.log:
            replay_into(group, key, value)
        finish_replay(group)
        return group


def wire(owned: Assignment | None) -> Any:
    if owned is None:
        return None
    return [RequestTopicPartitions(topic_id=id_, partitions=sorted(numbers)) for id_, numbers in owned.items()]


def given_by(answer: Any) -> Assignment:
    return assignment_of((item.topic_id, item.partitions) for item in answer.assignment.topic_partitions)


def count(assignment: Assignment) -> int:
    return sum(len(numbers) for numbers in assignment.values())


def code_of(call: Any) -> ErrorCode:
    with pytest.raises(RemoteError) as raised:
        call()
    return ErrorCode(raised.value.code)


def test_the_first_member_gets_everything_at_once() -> None:
    driver = Driver(t=3)
    answer = driver.join("a")
    assert (answer.member_epoch, answer.heartbeat_interval_ms, count(given_by(answer))) == (2, 5000, 3)
    assert driver.group.state_name == "Stable"


def test_a_partition_is_given_up_before_another_member_gets_it() -> None:
    driver = Driver(t=2)
    all_ = given_by(driver.join("a"))
    joined = driver.join("b")
    assert (joined.member_epoch, given_by(joined)) == (3, {})
    told = driver.beat("a", 2)
    kept = given_by(told)
    assert (told.member_epoch, count(kept)) == (2, 1)
    assert driver.beat("b", 3).assignment is None
    assert driver.beat("a", 2, all_).assignment is None
    assert driver.beat("a", 2, kept).member_epoch == 3
    assert count(given_by(driver.beat("b", 3))) == 1
    assert driver.group.state_name == "Stable"


def test_a_heartbeat_without_news_says_nothing_and_writes_nothing() -> None:
    driver = Driver(t=2)
    driver.join("a")
    written = len(driver.log)
    assert driver.beat("a", 2).assignment is None
    assert len(driver.log) == written


def test_a_full_heartbeat_is_answered_in_full() -> None:
    driver = Driver(t=2)
    owned = given_by(driver.join("a"))
    again = driver.beat("a", 2, owned, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"])
    assert given_by(again) == owned


def test_a_lost_answer_is_given_again_to_the_epoch_before() -> None:
    driver = Driver(t=2)
    driver.join("a")
    driver.join("b")
    kept = given_by(driver.beat("a", 2))
    assert driver.beat("a", 2, kept).member_epoch == 3
    assert driver.beat("a", 2, kept).member_epoch == 3
    assert code_of(lambda: driver.beat("a", 2)) is ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("epoch", [7, 99])
def test_an_epoch_that_was_never_given_is_fenced(epoch: int) -> None:
    driver = Driver(t=2)
    driver.join("a")
    assert code_of(lambda: driver.beat("a", epoch)) is ErrorCode.FENCED_MEMBER_EPOCH


def test_who_is_no_member_is_told_so() -> None:
    driver = Driver(t=2)
    driver.join("a")
    assert code_of(lambda: driver.beat("x", 2)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: driver.beat("x", -1)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_joins_again_goes_on_where_it_was() -> None:
    driver = Driver(t=2)
    first = given_by(driver.join("a"))
    for instance_id in (None, "one", "two"):
        again = driver.join("a", instance_id=instance_id)
        assert (again.member_epoch, given_by(again)) == (2, first)


def test_what_a_member_leaves_goes_to_the_others() -> None:
    driver = Driver(t=2)
    driver.join("a")
    driver.join("b")
    kept = given_by(driver.beat("a", 2))
    driver.beat("a", 2, kept)
    assert driver.beat("b", -1).member_epoch == -1
    assert count(given_by(driver.beat("a", 3))) == 2


def test_a_silent_member_is_out_after_its_session() -> None:
    driver = Driver(t=2)
    driver.join("a")
    driver.pass_time(44)
    driver.join("b")
    driver.pass_time(2)
    assert list(driver.group.members) == ["b"]
    assert count(given_by(driver.beat("b", 3))) == 2


def test_who_does_not_give_partitions_up_in_time_is_out() -> None:
    driver = Driver(t=2)
    all_ = given_by(driver.join("a", rebalance_timeout_ms=10_000))
    driver.join("b")
    driver.beat("a", 2, all_)
    driver.pass_time(11)
    assert list(driver.group.members) == ["b"]
    assert code_of(lambda: driver.beat("a", 2, all_)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_gave_up_in_time_stays() -> None:
    driver = Driver(t=2)
    driver.join("a", rebalance_timeout_ms=10_000)
    driver.join("b")
    driver.beat("a", 2, given_by(driver.beat("a", 2)))
    driver.pass_time(11)
    assert list(driver.group.members) == ["a", "b"]


def test_a_static_member_that_is_back_under_another_id_has_what_it_had() -> None:
    driver = Driver(t=4)
    driver.join("a", instance_id="one")
    driver.join("b", instance_id="two")
    driver.beat("a", 2, given_by(driver.beat("a", 2)))
    had = given_by(driver.beat("b", 3))
    assert code_of(lambda: driver.join("c", instance_id="two")) is ErrorCode.UNRELEASED_INSTANCE_ID
    assert driver.beat("b", -2, instance_id="two").member_epoch == -2
    back = driver.join("c", instance_id="two")
    assert (back.member_epoch, given_by(back)) == (3, had)
    assert code_of(lambda: driver.beat("b", 3, instance_id="two")) is ErrorCode.FENCED_INSTANCE_ID
    assert sorted(driver.group.members) == ["a", "c"]


def test_a_static_member_that_does_not_come_back_loses_its_place() -> None:
    driver = Driver(t=4)
    driver.join("a", instance_id="one")
    driver.beat("a", -2, instance_id="one")
    driver.pass_time(46)
    assert driver.group.is_empty


def test_new_partitions_and_topics_are_shared_out_at_the_next_heartbeat() -> None:
    driver = Driver(t=2)
    driver.join("a", "t", "later")
    driver.topics.set("t", 5)
    assert count(given_by(driver.beat("a", 2))) == 5
    driver.topics.set("later", 2)
    assert count(given_by(driver.beat("a", 3))) == 7
    driver.topics.set("other", 2)
    assert (driver.beat("a", 4).assignment, driver.group.epoch) == (None, 4)


def test_a_topic_that_is_made_anew_is_another_one() -> None:
    driver = Driver(t=2)
    old = given_by(driver.join("a"))
    driver.topics.set("t", 0)
    driver.topics.set("t", 2)
    assert given_by(driver.beat("a", 2)) == {}
    new = given_by(driver.beat("a", 2, {}))
    assert count(new) == 2
    assert new.keys().isdisjoint(old)


def test_a_regular_expression_follows_the_topics() -> None:
    driver = Driver(orders=1, other=1)
    answer = driver.join("a", subscribed_topic_names=None, subscribed_topic_regex="or.*")
    assert count(given_by(answer)) == 1
    driver.topics.set("orbit", 2)
    assert count(given_by(driver.beat("a", 2))) == 3
    driver.beat("a", 3, subscribed_topic_regex="")
    assert driver.group.patterns == {}


def test_a_regular_expression_finds_no_topic_that_the_member_may_not_see() -> None:
    driver = Driver(orders=1, orbit=1)
    driver.hidden = {"orbit"}
    answer = driver.join("a", subscribed_topic_names=None, subscribed_topic_regex="or.*")
    assert count(given_by(answer)) == 1
    assert driver.group.patterns["or.*"].topics == {"orders"}


def test_two_owners_of_a_partition_in_a_rotten_log_are_not_believed() -> None:
    driver = Driver(t=2)
    driver.join("a")
    other = replace(driver.group.members["a"], member_id="b")
    for record in (member_record("g", other), current_record("g", other)):
        driver.log.append(read_record(record.key, record.value))
    assert list(driver.replayed().members) == ["a"]


def test_a_topic_that_nobody_subscribes_to_any_more_is_taken_back() -> None:
    driver = Driver(t=1, u=1)
    driver.join("a", "t", "u")
    told = given_by(driver.beat("a", 2, subscribed_topic_names=["t"]))
    assert count(told) == 1
    assert driver.beat("a", 2, told).member_epoch == 3


def test_the_assignor_that_most_members_want_is_used() -> None:
    driver = Driver(t=3, u=3)
    driver.join("a", "t", "u", server_assignor="range")
    assert driver.group.preferred_assignor("uniform") == "range"
    unknown = lambda: driver.join("b", server_assignor="mine")  # noqa: E731
    assert code_of(unknown) is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_full_group_takes_nobody_in() -> None:
    driver = Driver(members_max=1, t=1)
    driver.join("a")
    assert code_of(lambda: driver.join("b")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.join("a").error_code == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"rebalance_timeout_ms": -1},
        {"subscribed_topic_names": None},
        {"instance_id": ""},
        {"rack_id": ""},
        {"member_epoch": -3},
        {"member_epoch": -2},
        {"member_id": ""},
        {"topic_partitions": None},
    ],
)
def test_a_heartbeat_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    fields = {
        "group_id": "g",
        "member_id": "a",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    request = ConsumerGroupHeartbeatRequest(**(fields | wrong))
    refused = lambda: steps.check_request(request, 1, steps.ConsumerSettings())  # noqa: E731
    assert code_of(refused) is ErrorCode.INVALID_REQUEST


def test_offsets_are_committed_at_the_member_s_epoch() -> None:
    driver = Driver(t=1)
    driver.join("a")
    driver.group.check_commit("a", None, 2, 9)
    assert code_of(lambda: driver.group.check_commit("a", None, 3, 9)) is ErrorCode.STALE_MEMBER_EPOCH
    assert code_of(lambda: driver.group.check_commit("a", None, 2, 8)) is ErrorCode.UNSUPPORTED_VERSION
    assert code_of(lambda: driver.group.check_commit("", None, -1, 9)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: driver.group.check_fetch("a", 3)) is ErrorCode.STALE_MEMBER_EPOCH
    driver.group.check_fetch(None, -1)


def test_offsets_are_committed_at_an_older_epoch_where_the_member_had_the_partition_then() -> None:
    """KIP-1251: the epoch of the partition's assignment counts, also after a replay and for what is to be given up."""
    driver = Driver(t=4)
    driver.join("a")
    driver.join("b")
    kept = given_by(driver.beat("a", 2))
    driver.beat("a", 2, kept)
    driver.beat("b", 3)
    driver.join("c", "other")
    driver.beat("b", 3)
    for group in (driver.group, driver.replayed()):
        a, b = group.member("a"), group.member("b")
        assert (a.member_epoch, b.member_epoch, count(a.assigned), count(b.assigned)) == (3, 4, 2, 2)
        early, late = group.check_commit("a", None, 2, 9), group.check_commit("b", None, 3, 9)
        too_early = group.check_commit("b", None, 2, 9)
        assert early is not None
        assert late is not None
        assert too_early is not None
        assert {early(*each) for each in a.owned()} == {ErrorCode.NONE}
        assert {early(*each) for each in b.owned()} == {ErrorCode.STALE_MEMBER_EPOCH}
        assert {late(*each) for each in b.owned()} == {ErrorCode.NONE}
        assert {too_early(*each) for each in b.owned()} == {ErrorCode.STALE_MEMBER_EPOCH}


# ---- whole groups, by random


class SimulatedMember:
    """A client: it holds what it was given, and gives up what it shall not have, when it gets to it. When an answer
    did not come, its next heartbeat says everything, so that it is answered in full.
    """

    def __init__(self, member_id: str, names: list[str]) -> None:
        self.member_id = member_id
        self.names = names
        self.epoch = 0
        self.holds: dict[UUID, frozenset[int]] = {}
        self.shall: Assignment | None = None
        self.is_unsure = False

    def beat(self, driver: Driver, *, answer_arrives: bool = True) -> None:
        try:
            if self.epoch == 0:
                answer = driver.join(self.member_id, *self.names)
            else:
                everything = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": self.names}
                more = everything if self.is_unsure else {}
                answer = driver.beat(self.member_id, self.epoch, self.holds, **more)
        except RemoteError as error:
            if error.code not in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                raise
            self.epoch, self.holds, self.shall, self.is_unsure = 0, {}, None, False
            return
        self.is_unsure = not answer_arrives
        if answer_arrives:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.shall = given_by(answer)

    def obey(self) -> None:
        """Give up and take what the last answer said, unless a newer answer got lost, which may say otherwise."""
        if self.shall is not None and not self.is_unsure:
            self.holds, self.shall = dict(self.shall), None

    def partitions(self) -> Iterable[tuple[UUID, int]]:
        return ((topic_id, number) for topic_id, numbers in self.holds.items() for number in numbers)


def check_nothing_is_held_twice(driver: Driver, members: Iterable[SimulatedMember]) -> None:
    """Of members that are in the group; who was put out without knowing it yet is what the epochs are for."""
    seen: dict[tuple[UUID, int], str] = {}
    for member in members:
        if member.member_id in driver.group.members and member.epoch > 0:
            for partition in member.partitions():
                assert seen.setdefault(partition, member.member_id) == member.member_id


def check_the_log_says_the_same(driver: Driver) -> None:
    replayed, live = driver.replayed(), driver.group
    for name in ("epoch", "metadata_hash", "assignment_epoch", "members", "targets", "owners", "static_members"):
        assert getattr(replayed, name) == getattr(live, name), name
    assert replayed.patterns.keys() == live.patterns.keys()


WEIGHTS = {"beat": 12, "obey": 6, "join": 3, "lose an answer": 2, "leave": 1, "time": 2, "grow": 1, "drop": 1}


def actions_by(random: Random) -> list[tuple[str, int]]:
    """What happens, and to which member or topic; mostly members that beat and obey."""
    kinds = random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=80)
    return [("join", 0), ("obey", 0), *((kind, random.randrange(3)) for kind in kinds)]


@seed(848)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(number=st.integers(0, 2**32))
def test_no_partition_has_two_holders_and_in_the_end_each_has_one(number: int) -> None:
    _play(actions_by(Random(number)))


def _play(actions: list[tuple[str, int]]) -> None:
    driver = Driver(t0=3, t1=4, t2=1)
    members: dict[int, SimulatedMember] = {}
    generation = 0
    for action, number in actions:
        member = members.get(number)
        if action == "join" and member is None:
            generation += 1
            members[number] = SimulatedMember(f"m{number}-{generation}", [f"t{topic}" for topic in range(3)])
            members[number].beat(driver)
        elif action == "time":
            driver.pass_time(10 * (number + 1))
        elif action in ("grow", "drop"):
            name = f"t{number}"
            info = driver.topics.topic(name)
            driver.topics.set(name, 0 if action == "drop" else (info.partitions if info else 0) + 2)
        elif member is not None:
            if action == "obey":
                member.obey()
            elif action == "leave":
                if member.member_id in driver.group.members:
                    driver.beat(member.member_id, -1)
                del members[number]
            else:
                member.beat(driver, answer_arrives=action == "beat")
        check_nothing_is_held_twice(driver, members.values())
    check_the_log_says_the_same(driver)
    _settle(driver, members)
    held = [partition for member in members.values() for partition in member.partitions()]
    assert len(held) == len(set(held))
    assert not members or set(held) == driver.topics.partitions()


def _settle(driver: Driver, members: dict[int, SimulatedMember]) -> None:
    """Everybody beats and obeys; members that nobody speaks for fall silent."""
    for _ in range(6):
        driver.pass_time(20)
        for member in members.values():
            member.beat(driver)
            member.obey()
            check_nothing_is_held_twice(driver, members.values())
    for _ in range(12):
        for member in members.values():
            member.beat(driver)
            member.obey()
            check_nothing_is_held_twice(driver, members.values())
    assert driver.group.state_name == ("Stable" if members else "Empty")
