"""Positions: their text form, their order, and what they refuse."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import PositionFormatError
from mainstem.model import Position, Record, TopicPartition, is_topic_name, topic_was_recreated

topic_partitions = st.builds(TopicPartition, st.sampled_from(["a", "b.c", "d_e-f"]), st.integers(0, 3))
positions = st.dictionaries(topic_partitions, st.integers(0, 2**63 - 1)).map(Position)


@given(positions)
def test_text_and_json_forms_come_back_as_they_went(position: Position) -> None:
    assert Position.parse(str(position)) == position
    assert Position.from_json(position.to_json()) == position


@given(positions, positions, positions)
def test_join_is_the_least_upper_bound(a: Position, b: Position, c: Position) -> None:
    joined = a | b
    assert joined.covers(a)
    assert joined.covers(b)
    assert not (c.covers(a) and c.covers(b)) or c.covers(joined)


@given(positions, positions)
def test_covers_both_ways_only_when_they_say_the_same(a: Position, b: Position) -> None:
    def without_zeros(position: Position) -> dict[TopicPartition, int]:
        return {tp: offset for tp, offset in position.items() if offset}

    assert (a.covers(b) and b.covers(a)) == (without_zeros(a) == without_zeros(b))


def test_a_partition_that_is_absent_stands_at_zero() -> None:
    assert Position().covers(Position.of("flights", 0, 0))
    assert not Position().covers(Position.of("flights", 0, 1))


def test_text_form_is_sorted_by_topic_then_partition_number() -> None:
    assert str(Position.parse("b/0:1,a/10:2,a/9:3")) == "a/9:3,a/10:2,b/0:1"


@pytest.mark.parametrize(
    "text",
    ["flights", "flights/0", "flights/0:-1", "flights/x:1", "a/0:1,a/0:2", "a/0:1,,b/0:1", "a b/0:1", f"a/0:{2**63}"],
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(PositionFormatError):
        Position.parse(text)


def test_a_record_is_before_its_own_position() -> None:
    record = Record("flights", 2, 41, 0, None, None)
    assert record.position == Position.of("flights", 2, 42)


@pytest.mark.parametrize(
    ("name", "good"), [("a.b_c-D9", True), ("", False), ("..", False), ("a/b", False), ("x" * 250, False)]
)
def test_topic_names_follow_kafkas_rule(name: str, good: bool) -> None:
    assert is_topic_name(name) is good


_TWO = UUID(int=2)


@pytest.mark.parametrize(
    ("known", "was_recreated"),
    [(None, False), ("", False), (UUID(int=0), False), (str(UUID(int=0)), False), (UUID(int=1), False), (_TWO, True)],
)
def test_a_topic_with_another_known_id_was_recreated(known: UUID | str | None, was_recreated: bool) -> None:
    now = UUID(int=1)
    assert (topic_was_recreated(known, now), topic_was_recreated(known, str(now))) == (was_recreated, was_recreated)
