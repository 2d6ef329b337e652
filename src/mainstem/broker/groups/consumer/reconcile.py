"""A member's next step from its current to its target assignment.

The member first gives up partitions, then gets those that others have given up. Pure functions over one member; Kafka's
rules (KIP-848). ``owned`` are the partitions that the member reports, None when it reports none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from mainstem.broker.groups.consumer.assignors import Assignment
from mainstem.broker.groups.consumer.consumer_group import ConsumerMember, MemberState


@dataclass(frozen=True, slots=True)
class MemberTarget:
    """The target of a member, the epoch of that target, and the topics that the member subscribes to now.

    ``is_free`` says whether no other member owns a partition.
    """

    epoch: int
    target: Assignment
    topic_ids: frozenset[UUID]
    is_free: Callable[[UUID, int], bool]
    subscription_changed: bool = False


def next_member(member: ConsumerMember, goal: MemberTarget, owned: Assignment | None) -> ConsumerMember:
    """The member after a heartbeat with ``owned``; the same one when it cannot go on yet."""
    then = _next(member, goal, owned)
    known = {each: member.assignment_epochs.get(each, member.member_epoch) for each in member.owned()}
    return member if then is member else then.with_epochs(known)


def _next(member: ConsumerMember, goal: MemberTarget, owned: Assignment | None) -> ConsumerMember:
    if member.state is MemberState.STABLE:
        if member.member_epoch != goal.epoch:
            return _towards(member, goal, owned)
        return _without_unsubscribed(member, goal, owned) if goal.subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _holds(owned, member.pending_revocation):
        return _without_unsubscribed(member, goal, owned) if goal.subscription_changed else member
    return _towards(member, goal, owned)


def _towards(member: ConsumerMember, goal: MemberTarget, owned: Assignment | None) -> ConsumerMember:
    """Nearer to its target; it stays at its epoch while there is more to give up, as in Kafka 4.3."""
    target = {topic_id: numbers for topic_id, numbers in goal.target.items() if topic_id in goal.topic_ids}
    kept = _both(member.assigned, target)
    given_up = _minus(member.assigned, kept)
    if given_up and _holds(owned, given_up):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=given_up,
        )
    wanted = _minus(target, kept)
    ready = {
        topic_id: free
        for topic_id, numbers in wanted.items()
        if (
            free := frozenset(
                number
                for number in numbers
                if goal.is_free(topic_id, number) or number in member.pending_revocation.get(topic_id, ())
            )
        )
    }
    return replace(
        member.at_epoch(goal.epoch),
        state=MemberState.STABLE if ready == wanted else MemberState.UNRELEASED_PARTITIONS,
        assigned=_plus(kept, ready),
        pending_revocation={},
    )


def _without_unsubscribed(member: ConsumerMember, goal: MemberTarget, owned: Assignment | None) -> ConsumerMember:
    """Take away partitions of unsubscribed topics before a new target exists; the member's epoch stays."""
    kept = {topic_id: numbers for topic_id, numbers in member.assigned.items() if topic_id in goal.topic_ids}
    if len(kept) == len(member.assigned):
        return member
    given_up = _plus(member.pending_revocation, _minus(member.assigned, kept))
    if not _holds(owned, given_up):
        return replace(member, assigned=kept)
    return replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=given_up)


def _holds(owned: Assignment | None, partitions: Assignment) -> bool:
    """Whether the member may still hold any of ``partitions``."""
    return owned is None or bool(_both(owned, partitions))


def is_part_of(owned: Assignment | None, assigned: Assignment) -> bool:
    """Whether the member says what it holds, and holds nothing that it was not given."""
    return owned is not None and not _minus(owned, assigned)


def _both(one: Assignment, other: Assignment) -> Assignment:
    found = {topic_id: numbers & other.get(topic_id, frozenset()) for topic_id, numbers in one.items()}
    return _filled(found)


def _minus(one: Assignment, other: Assignment) -> Assignment:
    found = {topic_id: numbers - other.get(topic_id, frozenset()) for topic_id, numbers in one.items()}
    return _filled(found)


def _plus(one: Assignment, other: Assignment) -> Assignment:
    nothing: frozenset[int] = frozenset()
    return {topic_id: one.get(topic_id, nothing) | other.get(topic_id, nothing) for topic_id in sorted({*one, *other})}


def _filled(found: Mapping[UUID, frozenset[int]]) -> Assignment:
    return {topic_id: numbers for topic_id, numbers in found.items() if numbers}
