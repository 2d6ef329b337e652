"""The steps of a consumer group: heartbeat, leave, and its time-outs. No I/O, no clock, no randomness.

A step takes a group and returns its next state, with the records of the change. The caller writes the records first,
and then replaces the group. A heartbeat does this in order: find or create the member, store its subscription, raise
the group's epoch if the subscription or the topics changed, compute a target assignment if the epoch is newer than the
last target's, and move the member towards its target.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.consumer import consumer_records as records
from mainstem.broker.groups.consumer import reconcile
from mainstem.broker.groups.consumer.assignors import ASSIGNORS, Assignment, Subscriber
from mainstem.broker.groups.consumer.consumer_group import (
    LEAVES,
    LEAVES_FOR_NOW,
    ConsumerGroup,
    ConsumerMember,
    MatchedTopics,
    MemberState,
    assignment_of,
)
from mainstem.errors import RemoteError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.consumer_group_heartbeat import Assignment as AnswerAssignment
from mainstem.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)

_NOTHING: Final[Assignment] = {}


class GroupTopic(NamedTuple):
    """A topic as assignors need it."""

    topic_id: UUID
    partitions: int


class Catalog(Protocol):
    """The topics there are; ``version`` differs whenever they do."""

    @property
    def version(self) -> int: ...

    def topic(self, name: str) -> GroupTopic | None: ...

    def matching(self, pattern: str) -> frozenset[str] | None:
        """The names that a regular expression matches; None while that is not known."""


class MigrationPolicy(enum.Enum):
    """Which way a group with members may change its protocol, by the words of group.consumer.migration.policy."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """Whether a classic group becomes a consumer group."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group becomes a classic group."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The settings of one group's steps."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    members_max: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


@dataclass(frozen=True, slots=True)
class ConsumerNow:
    """The time, settings and topics of a step. ``may_see`` says which topics a pattern may match for the caller.
    Without it (a member leaves, or a deadline passes) patterns keep their last matches.
    """

    monotonic_s: float
    time_ms: int
    settings: ConsumerSettings
    catalog: Catalog
    may_see: Callable[[str], bool] | None = None


class Caller(NamedTuple):
    """The sender of a heartbeat."""

    client_id: str
    client_host: str


@dataclass(slots=True)
class Step:
    """The result of a step: the group's next state, its records, the answer, and whether a member was put out."""

    group: ConsumerGroup
    now: ConsumerNow
    records: list[StateRecord] = field(default_factory=list)
    answer: ConsumerGroupHeartbeatResponse | None = None
    fenced: bool = False


# ---- heartbeat


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, settings: ConsumerSettings) -> None:
    """Whether a heartbeat makes sense by itself. Raises RemoteError."""
    for name in ("group_id", "instance_id", "rack_id"):
        value = getattr(request, name)
        if value is not None and not value.strip():
            raise refusal(ErrorCode.INVALID_REQUEST, f"{name} is empty")
    if not request.member_id.strip() and (version >= 1 or request.member_epoch != 0):
        raise refusal(ErrorCode.INVALID_REQUEST, "member_id is empty")
    if request.member_epoch == 0:
        _check_join(request)
    elif request.member_epoch < LEAVES_FOR_NOW:
        raise refusal(ErrorCode.INVALID_REQUEST, f"member epoch {request.member_epoch} is invalid")
    elif request.member_epoch == LEAVES_FOR_NOW and request.instance_id is None:
        raise refusal(ErrorCode.INVALID_REQUEST, "only a member with an instance_id can leave for a while")
    if request.server_assignor is not None and request.server_assignor not in settings.assignors:
        known = ", ".join(settings.assignors)
        raise refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"there is no assignor {request.server_assignor!r}, but these: {known}"
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise refusal(ErrorCode.INVALID_REQUEST, "a member that joins must give its rebalance_timeout_ms")
    if request.topic_partitions is None or request.topic_partitions:
        raise refusal(ErrorCode.INVALID_REQUEST, "a member that joins must give empty topic_partitions")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise refusal(ErrorCode.INVALID_REQUEST, "a member that joins must say what it subscribes to")


def heartbeat(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: ConsumerNow) -> Step:
    """A member lives, joins, subscribes to something else or has given partitions up. Raises RemoteError."""
    if request.member_epoch in (LEAVES, LEAVES_FOR_NOW):
        return _leave(group, request, now)
    member = group.members.get(request.member_id)
    if member is not None and _brings_nothing(group, member, request, caller, now):
        step = Step(group, now)
        extend(step, member)
        step.answer = _answer(member, now, with_assignment=_is_full(request))
        return step
    step = Step(group.copy(), now)
    old = _find_or_create(step, request)
    updated = _taken_over(old, request, caller)
    changed = subscription_changed(old, updated)
    if updated != step.group.members.get(updated.member_id):
        step.records.append(records.member_record(group.group_id, updated))
    step.group.put(updated)
    step.group.rejoins.pop(updated.member_id, None)
    step.group.syncs.pop(updated.member_id, None)
    refresh(step, bump=changed)
    retarget(step)
    reconciled = move_on(step, updated, _owned(request), changed=changed)
    extend(step, reconciled)
    with_assignment = request.member_epoch == 0 or _is_full(request) or old.assigned != reconciled.assigned
    step.answer = _answer(reconciled, now, with_assignment=with_assignment)
    return step


def _brings_nothing(
    group: ConsumerGroup,
    member: ConsumerMember,
    request: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    now: ConsumerNow,
) -> bool:
    return (
        request.member_epoch == member.member_epoch
        and group.catalog_version == now.catalog.version
        and group.epoch == group.assignment_epoch
        and group.is_reconciled(member)
        and request.instance_id in (None, member.instance_id)
        and _taken_over(member, request, caller) == member
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the member says everything, as it does after an error."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None


def _find_or_create(step: Step, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    group, member_id = step.group, request.member_id
    joins = request.member_epoch == 0
    held_by = group.static_members.get(request.instance_id) if request.instance_id is not None else None
    is_new = member_id not in group.members and held_by is None
    if joins and is_new and len(group.members) >= step.now.settings.members_max:
        raise refusal(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if request.instance_id is not None:
        return _find_static(step, request, held_by)
    member = group.members.get(member_id)
    if member is None:
        return ConsumerMember(member_id) if joins else group.member(member_id)
    _check_epoch(member, request)
    return member


def _find_static(step: Step, request: ConsumerGroupHeartbeatRequest, held_by: str | None) -> ConsumerMember:
    group, member_id = step.group, request.member_id
    if held_by is None:
        if request.member_epoch != 0:
            raise refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {request.instance_id!r}")
        existing = group.members.get(member_id)
        if existing is not None and existing.instance_id is not None:
            del group.static_members[existing.instance_id]
        return existing or ConsumerMember(member_id, request.instance_id)
    member = group.members[held_by]
    if request.member_epoch == 0 and member.member_epoch != LEAVES_FOR_NOW and member.classic is None:
        raise refusal(ErrorCode.UNRELEASED_INSTANCE_ID, f"member {held_by!r} has the instance id")
    if held_by == member_id:
        if member.member_epoch != LEAVES_FOR_NOW:
            _check_epoch(member, request)
        elif request.member_epoch != 0:
            raise refusal(ErrorCode.FENCED_MEMBER_EPOCH, f"member {member_id!r} has left and must join again")
        return member
    if request.member_epoch != 0:
        raise refusal(ErrorCode.FENCED_INSTANCE_ID, f"member {held_by!r} has taken the instance id over")
    return replaced(step, member, member_id)


def replaced(step: Step, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member came back under another id: it goes on where it was."""
    group = step.group
    member = replace(old, member_id=member_id, member_epoch=0, previous_member_epoch=0).fresh()
    target = group.targets.get(old.member_id, _NOTHING)
    group.remove(old.member_id)
    group.put(member)
    group.targets[member_id] = target
    step.records += [
        *records.member_tombstones(group.group_id, old.member_id),
        records.member_record(group.group_id, member),
        records.target_record(group.group_id, member_id, target),
        records.current_record(group.group_id, member),
    ]
    return member


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    epoch = request.member_epoch
    if epoch in (0, member.member_epoch):
        return
    if epoch == member.previous_member_epoch and reconcile.is_part_of(_owned(request), member.assigned):
        # The answer with the newer epoch got lost.
        return
    raise refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"member {member.member_id!r} is at epoch {member.member_epoch}, not {epoch}: it must give everything up and "
        "join again",
    )


def _taken_over(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    names, regex, rack = request.subscribed_topic_names, request.subscribed_topic_regex, request.rack_id
    timeout_ms, assignor = request.rebalance_timeout_ms, request.server_assignor
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        rack_id=member.rack_id if rack is None else rack,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=member.server_assignor if assignor is None else assignor,
        classic=None,
    )


def subscription_changed(old: ConsumerMember, new: ConsumerMember) -> bool:
    """Whether a member now subscribes to something else."""
    return old.topic_names != new.topic_names or old.pattern != new.pattern


# ---- what the group is about, and who shall have what


def refresh(step: Step, *, bump: bool) -> None:
    """Look at the topics again if they, or the subscriptions, may have changed; a change raises the group's epoch."""
    group, catalog = step.group, step.now.catalog
    if not bump and group.catalog_version == catalog.version:
        return
    is_current = _resolve_patterns(step)
    names = frozenset[str]().union(*(group.subscription(member) for member in group.members.values()))
    metadata_hash = topics_hash((name, info) for name in sorted(names) if (info := catalog.topic(name)) is not None)
    if bump or metadata_hash != group.metadata_hash:
        group.epoch += 1
        group.metadata_hash = metadata_hash
        step.records.append(records.epoch_record(group))
    if is_current:
        group.catalog_version = catalog.version


def _resolve_patterns(step: Step) -> bool:
    """Look up the current matches of the patterns; returns whether all are known."""
    group, catalog, may_see = step.group, step.now.catalog, step.now.may_see
    wanted = group.wanted_patterns()
    for pattern in sorted(group.patterns.keys() - wanted):
        del group.patterns[pattern]
        step.records.append(records.pattern_tombstone(group.group_id, pattern))
    is_current = True
    for pattern in sorted(wanted):
        matching = catalog.matching(pattern) if may_see is not None else None
        before = group.patterns.get(pattern)
        if matching is None or may_see is None:
            is_current = False
            continue
        topics = frozenset(filter(may_see, matching))
        if before is None or before.topics != topics:
            matched = group.patterns[pattern] = MatchedTopics(topics, catalog.version, step.now.time_ms)
            step.records.append(records.pattern_record(group.group_id, pattern, matched))
    return is_current


def topics_hash(topics: Iterable[tuple[str, GroupTopic]]) -> int:
    """A hash of the topics; 0 when there are none, as in a new group."""
    topics = list(topics)
    if not topics:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for name, info in topics:
        digest.update(f"{name}\0{info.topic_id}\0{info.partitions}\n".encode())
    return int.from_bytes(digest.digest(), signed=True)


def retarget(step: Step) -> None:
    """Compute a new target assignment if the group's epoch is newer than the last target's."""
    group, catalog = step.group, step.now.catalog
    if group.epoch <= group.assignment_epoch:
        return
    infos = {
        name: info
        for name in frozenset[str]().union(*(group.subscription(member) for member in group.members.values()))
        if (info := catalog.topic(name)) is not None
    }
    subscribers = [
        Subscriber(
            member.member_id,
            member.instance_id,
            frozenset(infos[name].topic_id for name in group.subscription(member) if name in infos),
            group.targets.get(member.member_id, _NOTHING),
        )
        for member in group.members.values()
    ]
    assign = ASSIGNORS[group.preferred_assignor(step.now.settings.assignors[0])]
    targets = assign(subscribers, dict(infos.values()))
    for member_id, target in targets.items():
        if target != group.targets.get(member_id):
            step.records.append(records.target_record(group.group_id, member_id, target))
    group.targets = targets
    group.assignment_epoch = group.epoch
    step.records.append(records.target_epoch_record(group))


def move_on(step: Step, member: ConsumerMember, owned: Assignment | None, *, changed: bool) -> ConsumerMember:
    """Move a member, which says that it holds ``owned``, towards its target."""
    group, now = step.group, step.now
    infos = (now.catalog.topic(name) for name in group.subscription(member))
    goal = reconcile.MemberTarget(
        epoch=group.assignment_epoch,
        target=group.targets.get(member.member_id, _NOTHING),
        topic_ids=frozenset(info.topic_id for info in infos if info is not None),
        is_free=lambda topic_id, number: (topic_id, number) not in group.owners,
        subscription_changed=changed,
    )
    reconciled = reconcile.next_member(member, goal, owned)
    if reconciled == member:
        return member
    group.put(reconciled)
    step.records.append(records.current_record(group.group_id, reconciled))
    # A member that speaks the classic protocol has deadlines for its JoinGroup and its SyncGroup.
    if reconciled.state is MemberState.UNREVOKED_PARTITIONS and reconciled.classic is None:
        group.give_up_in_time(member.member_id, now.monotonic_s)
    else:
        group.revocations.pop(member.member_id, None)
    return reconciled


def _owned(request: ConsumerGroupHeartbeatRequest) -> Assignment | None:
    if request.topic_partitions is None:
        return None
    return assignment_of((item.topic_id, item.partitions) for item in request.topic_partitions)


def extend(step: Step, member: ConsumerMember) -> None:
    """The member lives: its session begins again."""
    timeout_ms = step.now.settings.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
    step.group.sessions[member.member_id] = step.now.monotonic_s + timeout_ms / 1000


def _answer(member: ConsumerMember, now: ConsumerNow, *, with_assignment: bool) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if with_assignment:
        given = [
            ResponseTopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in member.assigned.items()
        ]
        assignment = AnswerAssignment(topic_partitions=given)
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=now.settings.heartbeat_interval_ms,
        assignment=assignment,
    )


# ---- leave, time


def _leave(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, now: ConsumerNow) -> Step:
    if request.instance_id is not None:
        check_instance(group, request.instance_id, request.member_id)
    member = group.member(request.member_id)
    step = Step(group.copy(), now)
    if request.member_epoch == LEAVES_FOR_NOW:
        away = replace(member, member_epoch=LEAVES_FOR_NOW, pending_revocation={}).fresh()
        step.group.put(away)
        step.group.revocations.pop(member.member_id, None)
        step.records.append(records.current_record(group.group_id, away))
    else:
        fence(step, [member.member_id])
    step.answer = ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=request.member_epoch,
        heartbeat_interval_ms=0,
    )
    return step


def check_instance(group: ConsumerGroup, instance_id: str, member_id: str) -> str:
    """The member that has the instance id, and must be ``member_id``. Raises RemoteError."""
    held_by = group.static_members.get(instance_id)
    if held_by is None:
        raise refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id!r}")
    if held_by != member_id:
        raise refusal(ErrorCode.FENCED_INSTANCE_ID, f"member {held_by!r} has taken the instance id over")
    return held_by


def remove(
    group: ConsumerGroup, asked: Iterable[tuple[str, str | None]], now: ConsumerNow
) -> tuple[Step, list[ErrorCode]]:
    """An admin removes members, by member id, by instance id (the member id is empty then) or both; a code for each."""
    codes: list[ErrorCode] = []
    found: dict[str, None] = {}
    for member_id, instance_id in asked:
        try:
            if instance_id is None:
                held_by = group.member(member_id).member_id
            else:
                held_by = check_instance(group, instance_id, member_id or group.static_members.get(instance_id, ""))
            found[held_by] = None
            codes.append(ErrorCode.NONE)
        except RemoteError as error:
            codes.append(ErrorCode(error.code))
    step = Step(group.copy(), now)
    if found:
        fence(step, found)
    return step, codes


def expire(group: ConsumerGroup, now: ConsumerNow) -> Step:
    """Remove members without a heartbeat for a session, and those that kept partitions over a rebalance time-out."""
    late = group.late_members(now.monotonic_s)
    step = Step(group.copy(), now)
    if late:
        fence(step, late)
    step.group.forget_passed_revocations(now.monotonic_s)
    return step


def fence(step: Step, member_ids: Iterable[str]) -> None:
    """Remove members. Their partitions are free at once: the next heartbeat of another member finds a new target."""
    step.fenced = True
    for member_id in member_ids:
        step.group.remove(member_id)
        step.records += records.member_tombstones(step.group.group_id, member_id)
    refresh(step, bump=True)
