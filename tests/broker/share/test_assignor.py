"""Who reads which partitions of a share group, whatever the members and topics are."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.share.assignor import Assignment, TopicShape, assign

IDS = {"t": UUID(int=1), "u": UUID(int=2), "v": UUID(int=3)}
_TOPICS = st.dictionaries(st.sampled_from("tuv"), st.integers(0, 9))
_SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(12)]), st.frozensets(st.sampled_from("tuv"))
)


def shapes(partitions: dict[str, int]) -> dict[str, TopicShape]:
    return {name: TopicShape(IDS[name], count) for name, count in partitions.items()}


def check(subscriptions: dict[str, frozenset[str]], partitions: dict[str, int], found: dict[str, Assignment]) -> None:
    assert found.keys() == subscriptions.keys()
    together = len(set(subscriptions.values())) == 1
    for names in [list(partitions)] if together else [[name] for name in partitions]:
        members = [member for member in subscriptions if any(name in subscriptions[member] for name in names)]
        every = {(IDS[name], number) for name in names for number in range(partitions[name])}
        every = {
            each for each in every if any(IDS[name] == each[0] for member in members for name in subscriptions[member])
        }
        held = {member: [(topic, n) for topic, ns in found[member].items() for n in ns] for member in members}
        if members and every:
            check_is_even({member: [each for each in own if each in every] for member, own in held.items()}, every)
    for member, assignment in found.items():
        for topic_id, numbers in assignment.items():
            assert numbers
            assert len(set(numbers)) == len(numbers)
            assert any(IDS[name] == topic_id for name in subscriptions[member])


def check_is_even(held: dict[str, list[tuple[UUID, int]]], every: set[tuple[UUID, int]]) -> None:
    loads = [len(own) for own in held.values()]
    shared = Counter(each for own in held.values() for each in own)
    sharing = -(-len(held) // len(every))
    assert set(shared) == every, "every partition has a member"
    assert max(shared.values()) <= sharing, "a member shares only if there are not enough partitions"
    assert min(loads) >= 1
    assert max(loads) - min(loads) <= 1


@given(_SUBSCRIPTIONS, _TOPICS, _SUBSCRIPTIONS, _TOPICS)
def test_partitions_are_shared_evenly_and_again_after_any_change(
    first: dict[str, frozenset[str]],
    first_topics: dict[str, int],
    second: dict[str, frozenset[str]],
    second_topics: dict[str, int],
) -> None:
    before = assign(first, shapes(first_topics), {})
    check(first, first_topics, before)
    after = assign(second, shapes(second_topics), before)
    check(second, second_topics, after)
    assert assign(second, shapes(second_topics), after) == after, "nothing moves when nothing changes"


def test_a_member_that_has_all_that_is_left_gets_another_members_partition() -> None:
    topics = shapes({"t": 2})
    before = assign({"m3": "t", "m6": "t"}, topics, {})
    members = {"m2": "t", "m4": "t", "m6": "t"}
    after = assign(members, topics, before)
    assert sorted(len(each[IDS["t"]]) for each in after.values()) == [1, 1, 2]
    assert assign(members, topics, after) == after


def test_members_keep_what_they_have_when_one_more_comes() -> None:
    topics = shapes({"t": 6})
    before = assign({"a": "t", "b": "t"}, topics, {})
    after = assign({"a": "t", "b": "t", "c": "t"}, topics, before)
    for member in "ab":
        assert set(after[member][IDS["t"]]) < set(before[member][IDS["t"]])


def test_all_members_of_a_topic_with_one_partition_share_it() -> None:
    found = assign({"a": "t", "b": "t", "c": "t"}, shapes({"t": 1}), {})
    assert [found[member][IDS["t"]] for member in "abc"] == [(0,), (0,), (0,)]


def test_members_of_the_same_topics_share_the_partitions_of_all_of_them() -> None:
    subscriptions = {"a": "tuv", "b": "tuv"}
    found = assign(subscriptions, shapes({"t": 1, "u": 1, "v": 2}), {})
    assert [sum(map(len, found[member].values())) for member in "ab"] == [2, 2]


def test_each_partition_has_as_many_members_as_the_others() -> None:
    found = assign({"a": "t", "b": "t", "c": "t"}, shapes({"t": 2}), {})
    assert [len(found[member][IDS["t"]]) for member in "abc"] == [2, 1, 1]
