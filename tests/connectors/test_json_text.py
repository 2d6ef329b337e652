"""Arrow columns as JSON text: the same documents and the same keys as the encoder that works row by row."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.connectors.json_text import json_objects, keys
from mainstem.errors import SchemaError
from mainstem.schema.encoding import encode_key, encode_value

_UTC = datetime.UTC
_TIMES = st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2100, 1, 1)).map(
    lambda t: t.replace(tzinfo=_UTC)
)
_ROWS = st.fixed_dictionaries(
    {
        "text": st.text(),
        "number": st.integers(-(2**63), 2**63 - 1),
        "real": st.floats(allow_nan=False, allow_infinity=False),
        "flag": st.booleans(),
        "time": _TIMES,
        "day": st.dates(),
        "maybe": st.none() | st.text(),
    }
)
_SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.int64()),
        ("real", pa.float64()),
        ("flag", pa.bool_()),
        ("time", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("maybe", pa.string()),
    ]
)


def batch(rows: list[dict[str, Any]], schema: pa.Schema = _SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schema)


@given(st.lists(_ROWS, min_size=1, max_size=8))
def test_a_row_is_the_document_that_the_encoder_gives(rows: list[dict[str, Any]]) -> None:
    in_order = [{name: row[name] for name in _SCHEMA.names} for row in rows]
    assert json_objects(batch(rows)).to_pylist() == [(encode_value(row) or b"").decode() for row in in_order]


@pytest.mark.parametrize("columns", [["text"], ["number"], ["real"], ["flag"], ["time"], ["day"]])
@given(rows=st.lists(_ROWS, min_size=1, max_size=8))
def test_a_key_has_the_bytes_that_the_encoder_gives(columns: list[str], rows: list[dict[str, Any]]) -> None:
    found = keys(batch(rows), columns, first_row=1)
    assert found is not None
    assert found.cast(pa.binary()).to_pylist() == [encode_key(row, columns) for row in rows]


@given(st.lists(_ROWS, min_size=1, max_size=8))
def test_a_key_of_several_columns_has_the_bytes_that_the_encoder_gives(rows: list[dict[str, Any]]) -> None:
    columns = ["text", "number", "real", "flag", "time", "day"]
    found = keys(batch(rows), columns, first_row=1)
    assert found is not None
    assert found.cast(pa.binary()).to_pylist() == [encode_key(row, columns) for row in rows]


def test_nested_columns_are_nested_json() -> None:
    schema = pa.schema([("tags", pa.list_(pa.string())), ("place", pa.struct([("lat", pa.float64())]))])
    text = json_objects(batch([{"tags": ["a", "b"], "place": {"lat": 1.5}}], schema))[0].as_py()
    assert json.loads(text) == {"tags": ["a", "b"], "place": {"lat": 1.5}}


def test_decimals_bytes_and_dictionaries_have_a_text() -> None:
    arrays = [
        pa.array([decimal.Decimal("1.10")], pa.decimal128(5, 2)),
        pa.array([b"\xff"], pa.binary()),
        pa.array(["a"]).dictionary_encode(),
    ]
    text = json_objects(pa.RecordBatch.from_arrays(arrays, ["price", "raw", "code"]))[0].as_py()
    assert text == '{"price":"1.10","raw":"/w==","code":"a"}'


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_what_is_not_finite_is_refused(number: str, is_nested: bool) -> None:
    column = [1.0, None, float(number)]
    array = pa.array([column, None]) if is_nested else pa.array(column)
    with pytest.raises(SchemaError, match=f"^{number} is not a JSON number"):
        json_objects(pa.RecordBatch.from_arrays([array], ["x"]))


def test_a_null_in_a_key_names_its_row() -> None:
    arrays = [pa.array(["a", "b", None])]
    with pytest.raises(SchemaError, match="row 12: key column 'k' is null"):
        keys(pa.RecordBatch.from_arrays(arrays, ["k"]), ["k"], first_row=10)
