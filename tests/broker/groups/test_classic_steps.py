"""Rebalances of a classic group, step by step, without I/O and with a clock that stands still until it is told."""

from __future__ import annotations

from typing import Any

from mainstem.broker.groups.classic import classic_steps as steps
from mainstem.broker.groups.classic.classic_group import ClassicGroup, GroupState
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mainstem.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from mainstem.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


class Driver:
    """A group, its clock, and the answers that its members got, by name."""

    def __init__(self, delay_ms: int = 0, members_max: int = 100) -> None:
        self.group = ClassicGroup("g")
        self.time_s = 0.0
        self.settings = steps.ClassicSettings(initial_rebalance_delay_ms=delay_ms, members_max=members_max)
        self.answers: dict[str, Any] = {}
        self.records = 0
        self._ids = 0

    @property
    def now(self) -> steps.ClassicNow:
        return steps.ClassicNow(self.time_s, int(self.time_s * 1000), self.settings)

    def run(self, effects: Any) -> None:
        self.records += len(effects.records)
        for reply, answer in effects.answers:
            reply(answer)

    def _reply(self, who: str) -> Any:
        self.answers.pop(who, None)
        return lambda answer: self.answers.__setitem__(who, answer)

    def join(
        self, who: str, member_id: str = "", *, protocols: str = "range", instance: str | None = None, version: int = 3
    ) -> Any:
        self._ids += 1
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=b"m") for name in protocols.split(",") if name],
        )
        joiner = steps.Joiner("client", "/127.0.0.1", f"id-{self._ids}", version >= 4, version >= 9)
        self.run(steps.join(self.group, request, joiner, self._reply(who), self.now))
        return self.answers.get(who)

    def sync(self, who: str, joined: Any, assignments: dict[str, bytes] | None = None) -> Any:
        request = SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=id_, assignment=data) for id_, data in (assignments or {}).items()
            ],
        )
        self.run(steps.sync(self.group, request, self._reply(who), self.now))
        return self.answers.get(who)

    def heartbeat(self, joined: Any) -> ErrorCode:
        return steps.heartbeat(self.group, joined.member_id, None, joined.generation_id, self.now)

    def leave(self, *identities: MemberIdentity) -> Any:
        self.run(
            steps.leave(self.group, LeaveGroupRequest(group_id="g", members=identities), self._reply("leave"), self.now)
        )
        return self.answers["leave"]

    def pass_time(self, seconds: float) -> None:
        self.time_s += seconds
        self.run(steps.expire(self.group, self.now))

    def beat_for(self, seconds: float) -> None:
        """Let time pass while every member sends its heartbeats."""
        for _ in range(int(seconds // 6)):
            self.time_s += 6
            for member in self.group.members.values():
                steps.heartbeat(self.group, member.member_id, None, self.group.generation_id, self.now)
            self.run(steps.expire(self.group, self.now))

    def stable(self, *names: str) -> dict[str, Any]:
        """A stable group of these members, each with its name as its assignment."""
        first = names[0]
        joined = {first: self.join(first)}
        for name in names[1:]:
            self.join(name)
            for other in [*joined]:
                self.join(other, joined[other].member_id)
            joined = {other: self.answers[other] for other in [*joined, name]}
        assignments = {answer.member_id: name.encode() for name, answer in joined.items()}
        for name, answer in joined.items():
            self.sync(name, answer, assignments if answer.leader == answer.member_id else None)
        assert self.group.state is GroupState.STABLE
        return joined


def test_the_first_member_leads_and_the_leaders_sync_makes_the_group_stable() -> None:
    driver = Driver()
    joined = driver.join("a")
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
    assert [member.member_id for member in joined.members] == [joined.member_id]
    assert driver.sync("a", joined, {joined.member_id: b"all"}).assignment == b"all"
    assert (driver.group.state, driver.records) == (GroupState.STABLE, 1)


def test_an_id_that_nobody_came_back_with_disturbs_nobody() -> None:
    driver = Driver()
    driver.stable("a")
    pending = driver.join("b", version=4).member_id
    driver.beat_for(12)
    assert pending not in driver.group.pending_members
    assert (driver.group.state, driver.group.generation_id) == (GroupState.STABLE, 1)
    other = driver.join("b", version=4).member_id
    left = driver.leave(MemberIdentity(member_id=other, group_instance_id=None))
    assert (left.members[0].error_code, driver.group.state) == (0, GroupState.STABLE)


def test_an_id_that_nobody_comes_back_with_holds_a_rebalance_up_no_longer_than_its_session() -> None:
    driver = Driver()
    first = driver.stable("a")["a"]
    driver.join("b", version=4)
    driver.join("c")
    assert driver.join("a", first.member_id) is None
    driver.pass_time(11)
    assert (driver.answers["a"].generation_id, driver.answers["c"].generation_id) == (2, 2)


def test_a_sync_that_comes_too_late_shows_that_the_member_lives() -> None:
    driver = Driver()
    joined = driver.stable("a", "b")
    driver.join("c")
    driver.time_s += 9
    assert driver.sync("a", joined["a"]).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    driver.pass_time(9)
    assert driver.group.members.keys() >= {joined["a"].member_id}


def test_a_newcomer_waits_until_the_others_have_joined_again() -> None:
    driver = Driver()
    first = driver.stable("a")["a"]
    assert driver.join("b") is None
    assert driver.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.join("a", first.member_id)
    assert (again.generation_id, driver.answers["b"].generation_id) == (2, 2)
    assert (len(again.members), len(driver.answers["b"].members)) == (2, 0)


def test_followers_get_their_assignment_when_the_leader_brings_it() -> None:
    driver = Driver()
    first = driver.stable("a")["a"]
    driver.join("b")
    first = driver.join("a", first.member_id)
    second = driver.answers["b"]
    assert driver.sync("b", second) is None
    driver.sync("a", first, {second.member_id: b"two"})
    assert (driver.answers["a"].assignment, driver.answers["b"].assignment) == (b"", b"two")


def test_a_member_without_an_id_is_asked_to_join_again_with_one() -> None:
    driver = Driver()
    asked = driver.join("a", version=4)
    assert (asked.error_code, bool(asked.member_id)) == (ErrorCode.MEMBER_ID_REQUIRED, True)
    assert driver.join("a", asked.member_id, version=4).error_code == 0


def test_an_id_that_nobody_comes_back_with_is_forgotten() -> None:
    driver = Driver()
    driver.join("a", version=4)
    driver.pass_time(10)
    assert not driver.group.pending_members


def test_the_rebalance_goes_on_without_who_does_not_join_again() -> None:
    driver = Driver()
    joined = driver.stable("a", "b")
    driver.join("c")
    driver.join("a", joined["a"].member_id)
    driver.beat_for(60)
    assert [driver.answers[name].error_code for name in "ac"] == [0, 0]
    assert joined["b"].member_id not in driver.group.members


def test_a_member_that_sends_no_heartbeat_is_out_and_the_rest_rebalance() -> None:
    driver = Driver()
    joined = driver.stable("a", "b")
    driver.time_s += 6
    driver.heartbeat(joined["a"])
    driver.pass_time(5)
    assert list(driver.group.members) == [joined["a"].member_id]
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_the_last_member_to_leave_leaves_an_empty_group_with_a_new_generation() -> None:
    driver = Driver()
    joined = driver.stable("a")["a"]
    answer = driver.leave(MemberIdentity(member_id=joined.member_id))
    assert [member.error_code for member in answer.members] == [0]
    assert (driver.group.state, driver.group.generation_id, driver.group.leader) == (GroupState.EMPTY, 2, None)
    assert driver.records == 2


def test_who_leaves_twice_is_unknown() -> None:
    driver = Driver()
    joined = driver.stable("a")["a"]
    identity = MemberIdentity(member_id=joined.member_id)
    driver.leave(identity)
    assert driver.leave(identity).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_restarts_keeps_its_assignment_without_a_rebalance() -> None:
    driver = Driver()
    first = driver.join("a", instance="i")
    driver.sync("a", first, {first.member_id: b"all"})
    again = driver.join("a", instance="i", version=9)
    assert (again.generation_id, again.skip_assignment, again.member_id != first.member_id) == (1, True, True)
    assert driver.sync("a", again).assignment == b"all"


def test_the_old_self_of_a_static_member_is_fenced() -> None:
    driver = Driver()
    first = driver.join("a", instance="i")
    driver.sync("a", first, {first.member_id: b"all"})
    driver.join("a", instance="i", version=9)
    code = steps.heartbeat(driver.group, first.member_id, "i", 1, driver.now)
    assert code is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_is_removed_by_its_instance_id_alone() -> None:
    driver = Driver()
    driver.join("a", instance="i")
    answer = driver.leave(MemberIdentity(group_instance_id="i"))
    assert (answer.members[0].error_code, driver.group.members) == (0, {})


def test_protocols_that_not_all_support_are_refused() -> None:
    driver = Driver()
    driver.stable("a")
    assert driver.join("b", protocols="sticky").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.join("b", protocols="").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_that_most_members_like_best_is_chosen() -> None:
    driver = Driver(delay_ms=100)
    driver.join("a", protocols="range,sticky")
    driver.join("b", protocols="sticky,range")
    driver.join("c", protocols="sticky,range")
    driver.pass_time(0.1)
    driver.pass_time(0.1)
    assert driver.answers["a"].protocol_name == "sticky"


def test_a_new_group_waits_for_more_members_as_long_as_they_come() -> None:
    driver = Driver(delay_ms=1000)
    assert driver.join("a") is None
    driver.pass_time(0.5)
    assert driver.join("b") is None
    driver.pass_time(0.5)
    assert "a" not in driver.answers
    driver.pass_time(1)
    assert {driver.answers[name].generation_id for name in "ab"} == {1}


def test_an_old_generation_is_refused() -> None:
    driver = Driver()
    joined = driver.stable("a")["a"]
    old = _Like(joined.member_id, 7)
    assert driver.heartbeat(old) is ErrorCode.ILLEGAL_GENERATION
    assert driver.sync("a", old).error_code == ErrorCode.ILLEGAL_GENERATION


def test_a_full_group_takes_nobody_more() -> None:
    driver = Driver(members_max=1)
    driver.stable("a")
    assert driver.join("b").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_leader_that_joins_again_makes_the_group_rebalance() -> None:
    driver = Driver()
    joined = driver.stable("a")["a"]
    assert driver.join("a", joined.member_id).generation_id == 2


def test_a_follower_that_joins_again_unchanged_learns_where_it_stands() -> None:
    driver = Driver()
    joined = driver.stable("a", "b")
    answer = driver.join("b", joined["b"].member_id)
    assert (answer.generation_id, driver.group.state) == (joined["b"].generation_id, GroupState.STABLE)


def test_who_never_syncs_is_out_after_the_rebalance_time() -> None:
    driver = Driver()
    first = driver.stable("a")["a"]
    driver.join("b")
    first = driver.join("a", first.member_id)
    driver.sync("a", first, {first.member_id: b"all"})
    driver.beat_for(66)
    assert list(driver.group.members) == [first.member_id]


class _Like:
    """Looks like a JoinGroup answer."""

    def __init__(self, member_id: str, generation_id: int) -> None:
        self.member_id = member_id
        self.generation_id = generation_id
