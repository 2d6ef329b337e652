from __future__ import annotations

import datetime
import decimal
import enum
import json
import uuid
from dataclasses import dataclass

import numpy
import pydantic
import pytest

from mainstem.client.values import json_text, key_bytes, value_bytes
from mainstem.errors import SchemaError


class Color(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float | None = None


class Model(pydantic.BaseModel):
    name: str


@pytest.mark.parametrize(
    ("value", "data"), [(None, None), (b"\x00", b"\x00"), ("ü", "ü".encode()), (memoryview(b"a"), b"a")]
)
def test_bytes_text_and_none_are_taken_as_they_are(value: object, data: bytes | None) -> None:
    assert value_bytes(value) == data
    assert key_bytes(value) == data


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": 1}, b'{"a":1}'),
        ([1, "x"], b'[1,"x"]'),
        (17, b"17"),
        (Point(1), b'{"x":1,"y":null}'),
        (Model(name="n"), b'{"name":"n"}'),
        ({"p": Point(1, 2.5)}, b'{"p":{"x":1,"y":2.5}}'),
        (Color.RED, b'"red"'),
        ({"s": {2, 1}}, b'{"s":[1,2]}'),
        ({"n": numpy.int64(3)}, b'{"n":3}'),
        ({"b": b"\x01"}, b'{"b":"AQ=="}'),
        ({"d": decimal.Decimal("1.50")}, b'{"d":"1.50"}'),
    ],
)
def test_all_else_is_json(value: object, data: bytes) -> None:
    assert value_bytes(value) == data


def test_a_time_without_a_zone_is_utc() -> None:
    assert json.loads(json_text(datetime.datetime(2013, 1, 1, 10, 0, 0, 5))) == "2013-01-01T10:00:00.000005Z"


def test_a_lone_scalar_as_key_is_its_text() -> None:
    assert key_bytes(uuid.UUID(int=1)) == b"00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize("value", [{"f": float("inf")}, {"o": object()}, {1j}])
def test_what_has_no_json_form_is_refused(value: object) -> None:
    with pytest.raises(SchemaError, match="no JSON form"):
        value_bytes(value)
