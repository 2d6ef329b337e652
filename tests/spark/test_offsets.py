"""Offsets of streams: their JSON, what a checkpoint may hold, where a micro-batch begins."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mainstem.errors import ConfigError
from mainstem.model import Position, TopicPartition
from mainstem.spark.checkpoints.offsets import StreamOffsets, require_subscribed
from mainstem.spark.options.read_options import ReadOptions

LOG = {"kafka.bootstrap.servers": "localhost:9092"}


def test_offsets_come_back_from_json_with_the_same_text() -> None:
    offsets = StreamOffsets(
        Position.parse("b/0:7,a/1:3"),
        {"a": "id-a", "b": "id-b"},
        Position.parse("t/0:16"),
        Position.parse("a/1:2"),
        stream="3f",
        is_initial=True,
    )
    text = json.dumps(offsets.to_json())
    assert StreamOffsets.from_json(json.loads(text)) == offsets
    assert json.dumps(StreamOffsets.from_json(json.loads(text)).to_json()) == text


def test_a_micro_batch_begins_where_the_last_one_ended_unless_it_says_where() -> None:
    before = StreamOffsets(Position.parse("a/0:7,a/1:3"), {}, Position())
    end = StreamOffsets(Position.parse("a/0:9,a/1:30,a/2:6"), {}, Position(), Position.parse("a/1:20,a/2:5"))
    assert end.begin(before) == Position.parse("a/0:7,a/1:20,a/2:5")


@pytest.mark.parametrize("document", [{}, [], "17", {"flights": {"0": 17}}, {"position": {"flights": 17}}])
def test_a_checkpoint_of_another_source_is_refused(document: Any) -> None:
    with pytest.raises(ConfigError, match=r"not this source's.*a checkpoint of its own"):
        StreamOffsets.from_checkpoint(document)


@pytest.mark.parametrize(
    ("options", "foreign"),
    [({"subscribe": "b"}, "a"), ({"assign": '{"a":[0]}'}, "a/1"), ({"assign": '{"b":[0]}'}, "a/0, a/1")],
)
def test_a_checkpoint_of_another_subscription_is_refused(options: dict[str, str], foreign: str) -> None:
    start = StreamOffsets(Position({TopicPartition("a", 0): 7, TopicPartition("a", 1): 3}), {}, Position())
    with pytest.raises(ConfigError, match=f"offsets of {foreign}, which the option .* belongs to another query"):
        require_subscribed(start, ReadOptions.parse({**LOG, **options}))
