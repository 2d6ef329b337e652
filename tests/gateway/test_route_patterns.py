"""Patterns over routing keys: words, * and #."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import InputError
from mainstem.gateway.streams.route_patterns import RoutePattern, routing_key
from mainstem.model import Record


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders.eu.*", ["orders.eu.de"], ["orders.eu", "orders.eu.de.by", "orders.us.de", "orders.eux.de"]),
        ("orders.#", ["orders", "orders.eu", "orders.eu.de"], ["order", "", "eu.orders"]),
        ("#", ["", "a", "a.b"], []),
        ("*", ["a"], ["", "a.b"]),
        ("#.de", ["de", "orders.de", "orders.eu.de"], ["orders.de.x"]),
        ("a.#.b.#", ["a.b", "a.x.b", "a.b.b.c"], ["a", "b"]),
        ("a", ["a"], ["A", "a."]),
    ],
)
def test_a_pattern_matches_as_in_amqp(pattern: str, matching: list[str], others: list[str]) -> None:
    parsed = RoutePattern.parse(pattern)
    assert [key for key in [*matching, *others] if parsed.matches(key)] == matching


@given(st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=6), st.lists(st.sampled_from("ab")))
def test_a_pattern_says_what_a_regular_expression_says(pattern: list[str], words: list[str]) -> None:
    parts = {"*": r"\.[ab]", "#": r"(?:\.[ab])*"}
    expression = "".join(parts.get(word, rf"\.{word}") for word in pattern)
    expected = re.fullmatch(expression, "".join(f".{word}" for word in words)) is not None
    assert RoutePattern.parse(".".join(pattern)).matches(".".join(words)) == expected


def test_a_pattern_that_invites_backtracking_is_quick() -> None:
    assert not RoutePattern.parse(".".join(["#", "a"] * 60)).matches(".".join(["a"] * 59 + ["b"]))


@pytest.mark.parametrize("pattern", ["", ".", "a..b", "a.", "*a", "a#.b", "x" * 256])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(InputError, match="route"):
        RoutePattern.parse(pattern)


@pytest.mark.parametrize(
    ("key", "header", "expected"),
    [(b"k", None, "k"), (b"k", b"h", "h"), (None, None, ""), (b"\xff", None, ""), (b"x" * 256, None, "")],
)
def test_a_routing_key_is_the_header_or_the_key(key: bytes | None, header: bytes | None, expected: str) -> None:
    headers = () if header is None else (("mainstem-routing-key", header),)
    assert routing_key(Record("t", 0, 0, -1, key, b"v", headers)) == expected
