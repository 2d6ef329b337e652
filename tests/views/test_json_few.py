from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.views.json_few import RECORDS_MAX, FewReader
from mainstem.views.json_reader import JsonColumn, JsonReader
from tests.views.support import KeyAndValue, arrow_batch

COLUMNS = (
    JsonColumn("s"),
    JsonColumn("b", "BOOLEAN"),
    JsonColumn("t", "TINYINT"),
    JsonColumn("h", "SMALLINT"),
    JsonColumn("i", "INTEGER"),
    JsonColumn("l", "BIGINT"),
    JsonColumn("d", "DOUBLE"),
    JsonColumn("f", "FLOAT"),
    JsonColumn("z", "TIMESTAMPTZ"),
    JsonColumn("j", "JSON"),
)
READERS = {
    "text": JsonReader((), text=True),
    "strings": JsonReader([JsonColumn("s"), JsonColumn("d")], text=True),
    "typed": JsonReader(COLUMNS, text=True),
    "required": JsonReader([JsonColumn("s", nullable=False)], text=False),
}
numbers = (
    st.integers()
    | st.integers(-300, 300)
    | st.floats(allow_nan=True)
    | st.floats(-1e6, 1e6)
    | st.decimals(places=3, allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9).map(float)
)
instants = st.datetimes().map(lambda time: time.isoformat() + "Z") | st.sampled_from(
    ["2013-01-01T05:00:00Z", "1999-12-31 23:59:60Z", "2013-02-30T05:00:00Z", "2013-01-01T05:00:00+01:00", "1900-01-01"]
)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=8) | instants
fields = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=3), scalars, max_size=3)
objects = st.dictionaries(st.sampled_from([column.name for column in COLUMNS] + ["S", "x", ""]), fields, max_size=5)


def written(value: Any, how: int) -> bytes:
    """The ways in which programs write JSON: Python's own, compact, with escapes, indented, sorted."""
    options: list[dict[str, Any]] = [
        {"ensure_ascii": False},
        {"ensure_ascii": False, "separators": (",", ":")},
        {},
        {"indent": 1},
        {"sort_keys": True, "ensure_ascii": False},
    ]
    return json.dumps(value, **options[how]).encode(errors="surrogatepass")


def in_bulk(reader: JsonReader, record: KeyAndValue) -> tuple[pa.Table, list[str]]:
    """What the reader makes of a record among so many that a query reads them."""
    read = reader.read(arrow_batch([record] * (RECORDS_MAX + 1)))
    return read.table.slice(0, 1), [poison.error for poison in read.poisons[:1]]


def alone(reader: JsonReader, record: KeyAndValue) -> tuple[pa.Table, list[str]]:
    read = reader.read(arrow_batch([record]))
    return read.table, [poison.error for poison in read.poisons]


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(sorted(READERS)), objects, st.integers(0, 4), st.text(max_size=5))
def test_a_record_alone_is_read_as_among_many(name: str, value: dict[str, Any], how: int, key: str) -> None:
    record = (key.encode(errors="surrogatepass"), written(value, how))
    few, errors = alone(READERS[name], record)
    many, many_errors = in_bulk(READERS[name], record)
    assert (few.to_pylist(), errors) == (many.to_pylist(), many_errors)
    assert few.schema == many.schema


@pytest.mark.parametrize(
    "value",
    [
        b'{"d": 1e5}',
        b'{"d": 1E5}',
        b'{"d": -0}',
        b'{"d": -0.0}',
        b'{"d": 1.50}',
        b'{"d": 12345678901234567890}',
        b'{"l": 9223372036854775807}',
        b'{"d": 9007199254740993}',
        b'{"s": "a\\u0041"}',
        b'{"s": "\\/"}',
        b'{"s": 1, "s": 2}',
        b'{"s": "x", }',
        b'{"x": NaN}',
        b'{"x": Infinity}',
        b' {"s": "x"}',
        b'{"s": "x"}\n',
        b'{"s": "\xe2\x80\xa8\x7f\xf0\x9f\x98\x80"}',
        b'{"d": true}',
        b'{"b": 1}',
        b'{"s": 7}',
        b'{"t": 128}',
        b'{"z": "2013-01-01T05:00:00.5Z"}',
        b'{"s": "\x01"}',
        b"[]",
        b"",
        None,
    ],
)
@pytest.mark.parametrize("name", sorted(READERS))
def test_what_is_written_oddly_is_read_as_among_many(name: str, value: bytes | None) -> None:
    few, errors = alone(READERS[name], (b"k", value))
    many, many_errors = in_bulk(READERS[name], (b"k", value))
    assert (few.to_pylist(), errors) == (many.to_pylist(), many_errors)


@pytest.mark.parametrize("key", [None, b"\xff", b"x" * 60_001])
def test_a_key_that_is_none_is_left_to_the_bulk(key: bytes | None) -> None:
    assert reader_of_few().read(arrow_batch([(key, b"{}")])) is None


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
def test_what_programs_write_costs_no_query(separators: tuple[str, str]) -> None:
    value = {"s": "Ünïcode", "n": {"list": [1, -2.5, None, True, {}]}}
    table = reader_of_few().read(
        arrow_batch([(b"k", json.dumps(value, separators=separators, ensure_ascii=False).encode())])
    )
    assert table is not None
    assert json.loads(table.column("text")[0].as_py()) == value


def test_many_records_are_left_to_the_bulk() -> None:
    assert reader_of_few().read(arrow_batch([(b"k", b"{}")] * RECORDS_MAX)) is not None
    assert reader_of_few().read(arrow_batch([(b"k", b"{}")] * (RECORDS_MAX + 1))) is None


def reader_of_few() -> FewReader:
    return FewReader((), None, text=True, keep=(), keyed=True)
