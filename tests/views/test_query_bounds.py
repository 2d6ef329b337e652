"""Bounds of questions and answers, counted without a parser."""

from __future__ import annotations

import pytest

from mainstem.errors import QueryError
from mainstem.views.stores.sql.query_bounds import (
    SEARCH_BRACKETS_MAX,
    SQL_BRACKETS_MAX,
    SQL_BYTES_MAX,
    AnswerSize,
    check_search,
    check_sql,
    size_of,
)


def test_a_query_at_its_bounds_passes_and_one_beyond_says_both_numbers() -> None:
    check_sql("(" * SQL_BRACKETS_MAX)
    check_search("(" * SEARCH_BRACKETS_MAX)
    with pytest.raises(QueryError, match="has 2001 opening brackets: use at most 2000"):
        check_sql("(" * (SQL_BRACKETS_MAX + 1))
    with pytest.raises(QueryError, match=r"has 65537 bytes: send at most 65536"):
        check_sql("x" * (SQL_BYTES_MAX + 1))


def test_brackets_in_what_looks_like_a_text_count_too() -> None:
    with pytest.raises(QueryError, match="opening brackets"):
        check_sql("SELECT '" + "[" * 3_000 + "'")


def test_an_answer_is_counted_in_bytes() -> None:
    size = AnswerSize(1_000)
    size.add_row(("x" * 900,))
    with pytest.raises(QueryError, match="larger than 1000 bytes"):
        size.add_row(("x" * 200,))


def test_nested_values_are_counted_whole_however_deep() -> None:
    deep: list[object] = ["x" * 1_000]
    for _ in range(10_000):
        deep = [deep]
    assert size_of(deep) > 10_000
    assert size_of({"a": ["y" * 50, {"b": b"z" * 50}]}) > 100
    with pytest.raises(QueryError, match="deeper than 100 levels"):
        AnswerSize().add_row((deep,))
