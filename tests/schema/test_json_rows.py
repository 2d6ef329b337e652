"""JSON values into typed columns: what fits, what does not, and that no record depends on its neighbors."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.schema.json_rows import decode_json

SCHEMA = pa.schema(
    [
        pa.field("s", pa.string()),
        pa.field("i", pa.int32()),
        pa.field("f", pa.float64()),
        pa.field("b", pa.bool_()),
        pa.field("t", pa.timestamp("us", "UTC")),
    ]
)
GOOD = {"s": "a", "i": 1, "f": 1.5, "b": True, "t": "2013-01-01T10:00:00Z"}
WILD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
FIELDS = st.fixed_dictionaries({}, optional=dict.fromkeys((*SCHEMA.names, "unknown"), WILD))


def one(value: Any, kind: pa.DataType) -> Any:
    values = pa.array([json.dumps({"x": value}).encode()], pa.binary())
    return decode_json(values, pa.schema([pa.field("x", kind)])).arrow_batch.to_pylist()[0]["x"]


def test_rows_are_counted_without_columns() -> None:
    assert decode_json(pa.array([b"{}", b"{}"], pa.binary()), pa.schema([])).arrow_batch.num_rows == 2


def test_a_block_of_good_values_is_read() -> None:
    values = pa.array([json.dumps(GOOD).encode()] * 1000, pa.binary())
    decoded = decode_json(values, SCHEMA)
    assert decoded.is_object is None
    assert decoded.arrow_batch.to_pylist()[999] == {**GOOD, "t": dt.datetime(2013, 1, 1, 10, tzinfo=dt.UTC)}


@given(st.lists(FIELDS | WILD, min_size=1, max_size=80))
def test_what_a_record_becomes_depends_on_it_alone(rows: list[Any]) -> None:
    values = pa.array([json.dumps(row).encode() for row in rows], pa.binary())
    together = decode_json(values, SCHEMA)
    alone = [decode_json(values.slice(number, 1), SCHEMA).arrow_batch.to_pylist()[0] for number in range(len(rows))]
    assert together.arrow_batch.to_pylist() == alone


@pytest.mark.parametrize("value", [None, b"", b"nope", b"[1]", b"7", b'{"s":"a"}{"s":"b"}', b'{"s":', b"\xff"])
def test_what_is_no_object_is_a_row_of_nulls_and_told(value: bytes | None) -> None:
    decoded = decode_json(pa.array([b'{"s":"a"}', value, b'{"s":"b"}'], pa.binary()), SCHEMA)
    assert decoded.arrow_batch.column("s").to_pylist() == ["a", None, "b"]
    assert decoded.is_object is not None
    assert decoded.is_object.to_pylist() == [True, False, True]


def test_a_field_that_does_not_fit_is_told_and_those_beside_it_are_kept() -> None:
    rows = [GOOD, {**GOOD, "i": "x"}, {"s": None}, {**GOOD, "t": "soon"}, {**GOOD, "unknown": 5}]
    values = pa.array([*(json.dumps(row).encode() for row in rows), b"nope"], pa.binary())
    decoded = decode_json(values, SCHEMA)
    assert decoded.fits is not None
    assert decoded.fits.to_pylist() == [True, False, True, False, True, False]
    assert decoded.arrow_batch.column("s").to_pylist() == ["a", "a", None, "a", "a", None]


def test_no_values_are_no_rows() -> None:
    assert decode_json(pa.array([], pa.binary()), SCHEMA).arrow_batch.num_rows == 0


def test_values_may_hold_line_breaks() -> None:
    values = pa.array([b'{"s":\n"a"}\n', b' {"s":"b"}'], pa.binary())
    assert decode_json(values, SCHEMA).arrow_batch.column("s").to_pylist() == ["a", "b"]


NESTED = pa.struct([("d", pa.list_(pa.date32())), ("m", pa.decimal128(10, 2)), ("t", pa.timestamp("us", "UTC"))])
NESTED_JSON = {"d": ["2024-02-29", None], "m": "1.50", "t": "2024-02-29T12:00:00.000001Z"}
NESTED_VALUE = {
    "d": [dt.date(2024, 2, 29), None],
    "m": decimal.Decimal("1.50"),
    "t": dt.datetime(2024, 2, 29, 12, 0, 0, 1, dt.UTC),
}


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (NESTED_JSON, NESTED, NESTED_VALUE),
        ([NESTED_JSON], pa.list_(NESTED), [NESTED_VALUE]),
        ({"a": NESTED_JSON}, pa.map_(pa.string(), NESTED), [("a", NESTED_VALUE)]),
        ({"1": "YQ==", "2": None}, pa.map_(pa.int32(), pa.binary()), [(1, b"a"), (2, None)]),
        ({"b": ["YQ=="]}, pa.struct([("b", pa.list_(pa.binary()))]), {"b": [b"a"]}),
        ({"d": ["today"]}, NESTED, None),
        ([1, "x"], pa.list_(pa.int32()), None),
        ({"x": 1}, pa.map_(pa.int32(), pa.int32()), None),
    ],
)
def test_nested_values_are_read_alone_and_beside_what_arrow_refuses(value: Any, kind: Any, expected: Any) -> None:
    assert one(value, kind) == expected
    values = pa.array([json.dumps({"x": value}).encode(), b"no object"], pa.binary())
    rows = decode_json(values, pa.schema([pa.field("x", kind)])).arrow_batch.to_pylist()
    assert rows == [{"x": expected}, {"x": None}]
