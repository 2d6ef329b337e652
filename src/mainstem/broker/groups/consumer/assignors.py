"""The server-side assignors of consumer groups: which member gets which partitions. Pure functions, deterministic.

``uniform``: two subscribers of a topic differ by at most one partition, unless neither can give the other a partition
of that topic. Only partitions that have to move do so. ``range``: each topic's partitions are cut into runs, which the
members get in their order. Topics with equally many partitions are co-partitioned. Static members come first, by
instance id, so that they keep their runs over restarts.

Every partition of a subscribed topic goes to exactly one member that subscribes to it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import UUID

Assignment: TypeAlias = Mapping[UUID, frozenset[int]]
"""The partitions of a member by topic; topics without partitions are left out."""
_Partition: TypeAlias = tuple[int, int]
"""A topic's place in the order of topic ids, and the partition: as numbers, which compare and hash fast."""
_ROUNDS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as assignors see it: its subscription and its target assignment so far."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[UUID]
    assigned: Assignment


Assignor: TypeAlias = Callable[[Sequence[Subscriber], Mapping[UUID, int]], dict[str, Assignment]]
"""Takes the members and how many partitions each topic has; a topic that is not there has none."""


def assign_range(members: Sequence[Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """Each topic in runs, one a subscriber, the first ones longer by one."""
    assigned: dict[str, dict[UUID, frozenset[int]]] = {member.member_id: {} for member in members}
    for subscribers, topic_ids in _alike(sorted(members, key=_range_order), partitions):
        for topic_id in topic_ids:
            quota, longer = divmod(partitions[topic_id], len(subscribers))
            first = 0
            for number, member in enumerate(subscribers[: partitions[topic_id]]):
                end = first + quota + (number < longer)
                assigned[member.member_id][topic_id] = frozenset(range(first, end))
                first = end
    return dict(assigned)


def _range_order(member: Subscriber) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or member.member_id


def assign_uniform(members: Sequence[Subscriber], partitions: Mapping[UUID, int]) -> dict[str, Assignment]:
    """Balanced first, sticky second."""
    ordered = sorted(members, key=lambda member: member.member_id)
    alike = _alike(ordered, partitions)
    topic_ids = sorted(topic_id for _, together in alike for topic_id in together)
    plan = _Plan(ordered, topic_ids)
    pools = [
        _Pool(
            tuple(member.member_id for member in subscribers),
            [(plan.places[topic_id], number) for topic_id in together for number in range(partitions[topic_id])],
        )
        for subscribers, together in alike
    ]
    # Who can give work away to few is filled first: the others then level out.
    pools.sort(key=lambda pool: (-len(pool.partitions) / len(pool.member_ids), len(pool.member_ids), pool.member_ids))
    for pool in pools:
        plan.keep(pool)
    for pool in pools:
        plan.fill(pool)
    for _ in range(_ROUNDS_MAX):
        moves = sum(plan.level(pool) for pool in pools)
        if moves == 0:
            break
    return plan.result(pools)


class _Pool:
    """The partitions of topics that have the same subscribers, and who owns them."""

    __slots__ = ("left", "member_ids", "owned", "partitions")

    def __init__(self, member_ids: tuple[str, ...], partitions: list[_Partition]) -> None:
        self.member_ids = member_ids
        self.partitions = partitions
        self.owned: dict[str, list[_Partition]] = {member_id: [] for member_id in member_ids}
        self.left: list[_Partition] = []


class _Plan:
    """How many partitions each member has over all pools; changed pool by pool."""

    def __init__(self, members: Sequence[Subscriber], topic_ids: Sequence[UUID]) -> None:
        self.members = members
        self._topic_ids = topic_ids
        self.places = places = {topic_id: place for place, topic_id in enumerate(topic_ids)}
        self._load = {member.member_id: 0 for member in members}
        self._was = {
            (places[topic_id], number): member.member_id
            for member in members
            for topic_id, numbers in member.assigned.items()
            if topic_id in places
            for number in numbers
        }

    def keep(self, pool: _Pool) -> None:
        """Let each partition stay where it was, if it can."""
        for partition in pool.partitions:
            owner = self._was.get(partition)
            if owner in pool.owned:
                pool.owned[owner].append(partition)
                self._load[owner] += 1
            else:
                pool.left.append(partition)

    def fill(self, pool: _Pool) -> None:
        """Give unassigned partitions to the members with the lowest load."""
        heap = [(self._load[member_id], member_id) for member_id in pool.member_ids]
        heapq.heapify(heap)
        for partition in pool.left:
            load, member_id = heap[0]
            pool.owned[member_id].append(partition)
            self._load[member_id] = load + 1
            heapq.heapreplace(heap, (load + 1, member_id))

    def level(self, pool: _Pool) -> int:
        """Move partitions from those who have most to those who have least; how many were moved."""
        most = [(-self._load[member_id], member_id) for member_id in pool.member_ids if pool.owned[member_id]]
        least = [(self._load[member_id], member_id) for member_id in pool.member_ids]
        heapq.heapify(most)
        heapq.heapify(least)
        moves = 0
        while most:
            giver = _top(most, lambda load, member_id: -load == self._load[member_id] and bool(pool.owned[member_id]))
            taker = _top(least, lambda load, member_id: load == self._load[member_id])
            if giver is None or taker is None or self._load[giver] - self._load[taker] <= 1:
                break
            # The newest goes first: what a member had before stays with it as long as it can.
            pool.owned[taker].append(pool.owned[giver].pop())
            moves += 1
            for member_id, change in ((giver, -1), (taker, 1)):
                self._load[member_id] += change
                heapq.heappush(most, (-self._load[member_id], member_id))
                heapq.heappush(least, (self._load[member_id], member_id))
        return moves

    def result(self, pools: Iterable[_Pool]) -> dict[str, Assignment]:
        """Everyone's partitions."""
        sets: dict[str, dict[int, set[int]]] = {member.member_id: {} for member in self.members}
        for pool in pools:
            for member_id, owned in pool.owned.items():
                for topic, number in owned:
                    sets[member_id].setdefault(topic, set()).add(number)
        return {
            member_id: {self._topic_ids[topic]: frozenset(numbers) for topic, numbers in topics.items()}
            for member_id, topics in sets.items()
        }


def _top(heap: list[tuple[int, str]], is_current: Callable[[int, str], bool]) -> str | None:
    """The first entry that still says what is so; older ones are thrown away."""
    while heap and not is_current(*heap[0]):
        heapq.heappop(heap)
    return heap[0][1] if heap else None


def _alike(members: Sequence[Subscriber], partitions: Mapping[UUID, int]) -> list[tuple[list[Subscriber], list[UUID]]]:
    """Topics that are there, those that the same members subscribe to together; members in their order.

    Members mostly subscribe to the same topics, so that what is looked at is subscriptions, not members times topics.
    """
    places: dict[frozenset[UUID], list[int]] = {}
    for place, member in enumerate(members):
        places.setdefault(member.topic_ids, []).append(place)
    subscriptions_of: dict[UUID, list[int]] = {}
    for number, topic_ids in enumerate(places):
        for topic_id in topic_ids:
            if partitions.get(topic_id, 0) > 0:
                subscriptions_of.setdefault(topic_id, []).append(number)
    together: dict[tuple[int, ...], list[UUID]] = {}
    for topic_id in sorted(subscriptions_of):
        together.setdefault(tuple(subscriptions_of[topic_id]), []).append(topic_id)
    of_subscription = list(places.values())
    return [
        (
            [members[place] for place in sorted(place for number in numbers for place in of_subscription[number])],
            topic_ids,
        )
        for numbers, topic_ids in together.items()
    ]


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
"""By the names that members ask for; the first one is the default."""
