"""Values of encoded topics in programs: written by the codec, read back, and refused where they do not fit."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.client.values import value_bytes
from mainstem.encodings.frames import schema_id_of
from mainstem.encodings.registration import register_topic
from mainstem.encodings.topic_values import Codec
from mainstem.errors import InputError, SchemaError
from mainstem.registry.registry import Registry
from mainstem.registry.requests import LATEST
from mainstem.schema.infer import schema_of
from mainstem.schema.types import ENCODINGS

FLAT = (
    "id BIGINT, name STRING, price DECIMAL(10,2), paid BOOLEAN, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, "
    "data BINARY"
)
ROW: dict[str, Any] = {
    "id": 2**62,
    "name": "Zoë",
    "price": "-12345678.90",
    "paid": True,
    "day": "1969-12-31",
    "at": "2024-02-29T12:00:00.000001Z",
    "local": "0001-01-01T00:00:00Z",
    "data": "AAE=",
}
NESTED = "id INT, tags ARRAY<STRING>, days MAP<STRING, DATE>, home STRUCT<city: STRING, at: ARRAY<DOUBLE>>"
NESTED_ROW: dict[str, Any] = {
    "id": 1,
    "tags": ["a", None],
    "days": {"x": "2024-01-01", "y": None},
    "home": {"city": "Bern", "at": [1.5, -2.0]},
}


@pytest.fixture(params=ENCODINGS)
def encoding(request: pytest.FixtureRequest) -> str:
    """Each encoding."""
    return str(request.param)


def topic_of(log: Log, ddl: str, encoding: str) -> str:
    """A new encoded topic with these columns."""
    topic = f"orders-{uuid.uuid4()}"
    log.create_topic(topic)
    register_topic(log, topic, schema_of(ddl), (), encoding)
    return topic


def kept(log: Log, topic: str) -> list[Any]:
    """All values of a topic, decoded."""
    codec = Codec(log)
    return [codec.decode(record) for record in log.read(topic)]


@pytest.mark.parametrize(("ddl", "row"), [(FLAT, ROW), (NESTED, NESTED_ROW)])
def test_a_value_is_read_as_it_was_written(mainstem_log: Log, encoding: str, ddl: str, row: dict[str, Any]) -> None:
    topic, codec = topic_of(mainstem_log, ddl, encoding), Codec(mainstem_log)
    empty: dict[str, Any] = dict.fromkeys(row)
    if encoding == "protobuf" and ddl == NESTED:  # which has no null arrays and maps, and no nulls in them
        row = {**row, "tags": ["a", ""], "days": {"x": "2024-01-01"}}
        empty |= {"tags": [], "days": {}}
    for value in (row, dict.fromkeys(row), {}, None):
        mainstem_log.append(topic, codec.encode(topic, value))
    assert kept(mainstem_log, topic) == [row, empty, empty, None]


def test_a_value_names_the_schema_that_is_registered_for_its_topic(mainstem_log: Log, encoding: str) -> None:
    topic = topic_of(mainstem_log, FLAT, encoding)
    value = Codec(mainstem_log).encode(topic, ROW)
    latest = Registry(mainstem_log).version(f"{topic}-value", LATEST)
    assert value is not None
    assert schema_id_of(value) == (latest.id, 5)


def test_values_are_framed_as_the_topic_says(mainstem_log: Log, encoding: str) -> None:
    topic = topic_of(mainstem_log, FLAT, encoding)
    register_topic(mainstem_log, topic, schema_of(FLAT), (), encoding, None, "header")
    codec, headers = Codec(mainstem_log), list[tuple[str, bytes | None]]()
    value = codec.encode(topic, ROW, headers)
    guid = uuid.UUID(Registry(mainstem_log).version(f"{topic}-value", LATEST).content.guid)
    assert [(name, (header or b"")[:17]) for name, header in headers] == [("__value_schema_id", b"\x01" + guid.bytes)]
    mainstem_log.append_many(topic, [NewRecord(value, headers=headers)])
    assert kept(mainstem_log, topic) == [ROW]
    with pytest.raises(InputError, match=f"topic {topic}: its values name their schema in a header of the record"):
        codec.encode(topic, ROW)
    with_id = Codec(mainstem_log, framing="id").encode(topic, ROW)
    assert schema_id_of(with_id or b"")[0] is not None


def test_a_global_id_in_the_header_is_read(mainstem_log: Log, encoding: str) -> None:
    topic = topic_of(mainstem_log, FLAT, encoding)
    value = Codec(mainstem_log).encode(topic, ROW)
    guid = uuid.UUID(Registry(mainstem_log).version(f"{topic}-value", LATEST).content.guid)
    assert value is not None
    header = ("__value_schema_id", b"\x01" + guid.bytes)
    mainstem_log.append_many(
        topic, [NewRecord(value[5:], headers=[header]), NewRecord(b"\x01" + guid.bytes + value[5:])]
    )
    assert kept(mainstem_log, topic) == [ROW, ROW]


def test_a_json_value_without_a_frame_is_read(mainstem_log: Log, encoding: str) -> None:
    topic = topic_of(mainstem_log, FLAT, encoding)
    mainstem_log.append(topic, ROW)
    assert kept(mainstem_log, topic) == [ROW]


def test_columns_that_came_later_are_null_in_older_values(mainstem_log: Log, encoding: str) -> None:
    topic = topic_of(mainstem_log, "a INT", encoding)
    mainstem_log.append(topic, Codec(mainstem_log).encode(topic, {"a": 1}))
    register_topic(mainstem_log, topic, schema_of("b STRING, a BIGINT"), (), encoding)
    mainstem_log.append(topic, Codec(mainstem_log).encode(topic, {"a": 2, "b": "y"}))
    assert kept(mainstem_log, topic) == [{"b": None, "a": 1}, {"b": "y", "a": 2}]


def test_a_column_that_is_gone_is_not_read_from_older_values(mainstem_log: Log) -> None:
    topic = topic_of(mainstem_log, "a INT, gone STRING", "avro")
    mainstem_log.append(topic, Codec(mainstem_log).encode(topic, {"a": 1, "gone": "x"}))
    register_topic(mainstem_log, topic, schema_of("a BIGINT"), (), "avro")
    assert kept(mainstem_log, topic) == [{"a": 1}]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x00\x7f\xff\xff\xff{}", "the schema registry has no schema 2147483647"),
        (b"\x01" + bytes(16), "the schema registry has no schema 00000000-0000-0000-0000-000000000000"),
        (b"\x05abc", "the value begins with no schema id, and "),
        (b"\x00\x00", "the value begins with no schema id, and "),
        (b"", "the value begins with no schema id, and "),
    ],
)
def test_a_damaged_value_is_refused_with_the_reason(
    mainstem_log: Log, encoding: str, value: bytes, reason: str
) -> None:
    topic = topic_of(mainstem_log, FLAT, encoding)
    mainstem_log.append(topic, value)
    with pytest.raises(SchemaError, match=f"{topic}, partition 0, offset 0: {reason}"):
        kept(mainstem_log, topic)


def test_a_truncated_value_is_refused(mainstem_log: Log, encoding: str) -> None:
    topic = topic_of(mainstem_log, FLAT, encoding)
    value = Codec(mainstem_log).encode(topic, ROW)
    assert value is not None
    mainstem_log.append(topic, value[:-1])
    with pytest.raises(
        SchemaError, match=r"is not an Avro record of its schema: a length of|is not JSON|not a Protobuf message"
    ):
        kept(mainstem_log, topic)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"id": "x"}, r"column 'id': \"x\" is not BIGINT"),
        ({"other": 1}, "column 'other' does not exist; the columns are id, name,"),
        ([1], "the value is JSON, but not an object"),
        ("text", "the value is not JSON"),
    ],
)
def test_a_value_that_does_not_fit_is_not_encoded(mainstem_log: Log, encoding: str, value: Any, reason: str) -> None:
    topic = topic_of(mainstem_log, FLAT, encoding)
    with pytest.raises(SchemaError, match=f"topic {topic}: {reason}"):
        Codec(mainstem_log).encode(topic, value)
    with pytest.raises(SchemaError, match=f"topic {topic}: value 2: {reason}"):
        Codec(mainstem_log).encode_many(topic, [b"{}", value_bytes(value)])


def test_a_topic_of_plain_json_stays_so(mainstem_log: Log) -> None:
    topic = f"plain-{uuid.uuid4()}"
    mainstem_log.create_topic(topic)
    codec = Codec(mainstem_log)
    assert codec.encode(topic, {"a": 1}) == b'{"a":1}'
    mainstem_log.append(topic, {"a": 1})
    assert kept(mainstem_log, topic) == [{"a": 1}]


def test_columns_that_the_registry_refuses_change_nothing(mainstem_log: Log) -> None:
    topic = topic_of(mainstem_log, "a INT", "avro")
    with pytest.raises(SchemaError, match=f"topic {topic}: the schema registry refuses the avro schema"):
        register_topic(mainstem_log, topic, schema_of("a STRING"), (), "avro")
    assert Codec(mainstem_log).encode(topic, {"a": 1}) is not None
