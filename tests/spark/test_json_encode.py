"""Typed columns into records: the very bytes of the schema's own encoding."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import SchemaError
from mainstem.schema.encoding import encode_key, encode_value
from mainstem.spark.tasks.json_encode import encode_keys, encode_values

SCHEMA = pa.schema(
    [
        pa.field("s", pa.string()),
        pa.field("i", pa.int64()),
        pa.field("b", pa.bool_()),
        pa.field("t", pa.timestamp("us", "UTC")),
        pa.field("d", pa.date32()),
        pa.field("x", pa.binary()),
        pa.field("m", pa.decimal128(12, 3)),
        pa.field("l", pa.list_(pa.int64())),
        pa.field("o", pa.struct([("s", pa.string()), ("l", pa.list_(pa.struct([("d", pa.date32())])))])),
    ]
)
KEYS = SCHEMA.names[:7]
ROWS = st.fixed_dictionaries(
    {
        "s": st.text(),
        "i": st.integers(-(2**63), 2**63 - 1),
        "b": st.booleans(),
        "t": st.datetimes(dt.datetime(1600, 1, 1), dt.datetime(9000, 1, 1), timezones=st.just(dt.UTC)),
        "d": st.dates(dt.date(1600, 1, 1)),
        "x": st.binary(max_size=20),
        "m": st.decimals(-1000, 1000, places=3),
        "l": st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3),
        "o": st.none()
        | st.builds(
            lambda text, days: {"s": text, "l": days},  # in the schema's order
            st.none() | st.text(),
            st.none() | st.lists(st.fixed_dictionaries({"d": st.dates(dt.date(1600, 1, 1))}), max_size=2),
        ),
    }
)


def batch(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schema)


@given(st.lists(ROWS, min_size=1, max_size=20))
def test_values_have_the_bytes_of_the_schemas_encoding(rows: list[dict[str, Any]]) -> None:
    assert encode_values(batch(rows)).to_pylist() == [
        encode_value({name: row[name] for name in SCHEMA.names}) for row in rows
    ]


@given(st.lists(ROWS, min_size=1, max_size=20), st.permutations(KEYS), st.integers(1, 3))
def test_keys_have_the_bytes_of_the_schemas_encoding(rows: list[dict[str, Any]], names: list[str], count: int) -> None:
    encoded = encode_keys(batch(rows), names[:count])
    assert encoded is not None
    assert encoded.to_pylist() == [encode_key(row, names[:count]) for row in rows]


@given(st.lists(st.floats(), min_size=1))
def test_doubles_come_back_as_they_were_and_what_json_lacks_is_null(numbers: list[float]) -> None:
    arrow_batch = batch([{"f": number} for number in numbers], pa.schema([pa.field("f", pa.float64())]))
    read = [json.loads(value)["f"] for value in encode_values(arrow_batch).to_pylist()]
    assert read == [number if number - number == 0 else None for number in numbers]
    assert all(isinstance(number, float | None) for number in read)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_double_as_a_key_has_the_text_of_the_schemas_encoding(numbers: list[float]) -> None:
    arrow_batch = batch([{"f": number} for number in numbers], pa.schema([pa.field("f", pa.float64())]))
    encoded = encode_keys(arrow_batch, ["f"])
    assert encoded is not None
    assert encoded.to_pylist() == [encode_key({"f": number}, ["f"]) for number in numbers]


def test_nulls_are_written() -> None:
    assert encode_values(batch([dict.fromkeys(SCHEMA.names)]))[0].as_py() == (
        b'{"s":null,"i":null,"b":null,"t":null,"d":null,"x":null,"m":null,"l":null,"o":null}'
    )


def test_a_map_is_an_object() -> None:
    schema = pa.schema([pa.field("m", pa.map_(pa.int32(), pa.string()))])
    arrow_batch = batch([{"m": [(0, "-")]}, {"m": [(1, 'a"'), (2, None)]}, {"m": None}, {"m": []}], schema).slice(1)
    assert encode_values(arrow_batch).to_pylist() == [b'{"m":{"1":"a\\"","2":null}}', b'{"m":null}', b'{"m":{}}']


def test_nested_values_are_of_a_slice_what_they_are_of_the_whole() -> None:
    rows = [{"l": [n, None], "o": {"s": str(n), "l": []}} for n in range(5)]
    whole = encode_values(batch(rows)).to_pylist()
    assert encode_values(batch(rows).slice(2, 2)).to_pylist() == whole[2:4]


def test_a_column_that_is_json_already_is_not_quoted() -> None:
    arrow_batch = batch([{"j": '{"a":1}'}], pa.schema([pa.field("j", pa.string())]))
    assert encode_values(arrow_batch, json_columns={"j"})[0].as_py() == b'{"j":{"a":1}}'


def test_a_null_key_is_refused_by_name() -> None:
    with pytest.raises(SchemaError, match="key column 's' is null in 1 of 2 rows"):
        encode_keys(batch([{"s": "a"}, {"s": None}]), ["s"])


def test_a_missing_key_column_is_refused_by_name() -> None:
    with pytest.raises(SchemaError, match="no column 'z' for the key; there are s, i"):
        encode_keys(batch([]), ["z"])


def test_no_key_columns_are_no_keys() -> None:
    assert encode_keys(batch([]), []) is None
