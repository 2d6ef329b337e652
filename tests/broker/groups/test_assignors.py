"""Assignors: every partition has one owner, loads are even, and as little moves as that allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from mainstem.broker.groups.consumer.assignors import ASSIGNORS, Assignment, Subscriber, assign_range, assign_uniform

T1, T2, T3 = (UUID(int=number) for number in (1, 2, 3))


def subscriber(
    member_id: str, *topic_ids: UUID, assigned: Assignment | None = None, instance: str | None = None
) -> Subscriber:
    return Subscriber(member_id, instance, frozenset(topic_ids), assigned or {})


def again(members: Sequence[Subscriber], assigned: Mapping[str, Assignment]) -> list[Subscriber]:
    """The members with what they were given."""
    return [
        Subscriber(member.member_id, member.instance_id, member.topic_ids, assigned.get(member.member_id, {}))
        for member in members
    ]


def load(assignment: Assignment) -> int:
    return sum(len(numbers) for numbers in assignment.values())


def moved(before: Mapping[str, Assignment], after: Mapping[str, Assignment]) -> int:
    """How many partitions that somebody had are with somebody else."""
    return sum(
        len(numbers - after.get(member_id, {}).get(topic_id, frozenset()))
        for member_id, topics in before.items()
        for topic_id, numbers in topics.items()
    )


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> tuple[list[Subscriber], dict[UUID, int]]:
    topics = {UUID(int=number + 1): draw(st.integers(0, 12)) for number in range(draw(st.integers(1, 5)))}
    everything = frozenset(topics)
    some = st.just(everything) if alike else st.frozensets(st.sampled_from(sorted(topics)))
    count = draw(st.integers(1, 8))
    members = [
        Subscriber(f"m{number}", draw(st.none() | st.just(f"i{number}")), draw(some), {}) for number in range(count)
    ]
    return members, topics


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@seed(848)
@settings(max_examples=50, deadline=None)
@given(group=groups())
def test_every_partition_that_is_subscribed_to_has_one_owner_who_subscribes(
    name: str, group: tuple[list[Subscriber], dict[UUID, int]]
) -> None:
    members, topics = group
    assigned = ASSIGNORS[name](members, topics)
    owners = Counter(
        (topic_id, number) for topics_of in assigned.values() for topic_id, all_ in topics_of.items() for number in all_
    )
    wanted = frozenset().union(*(member.topic_ids for member in members))
    assert owners == Counter((topic_id, number) for topic_id in wanted for number in range(topics[topic_id]))
    for member in members:
        assert assigned[member.member_id].keys() <= member.topic_ids


@seed(848)
@settings(max_examples=50, deadline=None)
@given(group=groups(alike=True), change=st.sampled_from(["member comes", "member goes", "topic grows", "topic goes"]))
def test_uniform_is_balanced_and_moves_no_more_than_it_must(
    group: tuple[list[Subscriber], dict[UUID, int]], change: str
) -> None:
    members, topics = group
    before = assign_uniform(members, topics)
    members, topics = again(members, before), dict(topics)
    if change == "member comes":
        members.append(Subscriber("new", None, members[0].topic_ids, {}))
    elif change == "member goes" and len(members) > 1:
        members.pop(0)
    elif change == "topic grows":
        topics[min(topics)] += 3
    elif change == "topic goes":
        topics[min(topics)] = 0
    after = assign_uniform(members, topics)
    loads = [load(assignment) for assignment in after.values()]
    assert max(loads) - min(loads) <= 1
    kept = {
        member.member_id: sum(len([n for n in all_ if n < topics[id_]]) for id_, all_ in member.assigned.items())
        for member in members
    }
    fair, longer = divmod(sum(topics.values()), len(members))
    over = sorted(kept.values(), reverse=True)
    least_moves = sum(max(0, have - fair - (place < longer)) for place, have in enumerate(over))
    still_there = {
        member.member_id: {id_: frozenset(n for n in all_ if n < topics[id_]) for id_, all_ in member.assigned.items()}
        for member in members
    }
    assert moved(still_there, after) == least_moves


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@seed(848)
@settings(max_examples=30, deadline=None)
@given(group=groups())
def test_assigning_again_without_a_change_moves_nothing(
    name: str, group: tuple[list[Subscriber], dict[UUID, int]]
) -> None:
    members, topics = group
    first = ASSIGNORS[name](members, topics)
    assert ASSIGNORS[name](again(members, first), topics) == first


def test_range_gives_runs_and_partitions_topics_alike() -> None:
    assigned = assign_range([subscriber("b", T1, T2), subscriber("a", T1, T2)], {T1: 3, T2: 3})
    assert assigned == {
        "a": {T1: frozenset({0, 1}), T2: frozenset({0, 1})},
        "b": {T1: frozenset({2}), T2: frozenset({2})},
    }


def test_range_lets_static_members_keep_their_runs_under_new_ids() -> None:
    members = [subscriber("z", T1, instance="1"), subscriber("y", T1, instance="2"), subscriber("a", T1)]
    renamed = [subscriber("b", T1, instance="1"), subscriber("c", T1, instance="2"), subscriber("x", T1)]
    first, second = assign_range(members, {T1: 6}), assign_range(renamed, {T1: 6})
    assert [first[id_] for id_ in "zya"] == [second[id_] for id_ in "bcx"]


def test_uniform_levels_members_of_different_subscriptions() -> None:
    members = [subscriber("a", T1), subscriber("b", T1, T2), subscriber("c", T2, T3)]
    assigned = assign_uniform(members, {T1: 6, T2: 6, T3: 2})
    loads = {member_id: load(topics) for member_id, topics in assigned.items()}
    assert max(abs(loads["a"] - loads["b"]), abs(loads["b"] - loads["c"])) <= 1
