"""Columns into Avro values: the bytes that fastavro writes, which it reads."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.encodings import avro_encode
from mainstem.encodings.avro_columns import arrow_schema, avro_schema_of
from mainstem.encodings.value_encoder import ValueEncoder
from mainstem.errors import DefinitionError, SchemaError
from mainstem.schema.avro import parse_avro
from mainstem.schema.infer import schema_of

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "STRING": st.text(max_size=5),
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(38,9)": st.decimals(-(10**28), 10**28, places=9),
    "DATE": st.dates(),
    "TIMESTAMP": st.datetimes(timezones=st.just(datetime.UTC)),
    "TIMESTAMP_NTZ": st.datetimes(),
    "BINARY": st.binary(max_size=5),
    "ARRAY<DOUBLE>": st.lists(st.none() | st.floats(allow_nan=False), max_size=3),
    "ARRAY<ARRAY<STRING>>": st.lists(st.none() | st.lists(st.none() | st.text(max_size=3), max_size=2), max_size=2),
    "MAP<STRING, DATE>": st.dictionaries(st.text(max_size=3), st.none() | st.dates(), max_size=3),
    "STRUCT<a: INT, b: ARRAY<STRUCT<c: DECIMAL(10,2)>>>": st.fixed_dictionaries(
        {
            "a": st.none() | st.integers(-5, 5),
            "b": st.none()
            | st.lists(st.none() | st.fixed_dictionaries({"c": st.decimals(-5, 5, places=2)}), max_size=2),
        }
    ),
}
DDL = ", ".join(f"c{number} {kind}" for number, kind in enumerate(VALUES))
COLUMNS = schema_of(DDL)
SCHEMA = arrow_schema(COLUMNS)
TEXT = avro_schema_of("a.b-c", COLUMNS)
RECORD = parse_avro(TEXT)
ENCODER = ValueEncoder("avro", TEXT, 0, COLUMNS)
ROWS = st.lists(
    st.fixed_dictionaries({f"c{n}": st.none() | values for n, values in enumerate(VALUES.values())}), max_size=5
)


@given(ROWS)
def test_what_is_written_is_what_fastavro_writes_and_reads(rows: list[dict[str, Any]]) -> None:
    arrow_batch = pa.RecordBatch.from_pylist([{}, *rows, {}], SCHEMA).slice(1, len(rows))
    values = avro_encode.encode(arrow_batch, RECORD, b"\x00abcd").to_pylist()
    parsed = fastavro.parse_schema(json.loads(TEXT))
    for value, row in zip(values, rows, strict=True):
        assert value[:5] == b"\x00abcd"
        with decimal.localcontext(prec=40):
            fastavro.schemaless_writer(out := io.BytesIO(), parsed, row)
            assert value[5:] == out.getvalue()
            assert fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed, None) == row


def test_maps_of_other_keys_than_text_have_their_text() -> None:
    columns = schema_of("m MAP<INT, STRUCT<a: DATE>>, n MAP<DATE, STRING>")
    day = datetime.date(2024, 2, 29)
    row = {"m": [(-5, {"a": day}), (7, None)], "n": [(day, "x")]}
    arrow_batch = pa.RecordBatch.from_pylist([row, {"m": None, "n": []}], arrow_schema(columns))
    text = avro_schema_of("t", columns)
    values = ValueEncoder("avro", text, 0, columns).encode(arrow_batch).to_pylist()
    parsed = fastavro.parse_schema(json.loads(text))
    assert [fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed, None) for value in values] == [
        {"m": {"-5": {"a": day}, "7": None}, "n": {"2024-02-29": "x"}},
        {"m": None, "n": {}},
    ]


def test_a_column_that_is_missing_is_null() -> None:
    [value] = ENCODER.encode(pa.RecordBatch.from_pydict({"other": [1]})).to_pylist()
    assert value == bytes(5 + len(VALUES))


def test_no_rows_are_no_values() -> None:
    assert avro_encode.encode(pa.RecordBatch.from_pylist([], SCHEMA), RECORD, b"").to_pylist() == []


def test_a_column_of_a_type_that_does_not_fit_is_named() -> None:
    arrow_batch = pa.RecordBatch.from_pydict({"c3": ["x"]})
    with pytest.raises(SchemaError, match="column 'c3' does not fit its type in the topic's schema"):
        ENCODER.encode(arrow_batch)


@pytest.mark.parametrize("ddl", ["`a-b` INT", "a STRUCT<`x y`: INT>", "`1a` INT"])
def test_a_name_that_avro_does_not_take_is_refused(ddl: str) -> None:
    with pytest.raises(DefinitionError, match=r"topic orders: column '.*' cannot be a field in Avro: use letters"):
        avro_schema_of("orders", schema_of(ddl))
