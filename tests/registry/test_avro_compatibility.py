"""Avro's schema resolution: what can be read with which schema, judged by fastavro where data can say it."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError
from hypothesis import assume, given
from hypothesis import strategies as st

from mainstem.registry.formats.avro.avro_compatibility import REPORTED_MAX
from mainstem.registry.formats.avro.avro_format import AvroFormat
from mainstem.registry.formats.schema_format import Incompatibility, InvalidSchemaError
from tests.registry.avro_schemas import data_of, evolutions, schemas

AVRO = AvroFormat()


def compared(reader: Any, writer: Any) -> list[Incompatibility]:
    return list(AVRO.incompatibilities(AVRO.parse(json.dumps(reader), {}), AVRO.parse(json.dumps(writer), {})))


def found(reader: Any, writer: Any) -> list[tuple[str, str]]:
    return [(each.kind, each.path) for each in compared(reader, writer)]


def record(*fields: Any, name: str = "R", **attributes: Any) -> dict[str, Any]:
    """A record whose fields are (name, type) or (name, type, attributes)."""
    named = [{"name": each[0], "type": each[1], **(each[2] if len(each) > 2 else {})} for each in fields]
    return {"type": "record", "name": name, **attributes, "fields": named}


def enum(*symbols: str, **attributes: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **attributes}


def fixed(size: int, **attributes: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size, **attributes}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


TREE = record(("left", ["null", "R"]), ("right", ["null", "R"]), ("value", "int"))
BRANCH, MISSING = "MISSING_UNION_BRANCH", "READER_FIELD_MISSING_DEFAULT_VALUE"


@pytest.mark.parametrize("writer", ["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
def test_primitive_types_are_promoted_as_the_specification_says(writer: str) -> None:
    promoted = {
        "int": {"long", "float", "double"},
        "long": {"float", "double"},
        "float": {"double"},
        "string": {"bytes"},
        "bytes": {"string"},
    }
    for reader in ("null", "boolean", "int", "long", "float", "double", "bytes", "string"):
        readable = reader == writer or reader in promoted.get(writer, ())
        assert found(reader, writer) == ([] if readable else [("TYPE_MISMATCH", "")])
        assert found([reader], writer) == ([] if readable else [(BRANCH, "")])


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (record(), record(("a", "int"))),
        (record(("a", "int", {"default": 1})), record()),
        (record(("b", "long", {"aliases": ["x", "a"]})), record(("a", "int"))),
        (record(("a", "int", {"aliases": ["a"]})), record(("a", "int"))),
        (record(name="n.R"), record(name="m.R")),
        (record(name="S", aliases=["R"]), record()),
        (record(name="n.S", aliases=["R", "m.R"]), record(name="m.R")),
        (enum("A", "B"), enum("B")),
        (enum("A", default="A"), enum("A", "B")),
        (fixed(2), fixed(2)),
        (array("long"), array("int")),
        (["null", "string"], "null"),
        (["null", "long"], ["int"]),
        (["null", record(name="S", aliases=["m.R"])], record(name="m.R")),
        ("long", ["int", "long"]),
        ("int", []),
        (array(["null", record(("a", "int", {"default": 0}))]), array(record())),
        (TREE, TREE),
        (record(("next", ["null", "R"]), ("new", "int", {"default": 0})), record(("next", ["null", "R"]))),
    ],
)
def test_what_the_specification_lets_pass_is_readable(reader: Any, writer: Any) -> None:
    assert compared(reader, writer) == []


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        (record(("a", "int")), record(), [(MISSING, "/fields/0")]),
        (record(("a", enum("A", default="A"))), record(), [(MISSING, "/fields/0")]),
        (
            record(("x", "int"), ("a", "int"), ("b", "string")),
            record(("a", "string"), ("b", "string")),
            [(MISSING, "/fields/0"), ("TYPE_MISMATCH", "/fields/1/type")],
        ),
        (
            record(("a", "int", {"aliases": ["b"]})),
            record(("a", "int"), ("b", "int")),
            [("NAME_MISMATCH", "/fields/0")],
        ),
        (record(name="S"), record(), [("NAME_MISMATCH", "/name")]),
        (record(name="n.S", aliases=["R"]), record(), [("NAME_MISMATCH", "/name")]),
        (enum("A"), enum("C", "A", "B"), [("MISSING_ENUM_SYMBOLS", "/symbols")]),
        (fixed(1), fixed(2, name="G"), [("NAME_MISMATCH", "/name"), ("FIXED_SIZE_MISMATCH", "/size")]),
        (fixed(1), "bytes", [("TYPE_MISMATCH", "")]),
        (array("int"), array("string"), [("TYPE_MISMATCH", "/items")]),
        ({"type": "map", "values": array("int")}, {"type": "map", "values": "int"}, [("TYPE_MISMATCH", "/values")]),
        ("int", ["int", "null", "long"], [("TYPE_MISMATCH", "/1"), ("TYPE_MISMATCH", "/2")]),
        (["null", "int"], ["null", "int", "string"], [(BRANCH, "/2")]),
        ([], "null", [(BRANCH, "")]),
        (record(("a", ["null", array("int")])), record(("a", array("string"))), [(BRANCH, "/fields/0/type")]),
        (["null", record(("a", "int"))], [record()], [(BRANCH, "/0")]),
        (
            record(("next", ["null", "R"]), ("value", "int")),
            record(("next", ["null", "R"]), ("value", "string")),
            [(BRANCH, "/fields/0/type/1"), ("TYPE_MISMATCH", "/fields/1/type")],
        ),
    ],
)
def test_each_reason_has_its_kind_and_place(reader: Any, writer: Any, expected: list[tuple[str, str]]) -> None:
    assert found(reader, writer) == expected


def test_a_description_says_what_is_missing() -> None:
    assert "symbols B, C" in compared(enum("A"), enum("C", "A", "B"))[0].description
    assert "field a" in compared(record(("a", "int")), record())[0].description
    assert str(compared("int", "string")[0]).startswith("TYPE_MISMATCH at /: ")


def test_a_failure_within_a_recursion_is_seen_from_every_place_that_needs_it() -> None:
    # The inner union reads R only if R is readable, and R is not: that shows after the recursion has been looked at.
    reader = record(("list", ["null", {"type": "map", "values": ["null", "R"]}]), ("value", "int"))
    writer = record(("list", ["null", {"type": "map", "values": ["null", "R"]}]), ("value", "string"))
    assert found(reader, writer) == [(BRANCH, "/fields/0/type/1"), ("TYPE_MISMATCH", "/fields/1/type")]


def chain(count: int, last: str) -> list[Any]:
    records = [record(("f", ["null", last]), name="R0")]
    records += [record(("f", f"R{i - 1}"), ("g", ["null", f"R{i - 1}"]), name=f"R{i}") for i in range(1, count)]
    return records


def test_long_chains_of_records_are_compared_without_recursion() -> None:
    assert compared(chain(3000, "long"), chain(3000, "int")) == []
    assert len(compared(chain(3000, "int"), chain(3000, "long"))) == REPORTED_MAX


def test_long_unions_are_compared_in_linear_time() -> None:
    union = [record(("next", ["null", f"R{max(i - 1, 0)}"]), name=f"R{i}") for i in range(4000)]
    assert compared(union, union) == []


def test_a_comparison_that_would_take_too_long_is_refused() -> None:
    def same_names(namespace: str) -> list[Any]:
        return [record(name=f"{namespace}{i}.R") for i in range(600)]

    with pytest.raises(InvalidSchemaError, match="comparisons"):
        compared(same_names("a"), same_names("b"))


def written(writer: Any, datum: Any) -> io.BytesIO:
    file = io.BytesIO()
    schemaless_writer(file, parse_schema(writer), datum)
    file.seek(0)
    return file


def read(reader: Any, writer: Any, datum: Any) -> None:
    try:
        schemaless_reader(written(writer, datum), parse_schema(writer), parse_schema(reader))
    except TypeError as error:  # a defect of fastavro 1.13, where a branch of the reader's union is the name of a type
        assume("string indices must be integers" not in str(error))
        raise
    except SchemaResolutionError:  # fastavro takes the first branch "R"; Java and the comparison prefer the full name
        assume(not has_namesakes(reader))
        raise


def has_namesakes(schema: Any) -> bool:
    """Whether a union in the schema has two branches of one name in different namespaces."""
    if isinstance(schema, dict):
        return any(has_namesakes(each) for each in schema.values())
    if not isinstance(schema, list):
        return False
    names = [
        (each["name"] if isinstance(each, dict) and "name" in each else str(each)).split(".")[-1] for each in schema
    ]
    return len(set(names)) < len(names) or any(map(has_namesakes, schema))


@given(evolutions(), st.data())
def test_what_passes_is_read_by_fastavro(pair: tuple[Any, Any], data: st.DataObject) -> None:
    reader, writer = pair
    assume(not compared(reader, writer))
    read(reader, writer, data_of(data.draw, AVRO.parse(json.dumps(writer), {}).node))


@given(schemas(), st.data())
def test_every_schema_reads_its_own_data(schema: Any, data: st.DataObject) -> None:
    assert compared(schema, schema) == []
    read(schema, schema, data_of(data.draw, AVRO.parse(json.dumps(schema), {}).node))


@pytest.mark.parametrize(
    ("reader", "writer", "datum"),
    [
        ("int", "string", "a"),
        (record(("a", "int")), record(), {}),
        (enum("A"), enum("A", "B"), "B"),
        (fixed(1), fixed(2), b"xx"),
        (record(name="S"), record(), {}),
        (["null", "int"], ["null", "string"], "a"),
        (array("int"), array("string"), ["a"]),
        ("int", ["null", "int"], None),
        (record(("next", ["null", "R"]), ("value", "int")), record(("value", "string")), {"value": "a"}),
    ],
)
def test_what_does_not_pass_has_data_that_fastavro_cannot_read(reader: Any, writer: Any, datum: Any) -> None:
    assert compared(reader, writer)
    with pytest.raises(SchemaResolutionError):
        read(reader, writer, datum)
