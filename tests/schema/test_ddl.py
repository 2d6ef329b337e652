from __future__ import annotations

import pytest

from mainstem.errors import DefinitionError
from mainstem.schema.ddl import columns_of, readable_type
from mainstem.schema.types import Column


def test_a_flat_ddl_string_gives_its_columns() -> None:
    assert columns_of("carrier STRING NOT NULL, seats: int,\n `time hour` timestamp") == (
        Column("carrier", "STRING", nullable=False),
        Column("seats", "INT"),
        Column("time hour", "TIMESTAMP"),
    )


def test_nested_types_keep_their_commas() -> None:
    columns = columns_of("a MAP<STRING, STRUCT<x: INT, y: DECIMAL(3,1)>> NOT NULL, b DECIMAL(10, 2)")
    assert [c.type for c in columns] == ["MAP<STRING, STRUCT<x: INT, y: DECIMAL(3,1)>>", "DECIMAL(10,2)"]


def test_a_comment_may_hold_commas_and_brackets() -> None:
    assert columns_of("a INT NOT NULL COMMENT 'it''s, <so>', b INT") == (
        Column("a", "INT", nullable=False),
        Column("b", "INT"),
    )


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("", "empty"),
        ("a", "'a'"),
        ("a TEXT", "'TEXT'"),
        ("a INTERVAL DAY", "column 'a': 'INTERVAL DAY' is not a type that"),
        ("a INT,, b INT", "comma"),
        ("a INT,", "comma"),
        ("a ARRAY<INT", "bracket"),
    ],
)
def test_a_wrong_ddl_string_is_refused_where_it_is_wrong(ddl: str, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        columns_of(ddl)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (
            "array < map<string, STRUCT<`a ``b` char(2) NOT NULL COMMENT 'x', c: interval day to second>> >",
            "ARRAY<MAP<STRING, STRUCT<`a ``b`: STRING, `c`: STRING>>>",
        ),
        ("STRUCT<>", "STRUCT<>"),
        ("ARRAY<STRNG>", "ARRAY<STRNG>"),
        ("DECIMAL(4,2)", "DECIMAL(4,2)"),
    ],
)
def test_a_nested_type_has_parts_that_can_be_read_and_a_word_that_is_no_type_stays(text: str, read: str) -> None:
    assert readable_type(text) == read
