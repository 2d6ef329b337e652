"""Avro into columns: natively and plainly the same, across what happens to schemas, bare and framed."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.schema import avro_decode
from mainstem.schema.arrow import arrow_type
from mainstem.schema.avro import parse_avro, topic_schema_of
from mainstem.schema.avro_decode import AvroDecoder
from mainstem.schema.avro_registry import AvroRegistry
from mainstem.schema.json_rows import DecodedRows
from tests.support.avro_values import encode, framed, registry

NAMED = {"type": "fixed", "name": "two", "size": 2}
SUIT = {"type": "enum", "name": "suit", "symbols": ["SPADES", "HEARTS"]}
DAY, AT = {"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-millis"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
VALUES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "i": ("int", st.integers(-(2**31), 2**31 - 1)),
    "l": ("long", st.integers(-(2**63), 2**63 - 1)),
    "f": ("float", st.floats(width=32)),
    "d": ("double", st.floats()),
    "b": ("boolean", st.booleans()),
    "s": ("string", st.text(max_size=5) | st.just(b"\xff\xfe")),
    "x": ("bytes", st.binary(max_size=5)),
    "n": ("null", st.none()),
    "e": (SUIT, st.sampled_from(["SPADES", "HEARTS"])),
    "w": (NAMED, st.binary(min_size=2, max_size=2)),
    "day": (DAY, st.integers(-(2**31), 2**31 - 1)),
    "at": (AT, st.integers(-(2**63), 2**63 - 1)),
    "price": (PRICE, st.binary(max_size=4)),
}
COLUMNS = [pa.string(), pa.binary(), pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]
COLUMNS += [pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.decimal128(6, 2)]


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def told(decoded: DecodedRows) -> tuple[Any, ...]:
    masks = [None if mask is None else mask.to_pylist() for mask in (decoded.is_object, decoded.fits)]
    count = decoded.arrow_batch.num_rows
    whole = [[True] * count if mask is None else mask for mask in masks]
    return ([repr(_plain(column).to_pylist()) for column in decoded.arrow_batch.columns], *whole)


def _plain(column: pa.Array) -> pa.Array:
    """Days and moments as numbers: Python's own begin with the year 1."""
    is_moment = pa.types.is_date32(column.type) or pa.types.is_timestamp(column.type)
    return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64()) if is_moment else column


def decode(values: list[bytes], reader: Any, schema: pa.Schema | None = None, **settings: Any) -> DecodedRows:
    text = json.dumps(reader)
    columns = schema or [pa.field(c.name, arrow_type(c.type)) for c in topic_schema_of(parse_avro(text)).columns]
    wanted = pa.schema([pa.field(each.name, each.type) for each in columns])
    return AvroDecoder(text, **settings).decode(pa.array(values, pa.binary()), wanted)


def rows(decoded: DecodedRows) -> list[dict[str, Any]]:
    return decoded.arrow_batch.to_pylist()


@given(st.data())
def test_the_native_way_and_the_plain_one_give_the_same(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=6, unique=True))
    nullable = {name: data.draw(st.sampled_from([None, 0, 1])) if name != "n" else None for name in names}
    kinds = {name: VALUES[name][0] for name in names}
    for name, place in nullable.items():
        if place is not None:
            kinds[name] = ["null", kinds[name]] if place == 0 else [kinds[name], "null"]
    writer = record(**kinds)
    cells = {name: VALUES[name][1] | (st.none() if nullable[name] is not None else VALUES[name][1]) for name in names}
    values = [encode(row, writer) for row in data.draw(st.lists(st.fixed_dictionaries(cells), max_size=5))]
    values += data.draw(st.lists(st.binary(max_size=12), max_size=3))
    wanted = [pa.field(name, data.draw(st.sampled_from(COLUMNS))) for name in [*names, "other"]]
    parsed, schema = parse_avro(json.dumps(writer)), pa.schema(wanted)
    array = pa.array([b"skipped", *values], pa.binary()).slice(1)
    with pytest.MonkeyPatch.context() as patch:
        natively = told(avro_decode.decode_records(array, 0, parsed, parsed, schema))
        patch.setattr(avro_decode, "_natively", avro_decode._plainly)
        assert natively == told(avro_decode.decode_records(array, 0, parsed, parsed, schema))


def test_logical_types_and_nested_ones_are_columns_of_their_own() -> None:
    reader = record(
        day=DAY, at=AT, price=PRICE, tags={"type": "array", "items": "string"}, any=["int", "string", "null"]
    )
    row = {"day": 15706, "at": 1_500, "price": b"\x01\x00", "tags": ["a", "é"], "any": "x"}
    moment = dt.datetime(1970, 1, 1, 0, 0, 1, 500000, dt.UTC)
    expected = {
        "day": dt.date(2013, 1, 1),
        "at": moment,
        "price": decimal.Decimal("2.56"),
        "tags": '["a","é"]',
        "any": "x",
    }
    encoded = encode(
        row, record(day=DAY, at=AT, price=PRICE, tags={"type": "array", "items": "string"}, any=["int", "string"])
    )
    assert rows(decode([encoded], reader)) == [expected]


def test_a_schema_that_evolved_reads_what_was_written_before() -> None:
    first = record(id="int", gone="string", ratio="float", old="string")
    second = record(id="long", ratio="double")
    second["fields"] += [
        {"name": "added", "type": "string", "default": "none yet"},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
        {"name": "unsaid", "type": ["null", "int"], "default": None},
        {"name": "new", "type": "bytes", "aliases": ["old"]},
    ]
    row = {"id": 5, "gone": "x", "ratio": 0.5, "old": "was"}
    with registry({1: first, 2: second}) as url:
        values = [
            framed(1, encode(row, first)),
            framed(2, encode({**row, "added": "a", "raw": b"r", "unsaid": 7, "new": b"n"}, second)),
        ]
        found = rows(decode(values, second, registry=AvroRegistry(url)))
    assert found == [
        {"id": 5, "ratio": 0.5, "added": "none yet", "raw": b"\xff", "unsaid": None, "new": b"was"},
        {"id": 5, "ratio": 0.5, "added": "a", "raw": b"r", "unsaid": 7, "new": b"n"},
    ]


def test_each_value_is_read_by_its_own_schema_and_stays_in_its_place() -> None:
    schemas = {number: record(a="long", **{f"f{number}": "string"}) for number in (3, 4, 5)}
    order = [3, 4, 3, 5, 9, 4]
    with registry({**schemas, 9: {}}) as url:
        values = [
            framed(n, encode({"a": at, f"f{n}": "x"}, schemas.get(n, schemas[3]) | {}) if n in schemas else b"")
            for at, n in enumerate(order)
        ]
        decoder = AvroDecoder(json.dumps(record(a="long")), AvroRegistry(url))
        found = decoder.decode(pa.array([*values, b"\x01", b""], pa.binary()), pa.schema([("a", pa.int64())]))
        assert "no schema 9" in decoder.reason(values[4])
        assert "does not begin with a zero" in decoder.reason(b"\x01")
    assert found.arrow_batch.column("a").to_pylist() == [0, 1, 2, 3, None, 5, None, None]
    assert found.is_object is not None
    assert found.is_object.to_pylist() == [True] * 4 + [False, True, False, False]


def test_what_does_not_add_up_is_a_row_of_nulls_with_its_reason() -> None:
    reader = record(a="long", b="string")
    good = encode({"a": 1, "b": "x"}, reader)
    decoded = decode([good, good[:-1], good + b"\0", b""], reader)
    assert rows(decoded) == [{"a": 1, "b": "x"}] + [{"a": None, "b": None}] * 3
    assert "not an Avro record of its schema: a length of 1, where 0" in AvroDecoder(json.dumps(reader)).reason(
        good[:-1]
    )


def test_no_values_are_no_rows() -> None:
    reader = record(a="long")
    assert rows(decode([], reader)) == []
    assert rows(decode([], reader, registry=AvroRegistry("http://127.0.0.1:1"))) == []
