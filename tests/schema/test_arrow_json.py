"""One text form: what files, pipelines and Python programs write of the same row is the same bytes."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.connectors.json_text import json_objects as of_files
from mainstem.connectors.json_text import keys as keys_of_files
from mainstem.errors import SchemaError
from mainstem.schema.arrow_json import json_objects
from mainstem.schema.encoding import encode_key, encode_value
from mainstem.spark.tasks.json_encode import encode_keys, encode_values

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCHEMA = pa.schema(
    [
        pa.field("s", pa.string()),
        pa.field("i", pa.int64()),
        pa.field("f", pa.float64()),
        pa.field("b", pa.bool_()),
        pa.field("t", pa.timestamp("us", "UTC")),
        pa.field("d", pa.date32()),
        pa.field("x", pa.binary()),
        pa.field("m", pa.decimal128(38, 18)),
        pa.field("l", pa.list_(pa.struct([pa.field("a", pa.string())]))),
    ]
)
CELLS: dict[str, st.SearchStrategy[Any]] = {
    "s": st.text(),
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": FLOATS | st.sampled_from([0.0, -0.0, 1e10, 9999999999.9, 1e16, 1e-4, 9.9e-5, 5e-324, 1.7e308]),
    "b": st.booleans(),
    "t": st.datetimes(dt.datetime(1600, 1, 1), dt.datetime(9000, 1, 1), timezones=st.just(dt.UTC)),
    "d": st.dates(dt.date(1600, 1, 1)),
    "x": st.binary(max_size=20),
    "m": st.decimals(-1000, 1000, places=18),
    "l": st.lists(st.fixed_dictionaries({"a": st.text(max_size=3)}), max_size=2),
}
KEYS = [name for name in CELLS if name != "l"]
ROWS = st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=8)


def batch(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schema)


@given(ROWS, st.booleans())
def test_files_pipelines_and_programs_write_the_same_values(rows: list[dict[str, Any]], sliced: bool) -> None:
    arrow_batch = batch([rows[0], *rows]).slice(1) if sliced else batch(rows)
    expected = [encode_value({name: row[name] for name in SCHEMA.names}) for row in rows]
    assert encode_values(arrow_batch).to_pylist() == expected
    assert of_files(arrow_batch).cast(pa.binary()).to_pylist() == expected


@given(
    st.lists(st.fixed_dictionaries({name: st.none() | cell for name, cell in CELLS.items()}), min_size=1, max_size=8)
)
def test_with_nulls_among_them_too(rows: list[dict[str, Any]]) -> None:
    expected = [encode_value({name: row[name] for name in SCHEMA.names}) for row in rows]
    assert encode_values(batch(rows)).to_pylist() == of_files(batch(rows)).cast(pa.binary()).to_pylist() == expected


@given(ROWS, st.permutations(KEYS), st.integers(1, 4))
def test_files_pipelines_and_programs_write_the_same_keys(
    rows: list[dict[str, Any]], names: list[str], count: int
) -> None:
    chosen, found = names[:count], keys_of_files(batch(rows), names[:count], first_row=1)
    encoded = encode_keys(batch(rows), chosen)
    assert found is not None
    assert encoded is not None
    expected = [encode_key(row, chosen) for row in rows]
    assert encoded.to_pylist() == found.cast(pa.binary()).to_pylist() == expected


@given(st.lists(st.floats(width=32), min_size=1))
def test_a_float_of_32_bits_comes_back_from_few_digits(numbers: list[float]) -> None:
    arrow_batch = batch([{"f": number} for number in numbers], pa.schema([pa.field("f", pa.float32())]))
    read = [json.loads(text)["f"] for text in json_objects(arrow_batch).to_pylist()]
    assert pa.array(read, pa.float32()).to_pylist() == [n if n - n == 0 else None for n in numbers]


def test_a_tenth_is_a_tenth_in_32_bits_as_well() -> None:
    arrow_batch = batch([{"f": 0.1}, {"f": 16777216.0}, {"f": 1e20}], pa.schema([pa.field("f", pa.float32())]))
    assert json_objects(arrow_batch).to_pylist() == ['{"f":0.1}', '{"f":16777216.0}', '{"f":1e+20}']


def test_pipelines_write_null_for_an_infinity_and_files_refuse_it() -> None:
    arrow_batch = batch([{"f": float("inf")}, {"f": float("nan")}], pa.schema([pa.field("f", pa.float64())]))
    assert encode_values(arrow_batch).to_pylist() == [b'{"f":null}'] * 2
    with pytest.raises(SchemaError, match="inf is not a JSON number"):
        of_files(arrow_batch)


def test_an_infinity_is_no_key() -> None:
    arrow_batch = batch([{"f": float("inf"), "s": "a"}], pa.schema([("f", pa.float64()), ("s", pa.string())]))
    for names in (["f"], ["f", "s"]):
        with pytest.raises(SchemaError, match="JSON form"):
            encode_keys(arrow_batch, names)


def test_other_columns_of_files_have_a_text() -> None:
    arrays = [
        pa.array(["a"]).dictionary_encode(),
        pa.array(["b"], pa.large_string()),
        pa.nulls(1),
        pa.array([dt.time(10, 0)], pa.time64("us")),
        pa.array([1_500_000_000_123_456_789], pa.timestamp("ns")),
    ]
    text = json_objects(pa.RecordBatch.from_arrays(arrays, ["c", "l", "n", "t", "at"]))[0].as_py()
    assert text == '{"c":"a","l":"b","n":null,"t":"10:00:00","at":"2017-07-14T02:40:00.123456Z"}'
