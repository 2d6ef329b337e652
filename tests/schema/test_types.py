from __future__ import annotations

import pytest

from mainstem.errors import DefinitionError, SchemaError
from mainstem.schema.arrow import arrow_type
from mainstem.schema.types import Column, TopicSchema, type_name


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("bigint", "BIGINT"),
        (" long ", "BIGINT"),
        ("integer", "INT"),
        ("varchar(12)", "STRING"),
        ("decimal(10, 2)", "DECIMAL(10,2)"),
        ("numeric", "DECIMAL(10,0)"),
        ("array<Struct<aB: int>>", "array<Struct<aB: int>>"),
        ("text", None),
        ("decimal(39)", None),
    ],
)
def test_type_names_have_one_canonical_form(text: str, canonical: str | None) -> None:
    assert type_name(text) == canonical


def test_a_schema_survives_its_json_form() -> None:
    schema = TopicSchema(
        (Column("a", "STRING", nullable=False), Column("b", "ARRAY<INT>")), ddl="a STRING, b ARRAY<INT>"
    )
    assert TopicSchema.from_json(schema.to_json()) == schema


def test_ddl_text_quotes_what_is_no_plain_word() -> None:
    schema = TopicSchema((Column("time hour", "TIMESTAMP"), Column("id", "BIGINT", nullable=False)))
    assert schema.ddl_text() == "`time hour` TIMESTAMP, id BIGINT NOT NULL"


def test_names_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(DefinitionError, match="'Carrier' occurs twice"):
        TopicSchema((Column("carrier", "STRING"), Column("Carrier", "STRING")))


@pytest.mark.parametrize(
    ("columns", "said"),
    [((), "at least one"), ((Column("_offset", "INT"),), "_offset"), ((Column("when", "TEXT"),), "'when'")],
)
def test_an_impossible_schema_is_refused_by_name(columns: tuple[Column, ...], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        TopicSchema(columns)


@pytest.mark.parametrize("document", [{}, {"columns": [{"name": "a"}]}, {"columns": [1]}, {"columns": []}])
def test_a_document_that_is_no_schema_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(SchemaError, match="not a schema document"):
        TopicSchema.from_json(document)


def test_asking_for_a_column_that_is_not_there_lists_those_that_are() -> None:
    with pytest.raises(SchemaError, match="there are a, b"):
        TopicSchema((Column("a", "INT"), Column("b", "INT"))).column("c")


def test_arrow_types_follow_the_columns() -> None:
    schema = TopicSchema(
        (Column("a", "BIGINT", nullable=False), Column("b", "DECIMAL(9,2)"), Column("c", "MAP<INT,INT>"))
    )
    assert [(c.name, str(arrow_type(c.type)), c.nullable) for c in schema.columns] == [
        ("a", "int64", False),
        ("b", "decimal128(9, 2)", True),
        ("c", "string", True),
    ]
