"""The assignor of share groups: the members share all partitions of their topics evenly, as Kafka's "simple" one.

If all members subscribe to the same topics, it assigns all partitions together; else it assigns each topic on its own.
With at least as many partitions as members, each partition goes to one member. With more members than partitions, all
partitions have the same number of members. The members' counts of partitions differ by at most one. A member keeps its
partitions as far as that allows. A pure function.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import islice
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
    names_of = {member_id: frozenset(subscriptions[member_id]) for member_id in sorted(subscriptions)}
    names = sorted({name for each in names_of.values() for name in each if name in topics})
    together = len(set(names_of.values())) == 1
    assigned: dict[str, dict[UUID, tuple[int, ...]]] = {member_id: {} for member_id in subscriptions}
    for chosen in [names] if together else [[name] for name in names]:
        numbering = _Numbering([topics[name] for name in chosen])
        members = [member_id for member_id in names_of if names_of[member_id].issuperset(chosen)]
        if numbering.count:
            had = {member_id: numbering.numbers(before.get(member_id, {})) for member_id in members}
            for member_id, own in _assign(numbering.count, had).items():
                assigned[member_id].update(numbering.assignment(own))
    return dict(assigned)


class _Numbering:
    """Numbers the partitions of several topics in one row, from 0 to ``count``: to compare numbers is fast."""

    def __init__(self, topics: Iterable[TopicShape]) -> None:
        self.count = 0
        self._rows: list[tuple[UUID, range]] = []
        for topic in topics:
            self._rows.append((topic.topic_id, range(self.count, self.count + topic.partitions)))
            self.count += topic.partitions

    def numbers(self, assignment: Assignment) -> list[int]:
        """The numbers of an assignment's partitions, in order; those that no topic has are left out."""
        return [row[n] for topic_id, row in self._rows for n in sorted({*assignment.get(topic_id, ())}) if n < len(row)]

    def assignment(self, numbers: set[int]) -> dict[UUID, tuple[int, ...]]:
        """The partitions that have these numbers."""
        ordered = sorted(numbers)
        found = {}
        for topic_id, row in self._rows:
            own = ordered[bisect_left(ordered, row.start) : bisect_left(ordered, row.stop)]
            if own:
                found[topic_id] = tuple(number - row.start for number in own)
        return found


def _assign(partitions: int, had: Mapping[str, Sequence[int]]) -> dict[str, set[int]]:
    """Which members of ``had`` get which of the partitions, by their numbers."""
    members = list(had)
    sharing = -(-len(members) // partitions)
    left = dict.fromkeys(range(partitions), sharing)
    wanted = _evenly(members, sharing * partitions, {member_id: len(had[member_id]) for member_id in members})
    kept = {
        member_id: _take((each for each in had[member_id] if each in left), wanted[member_id], left)
        for member_id in members
    }
    for member_id, own in kept.items():
        in_order = left if sharing == 1 else sorted(left, key=lambda each: -left[each])
        own |= _take((each for each in in_order if each not in own), wanted[member_id] - len(own), left)
    for member_id, own in kept.items():
        while len(own) < wanted[member_id]:  # what is left it has: another member takes that, and gives one
            [number] = _take(list(left)[:1], 1, left)
            other = next(each for each in kept.values() if number not in each and not each <= own)
            given = min(other - own)
            other.remove(given)
            other.add(number)
            own.add(given)
    return kept


def _take(free: Iterable[int], count: int, left: dict[int, int]) -> set[int]:
    """Take up to ``count`` of the free partitions; ``left`` says how many members each of them still needs."""
    taken = set(islice(free, count))
    for each in taken:
        left[each] -= 1
        if not left[each]:
            del left[each]
    return taken


def _evenly(things: Iterable[_T], slots: int, holds: Mapping[_T, int]) -> dict[_T, int]:
    """The number of slots of each; those that hold most already get the slots that are left over."""
    names = list(things)
    each, over = divmod(slots, len(names))
    favored = set(sorted(names, key=lambda name: -holds.get(name, 0))[:over])
    return {name: each + (name in favored) for name in names}
