from __future__ import annotations

import datetime
import json

import pytest

from mainstem.errors import SchemaError
from mainstem.schema.encoding import encode_key, encode_value

HOUR = datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=-5)))


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("UA", b"UA"),
        (17, b"17"),
        (1.5, b"1.5"),
        (True, b"true"),
        (HOUR, b"2013-01-01T10:00:00Z"),
        (HOUR.date(), b"2013-01-01"),
    ],
)
def test_one_key_column_is_its_text(value: object, key: bytes) -> None:
    assert encode_key({"k": value, "other": 1}, ["k"]) == key


def test_several_key_columns_are_a_json_array() -> None:
    key = encode_key({"hour": HOUR, "origin": "JFK"}, ["origin", "hour"])
    assert key == b'["JFK","2013-01-01T10:00:00Z"]'


@pytest.mark.parametrize(("row", "said"), [({"k": None}, "is null"), ({}, "is missing")])
def test_a_row_without_its_key_is_refused(row: dict[str, object], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        encode_key(row, ["k"])


def test_a_topic_without_key_columns_has_no_keys() -> None:
    assert encode_key({"a": 1}, []) is None


def test_a_value_comes_back_as_it_was() -> None:
    row = {"a": 1, "b": "Zürich", "c": None, "d": {"e": [1, 2]}}
    assert json.loads(encode_value(row) or b"") == row


def test_no_row_is_a_tombstone() -> None:
    assert encode_value(None) is None


def test_nan_has_no_json_form() -> None:
    with pytest.raises(SchemaError, match="no JSON form"):
        encode_value({"a": float("nan")})
