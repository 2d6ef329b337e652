from __future__ import annotations

import datetime
import decimal
import json
import math
import uuid
from typing import Any

import pytest

from mainstem.views.stores.rows import plain, row_of

UTC = datetime.UTC
TOKYO = datetime.timezone(datetime.timedelta(hours=9))


def test_a_row_is_the_record_s_fields_and_its_key() -> None:
    assert row_of("k", b'{"a": 1, "b": null}') == {"_key": "k", "a": 1, "b": None}


def test_a_field_of_the_value_does_not_take_the_key_s_place() -> None:
    assert row_of("k", b'{"_key": "other", "a": 1}') == {"_key": "k", "a": 1}
    assert next(iter(row_of("k", b'{"a": 1, "_key": 2}'))) == "_key"


@pytest.mark.parametrize(("text", "shown"), [(b"garbage", "garbage"), (b"{\xff", "{\\xff"), ("{", "{")])
def test_text_that_is_no_json_is_shown_as_it_is(text: str | bytes, shown: str) -> None:
    assert row_of("k", text) == {"_key": "k", "value": shown}


@pytest.mark.parametrize("no_number", ["NaN", "nan", "Infinity", "-Infinity", "inf", "-INF"])
def test_what_is_no_number_is_answered_as_null(no_number: str) -> None:
    text = r'{"a": ?, "s": "?, \"nan", "n": [?, 1]}'.replace("?", no_number)
    assert row_of("k", text) == {"_key": "k", "a": None, "s": f'{no_number}, "nan', "n": [None, 1]}


def test_numbers_that_do_not_fit_are_answered_as_their_text() -> None:
    digits = "9" * 5_000
    row = row_of("k", '{"a": 1e999, "b": ?, "c": nan}'.replace("?", digits))
    assert row == {"_key": "k", "a": "1e999", "b": digits, "c": None}


PLAIN: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (2**70, 2**70),
    (math.nan, None),
    (math.inf, None),
    (0.1, 0.1),
    (datetime.date(2013, 1, 31), "2013-01-31"),
    (datetime.datetime(2013, 1, 31, 10, tzinfo=UTC), "2013-01-31T10:00:00Z"),
    (datetime.datetime(2013, 1, 31, 10, tzinfo=TOKYO), "2013-01-31T01:00:00Z"),
    (datetime.datetime(2013, 1, 31, 10), "2013-01-31T10:00:00"),  # a time without a zone
    (decimal.Decimal("1.50"), "1.50"),
    (b"\x00\x01", "AAE="),
    ({"a": (1, math.nan)}, {"a": [1, None]}),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (datetime.timedelta(days=1), "1 day, 0:00:00"),
]


@pytest.mark.parametrize(("value", "expected"), PLAIN)
def test_values_become_plain_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)
