"""Groups with members of both protocols, step by step, without I/O; and whole histories by random.

In a history some members speak the consumer protocol, some the classic one: eager ones, which give everything up before
they join again, and cooperative ones, which keep what they have.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from mainstem.broker.groups.classic.classic_group import ClassicGroup, GroupState, Member
from mainstem.broker.groups.classic.classic_steps import ClassicNow, ClassicSettings, Joiner
from mainstem.broker.groups.consumer import consumer_steps as steps
from mainstem.broker.groups.consumer.assignors import Assignment
from mainstem.broker.groups.consumer.consumer_group import ConsumerGroup, MemberState
from mainstem.broker.groups.consumer.consumer_records import member_record, read_record
from mainstem.broker.groups.consumer.consumer_replay import replay_into
from mainstem.broker.groups.migration import conversion, mixed_steps
from mainstem.broker.groups.migration.embedded import read_assignment
from mainstem.broker.groups.records import group_tombstone
from mainstem.errors import RemoteError
from mainstem.protocol.codec import encode_message
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.embedded_consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    EmbeddedTopicPartitions,
)
from mainstem.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mainstem.protocol.messages.sync_group import SyncGroupRequest
from tests.broker.groups.test_consumer_steps import (
    Driver,
    SimulatedMember,
    check_nothing_is_held_twice,
    check_the_log_says_the_same,
    code_of,
    count,
)


def embedded(names: list[str], owned: dict[str, Any] | None = None, version: int = 3) -> bytes:
    """A subscription as clients write it."""
    held = [EmbeddedTopicPartitions(topic=name, partitions=sorted(owned[name])) for name in owned or ()]
    body = ConsumerProtocolSubscription(topics=names, owned_partitions=held)
    return struct.pack(">h", version) + encode_message(body, version)


def given_bytes(user_data: bytes | None = None, **topics: list[int]) -> bytes:
    """An assignment as a leader writes it."""
    parts = [EmbeddedTopicPartitions(topic=name, partitions=numbers) for name, numbers in topics.items()]
    return b"\0\1" + encode_message(ConsumerProtocolAssignment(assigned_partitions=parts, user_data=user_data), 1)


class MixedDriver(Driver):
    """A group whose members may speak the classic protocol."""

    def classic_join(
        self,
        member_id: str,
        *names: str,
        owned: Assignment | None = None,
        protocols: str = "range",
        instance: str | None = None,
        version: int = 9,
    ) -> Any:
        by_id = {self.topics.topic(name).topic_id: name for name in names or ("t",) if self.topics.topic(name)}
        held = {by_id[topic_id]: numbers for topic_id, numbers in (owned or {}).items() if topic_id in by_id}
        metadata = embedded(list(names) or ["t"], held)
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols.split(",")],
        )
        joiner = Joiner("client", "/127.0.0.1", f"new-{len(self.log)}", version >= 4, version >= 9)
        joined = mixed_steps.join(self.group, request, joiner, self.now)
        self.keep(joined.step)
        return joined.answer

    def sync(self, member_id: str, generation_id: int, **more: Any) -> Assignment:
        request = SyncGroupRequest(
            group_id="g", generation_id=generation_id, member_id=member_id, assignments=(), **more
        )
        answer = mixed_steps.sync(self.group, request, self.now)
        return read_assignment(answer.assignment, self.topics)[0]

    def classic_beat(self, member_id: str, generation_id: int, instance: str | None = None) -> ErrorCode:
        return mixed_steps.heartbeat(self.group, member_id, instance, generation_id, self.now)

    def leave(self, member_id: str) -> None:
        self.keep(steps.remove(self.group, [(member_id, None)], self.now)[0])


def classic_group(**assignments: bytes) -> ClassicGroup:
    """A stable classic group of topic t, with these members."""
    group = ClassicGroup("g", state=GroupState.STABLE, generation_id=7, protocol_type="consumer", protocol="range")
    for member_id, assignment in assignments.items():
        protocols = [("range", embedded(["t"]))]
        group.add(Member(member_id, None, "c", "/h", 60_000, 10_000, "consumer", protocols, assignment=assignment))
    return group


def upgraded(driver: MixedDriver, group: ClassicGroup) -> None:
    driver.group, (tombstone, *records) = conversion.upgraded(group, driver.now)
    assert tombstone == group_tombstone("g")
    driver.log += [read_record(record.key, record.value) for record in records]


# ---- upgrade


def test_members_of_a_classic_group_keep_what_they_have_until_they_join_again() -> None:
    driver = MixedDriver(t=4)
    upgraded(driver, classic_group(a=given_bytes(t=[0, 1]), b=given_bytes(t=[2, 3])))
    check_the_log_says_the_same(driver)
    new = driver.join("c")
    assert (new.member_epoch, new.assignment.topic_partitions) == (8, [])
    assert driver.classic_beat("a", 7) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = driver.classic_join("a")
    assert (joined.generation_id, joined.protocol_name, joined.leader) == (8, "range", "")
    first = driver.sync("a", 8)
    joined = driver.classic_join("b")
    second = driver.sync("b", joined.generation_id)
    driver.beat("c", 8, {})
    third = driver.group.members["c"].assigned
    assert sorted(map(count, (first, second, third))) == [1, 1, 2]
    assert {driver.classic_beat("a", 8), driver.classic_beat("b", 8)} == {ErrorCode.NONE}
    check_the_log_says_the_same(driver)


def test_a_partition_that_two_members_were_given_stays_with_one() -> None:
    driver = MixedDriver(t=2)
    upgraded(driver, classic_group(a=given_bytes(t=[0, 1, 9]), b=given_bytes(t=[1])))
    assert [count(member.assigned) for member in driver.group.members.values()] == [2, 0]


def test_a_member_that_has_still_to_give_a_partition_up_keeps_it_from_others() -> None:
    """A cooperative member said that it had both; the last generation gave it one, and it did not yet answer that."""
    driver = MixedDriver(t=2)
    group = classic_group(a=given_bytes(t=[0]))
    group.members["a"].protocols = [("range", embedded(["t"], {"t": [0, 1]}))]
    upgraded(driver, group)
    member = driver.group.members["a"]
    assert (member.state, count(member.pending_revocation)) == (MemberState.UNREVOKED_PARTITIONS, 1)
    assert driver.join("b").assignment.topic_partitions == []
    driver.classic_join("a", owned=driver.group.members["a"].assigned)
    assert count(driver.beat("b", 8, {}) and driver.group.members["b"].assigned) == 1


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({}, False),
        ({"protocol_type": "connect"}, True),
        ({"protocol": "mine", "user_data": b"x"}, True),
        ({"protocol": "range", "user_data": b"x"}, False),
        ({"assignment": b"\0"}, True),
        ({"policy": "downgrade"}, True),
        ({"policy": "disabled"}, True),
        ({"policy": "upgrade"}, False),
        ({"members_max": 0}, True),
    ],
)
def test_a_classic_group_stays_as_it_is_where_it_must(change: dict[str, Any], refused: bool) -> None:
    driver = MixedDriver(t=1)
    group = classic_group(a=change.get("assignment", given_bytes(change.get("user_data"), t=[0])))
    group.protocol_type = change.get("protocol_type", "consumer")
    group.protocol = change.get("protocol", "range")
    group.members["a"].protocols = [(group.protocol, embedded(["t"]))]
    policy = steps.MigrationPolicy(change.get("policy", "bidirectional"))
    driver.settings = steps.ConsumerSettings(members_max=change.get("members_max", 100), migration=policy)

    def upgrade() -> None:
        conversion.check_upgrade(group, driver.settings)
        upgraded(driver, group)

    if refused:
        assert code_of(upgrade) is ErrorCode.GROUP_ID_NOT_FOUND
    else:
        upgrade()


# ---- members of the classic protocol in a consumer group


def test_a_cooperative_member_gives_up_first_and_is_asked_to_join_again() -> None:
    driver = MixedDriver(t=2)
    joined = driver.classic_join("a")
    held = driver.sync("a", joined.generation_id)
    assert count(held) == 2
    driver.join("b")
    assert driver.classic_beat("a", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.classic_join("a", owned=held).generation_id == 2
    kept = driver.sync("a", 2)
    assert (count(kept), driver.classic_beat("a", 2)) == (1, ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.classic_join("a", owned=kept).generation_id == 3
    assert (driver.sync("a", 3), driver.classic_beat("a", 3)) == (kept, ErrorCode.NONE)
    check_the_log_says_the_same(driver)


def test_a_member_waits_for_what_others_have_and_joins_again_when_it_is_free() -> None:
    driver = MixedDriver(t=2)
    driver.join("a")
    assert driver.sync("b", driver.classic_join("b").generation_id) == {}
    assert driver.classic_beat("b", 3) is ErrorCode.NONE
    shall = driver.beat("a", 2)
    driver.beat("a", 2, {item.topic_id: frozenset(item.partitions) for item in shall.assignment.topic_partitions})
    assert driver.classic_beat("b", 3) is ErrorCode.REBALANCE_IN_PROGRESS
    assert count(driver.sync("b", driver.classic_join("b").generation_id)) == 1


def test_a_record_of_an_earlier_version_is_of_a_member_of_the_consumer_protocol() -> None:
    """It has no tag, which Kafka and Mainstem read as a struct of defaults."""
    driver = MixedDriver(t=2)
    driver.join("a")
    record = member_record("g", driver.group.members["a"])
    assert record.value is not None
    assert record.value.endswith(b"\1\0\1\0")
    name, value = read_record(record.key, record.value.removesuffix(b"\1\0\1\0") + b"\0")
    group = ConsumerGroup("g")
    replay_into(group, name, value)
    assert group.members["a"].classic is None


@pytest.mark.parametrize("misses", ["join", "sync", "heartbeat"])
def test_a_member_that_does_not_do_its_part_in_time_is_out(misses: str) -> None:
    driver = MixedDriver(t=2)
    driver.classic_join("a")
    if misses != "sync":
        driver.sync("a", 2)
    driver.join("b")
    for _ in range(4):
        if misses != "heartbeat":
            driver.classic_beat("a", 2)
        driver.pass_time(16)
        driver.group.sessions["b"] = driver.time_s + 45
    assert list(driver.group.members) == ["b"]


def test_requests_that_do_not_fit_are_refused_as_in_kafka() -> None:
    driver = MixedDriver(members_max=3, t=2)
    driver.join("a")
    assert code_of(lambda: driver.classic_join("")) is ErrorCode.MEMBER_ID_REQUIRED
    driver.classic_join("b", protocols="range,sticky")
    assert code_of(lambda: driver.classic_join("c", protocols="mine")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.classic_join("c", protocols="sticky").error_code == 0
    assert code_of(lambda: driver.classic_join("d", protocols="sticky")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code_of(lambda: driver.classic_beat("a", 2)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(lambda: driver.classic_beat("b", 2)) is ErrorCode.ILLEGAL_GENERATION
    assert code_of(lambda: driver.sync("b", 3)) is ErrorCode.REBALANCE_IN_PROGRESS
    assert code_of(lambda: driver.sync("c", 3, protocol_name="range")) is ErrorCode.ILLEGAL_GENERATION
    named = lambda: driver.sync("c", 3 + 1, protocol_name="range")  # noqa: E731
    assert code_of(named) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code_of(lambda: driver.group.check_commit("b", None, 9, 8)) is ErrorCode.ILLEGAL_GENERATION
    assert driver.group.check_commit("b", None, 3, 8) is None
    driver.settings = steps.ConsumerSettings(migration=steps.MigrationPolicy.DISABLED)
    assert code_of(lambda: driver.classic_join("b")) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_static_member_changes_its_protocol_and_keeps_its_place() -> None:
    driver = MixedDriver(t=2)
    driver.join("a", instance_id="one")
    had = driver.group.members["a"].assigned
    joined = driver.classic_join("", instance="one")
    assert driver.sync(joined.member_id, joined.generation_id) == had
    assert code_of(lambda: driver.classic_beat("a", 2, "one")) is ErrorCode.FENCED_INSTANCE_ID
    driver.join("b", instance_id="one")
    assert (list(driver.group.members), driver.group.members["b"].assigned) == (["b"], had)
    assert driver.group.members["b"].classic is None
    check_the_log_says_the_same(driver)


# ---- downgrade


def test_a_group_that_is_classic_again_keeps_what_its_members_have_and_begins_a_rebalance() -> None:
    driver = MixedDriver(t=3)
    joined = driver.classic_join("a")
    held = driver.sync("a", joined.generation_id)
    classic_now = ClassicNow(0.0, 0, ClassicSettings())
    assert conversion.may_downgrade(driver.group, driver.settings, 1)
    assert not conversion.may_downgrade(driver.group, driver.settings, 0)
    for policy, may in (("upgrade", False), ("downgrade", True), ("disabled", False)):
        allowed = steps.ConsumerSettings(migration=steps.MigrationPolicy(policy))
        assert conversion.may_downgrade(driver.group, allowed, 1) is may
    group, _ = conversion.downgraded(driver.group, 5, driver.now, classic_now, settled=False)
    assert (group.state, group.generation_id, group.protocol) == (GroupState.PREPARING_REBALANCE, 5, "range")
    assert read_assignment(group.members["a"].assignment, driver.topics)[0] == held
    assert group.members["a"].session_deadline_s == 45
    settled, _ = conversion.downgraded(driver.group, 5, driver.now, classic_now, settled=True)
    assert settled.state is GroupState.STABLE


# ---- whole groups, by random


class ClassicClient(SimulatedMember):
    """A client of the classic protocol. An eager one gives everything up before it joins again."""

    def __init__(self, member_id: str, names: list[str], *, is_eager: bool) -> None:
        super().__init__(member_id, names)
        self.is_eager = is_eager
        self.must_join = True

    def beat(self, driver: Driver, *, answer_arrives: bool = True) -> None:
        assert isinstance(driver, MixedDriver)
        try:
            if self.must_join:
                self._join(driver, answer_arrives=answer_arrives)
            else:
                code = driver.classic_beat(self.member_id, self.epoch)
                self.must_join = code is ErrorCode.REBALANCE_IN_PROGRESS
        except RemoteError as error:
            self.must_join = True
            if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                self.holds = {}
            elif error.code != ErrorCode.REBALANCE_IN_PROGRESS:
                raise

    def _join(self, driver: MixedDriver, *, answer_arrives: bool) -> None:
        if self.is_eager:
            self.holds = {}
        if self.member_id not in driver.group.members:
            self.epoch = 0  # it was put out and does not know it yet
        joined = driver.classic_join(self.member_id, *self.names, owned=self.holds, protocols="range")
        if not answer_arrives:
            return
        self.epoch = joined.generation_id
        given = driver.sync(self.member_id, self.epoch)
        gave_up = any(number not in given.get(each, ()) for each, numbers in self.holds.items() for number in numbers)
        self.holds = dict(given)
        self.must_join = gave_up

    def obey(self) -> None:
        """It does what it was answered at once."""


@seed(849)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(number=st.integers(0, 2**32))
def test_no_partition_has_two_holders_whatever_protocol_they_speak(number: int) -> None:
    random = Random(number)
    driver = MixedDriver(t0=3, t1=4)
    driver.settings = steps.ConsumerSettings(migration=steps.MigrationPolicy.UPGRADE)
    members: dict[int, SimulatedMember] = {}
    weights = {"beat": 12, "obey": 6, "join": 4, "lose": 2, "leave": 1, "time": 2, "grow": 1}
    for at, action in enumerate(random.choices(list(weights), list(weights.values()), k=90)):
        which = random.randrange(4)
        member = members.get(which)
        if action == "join" and member is None:
            members[which] = _client(f"m{which}-{at}", random)
            members[which].beat(driver)
        elif action == "time":
            driver.pass_time(10 * random.randrange(1, 4))
        elif action == "grow":
            driver.topics.set("t0", driver.topics.topic("t0").partitions + 1)
        elif member is not None and action == "leave":
            if member.member_id in driver.group.members:
                driver.leave(member.member_id)
            del members[which]
        elif member is not None:
            member.obey() if action == "obey" else member.beat(driver, answer_arrives=action == "beat")
        check_nothing_is_held_twice(driver, members.values())
    check_the_log_says_the_same(driver)
    _settle(driver, members)


def _client(member_id: str, random: Random) -> SimulatedMember:
    names = ["t0", "t1"]
    kind = random.choice(["modern", "eager", "cooperative"])
    return (
        SimulatedMember(member_id, names)
        if kind == "modern"
        else ClassicClient(member_id, names, is_eager=kind == "eager")
    )


def _settle(driver: MixedDriver, members: dict[int, SimulatedMember]) -> None:
    for _ in range(20):
        driver.pass_time(5)
        for member in members.values():
            member.beat(driver)
            member.obey()
            check_nothing_is_held_twice(driver, members.values())
    held = [partition for member in members.values() for partition in member.partitions()]
    modern = any(not isinstance(member, ClassicClient) for member in members.values())
    assert len(held) == len(set(held))
    # Without a member of the consumer protocol no heartbeat looks at the topics.
    assert not modern or set(held) == driver.topics.partitions()
    assert driver.group.state_name == ("Stable" if members else "Empty")
