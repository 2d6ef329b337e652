"""Whether bytes fit a schema: what the process says that the log asks for topics that validate content."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.encodings.content.content_check import REASONS_MAX, FramedBytes, framed_bytes, misfits
from mainstem.encodings.content.value_readers import ValueReader, reader_of
from mainstem.record.writer import NewRecord, build_batch
from mainstem.schemas_topic.frames import frame_of, guid_frame_of
from mainstem.schemas_topic.records import Content, Reference, StoredSchema, schema_record

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
ITEM_PROTO = 'syntax = "proto3"; message Item { string sku = 1; }'
PROTO = """syntax = "proto3"; import "item.proto";
message Order { int64 id = 1; string name = 2; Item item = 3; message Line { int32 count = 1; } }
message Other { repeated string names = 1; }"""


def reader(content: Content, *referenced: StoredSchema) -> ValueReader:
    stored = (StoredSchema("t-value", 1, 1, content), *referenced)
    return reader_of(content.guid, [(key.decode(), value.decode()) for key, value in map(schema_record, stored)])


def avro(schema: Any, value: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), value)
    return sink.getvalue()


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
)
def test_what_avros_library_writes_fits_and_what_is_cut_or_longer_does_not(
    number: int, name: str | None, tags: list[str]
) -> None:
    misfit = reader(Content("AVRO", json.dumps(ORDER)))
    data = avro(ORDER, {"id": number, "name": name, "tags": tags})
    assert misfit(data) is None
    assert misfit(data[:-1]) is not None
    assert misfit(data + b"\0") == "the value has 1 bytes after its last field"


@pytest.mark.parametrize(
    ("schema", "value", "wrong"),
    [
        ("long", 5, b""),
        ("string", "x", b"\x04x"),
        (["null", "long"], None, b"\x04"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", b"\x04"),
        ({"type": "map", "values": "boolean"}, {"a": True}, b"\x02\x02a\x02\x00"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", b"a"),
        ({"type": "record", "name": "Empty", "fields": []}, {}, b"x"),
    ],
)
def test_avro_schemas_of_every_type_are_read(schema: Any, value: Any, wrong: bytes) -> None:
    misfit = reader(Content("AVRO", json.dumps(schema)))
    assert misfit(avro(schema, value)) is None
    assert misfit(wrong)


def test_references_are_followed() -> None:
    item = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
    order = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "Item"}]}
    content = Content("AVRO", json.dumps(order), (Reference("Item", "item", 3),))
    misfit = reader(content, StoredSchema("item", 3, 9, Content("AVRO", json.dumps(item))))
    assert misfit(b"\x02x") is None
    assert misfit(b"\x04x")
    said = reader(content)(b"\x02x")
    assert said is not None
    assert said.startswith("its schema cannot be read here: No schema reference found for subject 'item'")


def test_a_protobuf_message_is_read_by_its_place_in_the_file() -> None:
    content = Content("PROTOBUF", PROTO, (Reference("item.proto", "item", 1),))
    misfit = reader(content, StoredSchema("item", 1, 9, Content("PROTOBUF", ITEM_PROTO)))
    first, other, line = b"\0", b"\x02\x02", b"\x04\x00\x00"
    assert misfit(first + b"\x08\x05\x12\x01x\x1a\x03\x0a\x01s") is None
    assert misfit(other + b"\x0a\x01x") is None
    assert misfit(line + b"\x08\x05") is None
    assert misfit(first) is None  # each field has its default
    for wrong in (
        first + b"\x12\x05x",
        first + b"\x1a\x03\x0a\x05s",
        first + b"\x12\x01\xff",
        b"",
        b"\x02\x7e",
        b"\x80",
    ):
        assert misfit(wrong), wrong


def test_a_json_value_is_validated_by_its_schema_and_what_it_refers_to() -> None:
    item = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
    order = {"type": "object", "properties": {"id": {"type": "integer"}, "item": {"$ref": "item.json"}}}
    content = Content("JSON", json.dumps(order), (Reference("item.json", "item", 1),))
    misfit = reader(content, StoredSchema("item", 1, 9, Content("JSON", json.dumps(item))))
    assert misfit(b'{"id": 1, "item": {"sku": "x"}}') is None
    assert misfit(b'{"id": "1"}') == '"1" is not of type "integer" (at /id)'
    assert misfit(b'{"item": {}}') == '"sku" is a required property (at /item)'
    for wrong in (b"", b"{", b"\xff", b"NaN", b"[" * 100_000, b"[]"):
        assert misfit(wrong), wrong


@pytest.mark.parametrize(("text", "good", "bad"), [("true", b"1", b"{"), ('{"const": 1}', b"1", b"2")])
def test_schemas_without_properties_are_read(text: str, good: bytes, bad: bytes) -> None:
    misfit = reader(Content("JSON", text))
    assert misfit(good) is None
    assert misfit(bad)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?=a)(a+)+$"])
def test_a_pattern_that_backtracks_ends(pattern: str) -> None:
    misfit = reader(Content("JSON", json.dumps({"pattern": pattern})))
    assert misfit(b'"aaa"') is None
    assert misfit(json.dumps("a" * 5_000 + "!").encode())


def test_the_first_thousand_records_are_named_each_once() -> None:
    misfit: ValueReader = lambda data: None if data == b"good" else "bad"  # noqa: E731
    part = {"frame": frame_of(7), "data": b"x"}
    found = [FramedBytes(number, name, **part) for number in range(2_000) for name in ("key", "value")]
    refused = misfits(found, {frame_of(7): misfit})
    assert list(refused) == list(range(REASONS_MAX))
    assert refused[3] == "its key does not fit schema 7: bad"
    assert misfits([FramedBytes(0, "value", frame_of(7), b"good")], {frame_of(7): misfit}) == {}


def test_frames_are_found_in_front_and_in_headers() -> None:
    guid = guid_frame_of(Content("AVRO", '"long"').guid)
    records = [
        NewRecord(b"k", frame_of(7) + b"a", (), 1),
        NewRecord(None, guid + b"b", (), 1),
        NewRecord(None, b"c", (("__value_schema_id", guid + b"\0"),), 1),
        NewRecord(None, None, (), 1),
    ]
    found = framed_bytes(build_batch(records), ["value"], 1 << 20)
    assert [(each.record, each.frame, each.data) for each in found] == [
        (0, frame_of(7), b"a"),
        (1, guid, b"b"),
        (2, guid, b"\0c"),
    ]
