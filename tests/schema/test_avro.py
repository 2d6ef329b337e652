"""Avro by its specification: what columns a schema means, and what bytes mean by it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import SchemaError
from mainstem.schema.avro import parse_avro, read_value, topic_schema_of
from tests.support.avro_values import encode


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def parsed(*fields: tuple[str, Any]) -> Any:
    return parse_avro(json.dumps(record(*fields)))


POINT = {"type": "record", "name": "geo.Point", "fields": [{"name": "x", "type": "int"}]}
FIELDS = (
    ("a", "long"),
    ("b", ["null", "string"]),
    ("c", {"type": "array", "items": {"type": "map", "values": ["double", "null"]}}),
    ("d", POINT),
    ("e", ["geo.Point", "null"]),
    ("f", {"type": "enum", "name": "suit", "symbols": ["SPADES", "HEARTS"]}),
    ("g", {"type": "fixed", "name": "four", "size": 4}),
    ("h", "boolean"),
)


def test_the_examples_of_the_specification_are_read() -> None:
    assert read_value(bytes.fromhex("3606666f6f"), parsed(("a", "long"), ("b", "string"))) == {"a": 27, "b": "foo"}
    assert read_value(bytes.fromhex("04063600"), parsed(("a", {"type": "array", "items": "long"}))) == {"a": [3, 27]}
    assert read_value(bytes.fromhex("020261"), parsed(("a", ["null", "string"]))) == {"a": "a"}
    # A block of a negative count says its bytes as well.
    assert read_value(bytes.fromhex("0304063600"), parsed(("a", {"type": "array", "items": "long"}))) == {"a": [3, 27]}


@given(st.data())
def test_what_was_written_is_read(data: st.DataObject) -> None:
    point = st.fixed_dictionaries({"x": st.integers(-(2**31), 2**31 - 1)})
    maps = st.dictionaries(st.text(max_size=3), st.none() | st.floats(allow_nan=False), max_size=3)
    row = {
        "a": data.draw(st.integers(-(2**63), 2**63 - 1)),
        "b": data.draw(st.none() | st.text()),
        "c": data.draw(st.lists(maps, max_size=3)),
        "d": data.draw(point),
        "e": None,
        "f": data.draw(st.sampled_from(["SPADES", "HEARTS"])),
        "g": data.draw(st.binary(min_size=4, max_size=4)),
        "h": data.draw(st.booleans()),
    }
    schema = [(name, ["double", "null"] if name == "c" else kind) for name, kind in FIELDS if name != "c"]
    schema.insert(2, ("c", {"type": "array", "items": {"type": "map", "values": ["null", "double"]}}))
    assert read_value(encode(row, record(*schema)), parsed(*schema)) == row


@given(st.binary(max_size=60))
def test_any_bytes_are_a_record_or_refused(data: bytes) -> None:
    try:
        found = read_value(data, parsed(*FIELDS))
    except SchemaError:
        return
    assert set(found) == {name for name, _ in FIELDS}


def test_a_few_bytes_do_not_make_many_items() -> None:
    nulls = {"type": "array", "items": {"type": "array", "items": "null"}}
    with pytest.raises(SchemaError, match="more items in a value of"):
        read_value(bytes.fromhex("feffffff0f00"), parsed(("a", {"type": "array", "items": "null"})))
    with pytest.raises(SchemaError, match="more items in a value of"):
        read_value(b"\x08" + b"\x08\x00" * 4 + b"\x00", parsed(("a", nulls)))


def test_a_value_that_goes_on_into_itself_ends() -> None:
    text = '{"type":"record","name":"n","fields":[{"name":"next","type":["null","n"]}]}'
    assert read_value(b"\x02\x02\x00", parse_avro(text)) == {"next": {"next": {"next": None}}}
    with pytest.raises(SchemaError, match="nested more than"):
        read_value(b"\x02" * 500 + b"\x00", parse_avro(text))


def test_fields_become_columns_of_spark_sql() -> None:
    logical = [
        ("day", {"type": "int", "logicalType": "date"}),
        ("at", ["null", {"type": "long", "logicalType": "timestamp-millis"}]),
        ("here", {"type": "long", "logicalType": "local-timestamp-micros"}),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        ("odd", {"type": "string", "logicalType": "date"}),
    ]
    assert topic_schema_of(parsed(*FIELDS, *logical)).ddl_text() == (
        "a BIGINT, b STRING, c STRING, d STRING, e STRING, f STRING, g BINARY, h BOOLEAN, "
        "day DATE, at TIMESTAMP, here TIMESTAMP_NTZ, price DECIMAL(9,2), odd STRING"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "JSONDecodeError"),
        ('"string"', "is a string; columns need a record"),
        ('{"type":"record","name":"r","fields":[{"name":"a","type":"strin"}]}', "there is no type 'strin'"),
        ('{"type":"record","name":"r"}', "KeyError"),
        (
            '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"fixed","name":"f","size":-1}}]}',
            "fixed of -1",
        ),
    ],
)
def test_what_is_no_schema_of_a_record_is_refused(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        parse_avro(text)
