"""A consumer group from a classic one with members, and back. Pure functions.

An upgrade keeps what the members have: the last assignment is the target and the current one of each, and the
generation is the epoch. The member whose coming causes it raises the epoch, and so the others are asked to join again.

A downgrade keeps what the members have, too. It begins a rebalance, because the partitions of those that left belong to
no member. The record of such a group names no leader: a start that replays it begins that rebalance again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

from mainstem.broker.coordinator.effects import Effects, StateRecord
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.classic import classic_steps
from mainstem.broker.groups.classic.classic_group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    GroupState,
    Member,
)
from mainstem.broker.groups.consumer import consumer_records as records
from mainstem.broker.groups.consumer.assignors import Assignment
from mainstem.broker.groups.consumer.consumer_group import (
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Owner,
    assignment_of,
)
from mainstem.broker.groups.consumer.consumer_steps import Catalog, ConsumerNow, ConsumerSettings
from mainstem.broker.groups.migration.embedded import (
    EmbeddedSubscription,
    assignment_bytes,
    read_assignment,
    read_subscription,
)
from mainstem.broker.groups.records import group_record
from mainstem.errors import FrameError
from mainstem.protocol.errors import ErrorCode

_COMMON_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Assignors that every client has. Data that they send is a hint for the next assignment, and may get lost."""


# ---- upgrade


def check_upgrade(group: ClassicGroup, settings: ConsumerSettings) -> None:
    """Whether a classic group may become a consumer group. Raises RemoteError."""
    reason = ""
    if not settings.migration.upgrades:
        reason = f"group.consumer.migration.policy is {settings.migration.value}"
    elif not group.is_consumer_group:
        reason = "its members do not use the consumer protocol"
    elif len(group.members) > settings.members_max:
        reason = f"it has {len(group.members)} members; group.consumer.max.size is {settings.members_max}"
    if reason:
        raise refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"classic group {group.group_id!r} stays classic: {reason}")


def upgraded(group: ClassicGroup, now: ConsumerNow) -> tuple[ConsumerGroup, list[StateRecord]]:
    """The consumer group that a classic group becomes, and its records. Raises RemoteError."""
    consumer = ConsumerGroup(group.group_id, epoch=group.generation_id, assignment_epoch=group.generation_id)
    protocol = group.protocol or (group.select_protocol() if group.members else "")
    read = {member.member_id: _read(group, protocol, member, now.catalog) for member in group.members.values()}
    taken = {each for _, assigned in read.values() for each in _each(assigned)}
    for member in group.members.values():
        subscription, assigned = read[member.member_id]
        mine = _only(assigned, lambda each: each not in consumer.owners)
        # It said that it holds these and they are given to no other: it may be about to give them up.
        held = _only(subscription.owned, lambda each: each not in taken and each not in consumer.owners)
        consumer.put(_consumer_member(group, member, subscription, mine, held))
        consumer.targets[member.member_id] = mine
        consumer.sessions[member.member_id] = now.monotonic_s + member.session_timeout_ms / 1000
    return consumer, [*group.tombstones(), *_records(consumer)]


def _read(
    group: ClassicGroup, protocol: str, member: Member, catalog: Catalog
) -> tuple[EmbeddedSubscription, Assignment]:
    try:
        subscription = read_subscription(member.metadata_for(protocol), catalog)
        assigned, has_data = read_assignment(member.assignment, catalog)
    except FrameError as error:
        raise refusal(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"classic group {group.group_id!r} stays classic: member {member.member_id!r}: {error}",
        ) from error
    if has_data and protocol not in _COMMON_ASSIGNORS:
        raise refusal(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"classic group {group.group_id!r} stays classic: its assignor {protocol!r} sends data of its own to "
            "members, and that would be lost; first let the members use a common assignor",
        )
    return subscription, assigned


def _consumer_member(
    group: ClassicGroup, member: Member, subscription: EmbeddedSubscription, assigned: Assignment, held: Assignment
) -> ConsumerMember:
    return ConsumerMember(
        member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=subscription.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        member_epoch=group.generation_id,
        previous_member_epoch=group.generation_id,
        state=MemberState.UNREVOKED_PARTITIONS if held else MemberState.STABLE,
        assigned=assigned,
        pending_revocation=held,
        classic=ClassicSide(member.session_timeout_ms, tuple(member.protocols)),
    ).with_epochs({})


def _records(group: ConsumerGroup) -> list[StateRecord]:
    members, group_id = group.members.values(), group.group_id
    return [
        *(records.member_record(group_id, member) for member in members),
        records.epoch_record(group),
        *(records.target_record(group_id, member_id, target) for member_id, target in group.targets.items()),
        records.target_epoch_record(group),
        *(records.current_record(group_id, member) for member in members),
    ]


def _each(assignment: Assignment) -> Iterator[Owner]:
    return ((topic_id, number) for topic_id, numbers in assignment.items() for number in numbers)


def _only(assignment: Assignment, is_wanted: Callable[[Owner], bool]) -> Assignment:
    return assignment_of((each[0], [each[1]]) for each in _each(assignment) if is_wanted(each))


# ---- downgrade


def may_downgrade(group: ConsumerGroup, settings: ConsumerSettings, classic_members_max: int) -> bool:
    """Whether a consumer group becomes a classic one: all its members speak the classic protocol."""
    members = group.members.values()
    is_allowed = settings.migration.downgrades and len(members) <= classic_members_max
    return is_allowed and bool(members) and all(member.classic is not None for member in members)


def downgraded(
    group: ConsumerGroup, generation_id: int, now: ConsumerNow, classic_now: classic_steps.ClassicNow, *, settled: bool
) -> tuple[ClassicGroup, list[StateRecord]]:
    """The classic group that ``group``, whose members all speak that protocol, becomes; with its record.

    ``settled``: each member has what it shall have, so it goes on. Otherwise a rebalance begins.
    """
    classic = ClassicGroup(
        group.group_id,
        state=GroupState.STABLE,
        generation_id=generation_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        state_timestamp_ms=now.time_ms,
    )
    names = _names(group, now.catalog)
    for member in group.members.values():
        classic.add(_classic_member(member, now.monotonic_s))
    classic.protocol = classic.select_protocol()
    for member in group.members.values():
        metadata = classic.members[member.member_id].metadata_for(classic.protocol)
        held = assignment_of((topic_id, [number]) for topic_id, number in member.owned())
        classic.members[member.member_id].assignment = assignment_bytes(held, names, metadata)
    if settled:
        return classic, [group_record(classic)]
    leader, classic.leader = classic.leader, None
    record = group_record(classic)
    classic.leader = leader
    effects: Effects = classic_steps.rebalance(classic, classic_now)
    assert not effects.records
    assert not effects.answers
    return classic, [record]


def _classic_member(member: ConsumerMember, now_s: float) -> Member:
    assert member.classic is not None
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        CONSUMER_PROTOCOL_TYPE,
        list(member.classic.protocols),
        session_deadline_s=now_s + member.classic.session_timeout_ms / 1000,
    )


def _names(group: ConsumerGroup, catalog: Catalog) -> dict[UUID, str]:
    """The names of the topics that the members subscribe to, by their ids."""
    names = frozenset[str]().union(*(group.subscription(member) for member in group.members.values()))
    return {info.topic_id: name for name in names if (info := catalog.topic(name)) is not None}
