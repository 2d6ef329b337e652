"""Offsets of streams: their JSON, their limits, the lives of topics."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import OffsetOutOfRangeError
from mainstem.model import Position, TopicPartition
from mainstem.spark.offsets import StreamOffsets, limited, require_same_lives

COUNTS = st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(0, 1000)), min_size=1)


def test_offsets_come_back_from_json_with_the_same_text() -> None:
    offsets = StreamOffsets(Position.parse("b/0:7,a/1:3"), {"a": "id-a", "b": "id-b"}, Position.parse("t/0:16"))
    text = json.dumps(offsets.to_json())
    assert StreamOffsets.from_json(json.loads(text)) == offsets
    assert json.dumps(StreamOffsets.from_json(json.loads(text)).to_json()) == text


@given(COUNTS, st.integers(1, 3000))
def test_a_limit_is_kept_and_lets_every_backlog_shrink(counts: dict[int, tuple[int, int]], rows_max: int) -> None:
    start = Position({TopicPartition("t", p): first for p, (first, _) in counts.items()})
    ends = Position({TopicPartition("t", p): first + more for p, (first, more) in counts.items()})
    end = limited(start, ends, rows_max)
    read = sum(end[tp] - start[tp] for tp in end)
    assert read == min(rows_max, sum(more for _, more in counts.values()))
    assert end.covers(start)
    assert ends.covers(end)


def test_a_topic_that_was_made_again_is_noticed() -> None:
    start = StreamOffsets(Position.of("a", 0, 7), {"a": "former"}, Position())
    with pytest.raises(OffsetOutOfRangeError, match="deleted and made again"):
        require_same_lives(start, {"a": "latter"})
