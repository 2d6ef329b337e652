"""The assignor of share groups: the members share all partitions of their topics evenly.

It assigns each topic on its own. With more partitions than members, each partition goes to one member, and the members'
counts differ by at most one. With more members than partitions, each member gets one partition, and the partitions'
counts of members differ by at most one. A member keeps its partitions as far as that allows. A pure function.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar
from uuid import UUID

Assignment: TypeAlias = Mapping[UUID, tuple[int, ...]]
"""Partitions by topic; topics without partitions are not in it."""

_T = TypeVar("_T", bound=Hashable)


class TopicShape(NamedTuple):
    """The facts about a topic that the assignor needs."""

    topic_id: UUID
    partitions: int


def assign(
    subscriptions: Mapping[str, Iterable[str]], topics: Mapping[str, TopicShape], before: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    """The assignment of every member. ``subscriptions``: member → topics; a topic that is not in ``topics`` is none."""
    members_of: dict[str, list[str]] = {}
    for member_id in sorted(subscriptions):
        for name in subscriptions[member_id]:
            if name in topics and topics[name].partitions > 0:
                members_of.setdefault(name, []).append(member_id)
    assigned: dict[str, dict[UUID, tuple[int, ...]]] = {member_id: {} for member_id in subscriptions}
    for name, members in members_of.items():
        topic_id, partitions = topics[name]
        had = {member_id: before.get(member_id, {}).get(topic_id, ()) for member_id in members}
        for member_id, numbers in _assign_topic(members, partitions, had).items():
            assigned[member_id][topic_id] = numbers
    return dict(assigned)


def _assign_topic(
    members: Sequence[str], partitions: int, had: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    slots = max(len(members), partitions)
    in_partition = _evenly(range(partitions), slots, {})
    in_member = _evenly(members, slots, {member_id: len(had[member_id]) for member_id in members})
    kept: dict[str, list[int]] = {}
    for member_id in members:
        numbers = kept[member_id] = []
        for number in sorted(set(had[member_id])):
            if len(numbers) < in_member[member_id] and in_partition.get(number, 0) > 0:
                in_partition[number] -= 1
                numbers.append(number)
    free = [number for number, left in in_partition.items() for _ in range(left)]
    for member_id in members:
        wanted = in_member[member_id] - len(kept[member_id])
        kept[member_id] += free[:wanted]
        del free[:wanted]
    return {member_id: tuple(sorted(numbers)) for member_id, numbers in kept.items()}


def _evenly(things: Iterable[_T], slots: int, holds: Mapping[_T, int]) -> dict[_T, int]:
    """How many slots each thing gets; those that hold most already get the ones that are left over."""
    names = list(things)
    each, over = divmod(slots, len(names))
    favored = set(sorted(names, key=lambda name: -holds.get(name, 0))[:over])
    return {name: each + (name in favored) for name in names}
