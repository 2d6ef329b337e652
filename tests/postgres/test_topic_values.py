"""The values of an open transaction that were put aside into a file, and those that are remembered behind it."""

from __future__ import annotations

import pytest

from mainstem.postgres import topic_values
from mainstem.postgres.native.row_code import LARGE_BYTES
from mainstem.postgres.topic_values import OpenValues

LARGE = b"x" * LARGE_BYTES


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> OpenValues:
    """It puts aside every few values."""
    monkeypatch.setattr(topic_values, "_RECENT_BYTES_MAX", 2_000)
    return OpenValues()


def test_a_value_is_found_wherever_it_was_put(values: OpenValues) -> None:
    for turn in range(3):
        for number in range(20):
            values.note("t", b"%d" % number, b"%d/%d" % (number, turn))
        assert values.find("t", b"1") == (True, b"1/%d" % turn)
    values.note("t", b"1", None)
    assert values.find("t", b"1") == (True, None)
    assert values.find("t", b"99") == (False, None)
    assert values.find("other", b"2") == (False, None)
    assert dict(values.of_topic("t")) == {b"%d" % n: b"%d/2" % n if n != 1 else None for n in range(20)}


def test_large_values_are_known_behind_their_transaction(values: OpenValues) -> None:
    values.note("t", b"small", b"x")
    values.note("t", b"large", LARGE)
    values.note("t", b"gone", LARGE)
    values.clear()
    assert values.find("t", b"large") == (True, LARGE)
    assert values.find("t", b"small") == (False, None)
    values.note("t", b"gone", None)
    values.clear()
    assert values.find("t", b"gone") == (False, None)


def test_an_open_value_comes_before_a_remembered_one(values: OpenValues) -> None:
    values.note("t", b"1", LARGE)
    values.clear()
    values.note("t", b"1", b"new")
    for number in range(100):
        values.note("t", b"other %d" % number, LARGE)
    assert values.find("t", b"1") == (True, b"new")
