"""Protobuf values: Confluent's serializers crosswise, what messages have that columns have not, and stable numbers."""

from __future__ import annotations

import base64
import uuid
from typing import Any, Literal

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.encodings.protobuf.protobuf_columns import protobuf_schema_of
from mainstem.encodings.protobuf.protobuf_messages import file_of, message_class, split_place
from mainstem.encodings.registration import register_topic
from mainstem.encodings.topic_values import Codec
from mainstem.errors import DefinitionError, SchemaError
from mainstem.record.writer import varint
from mainstem.registry.parsing import format_of
from mainstem.registry.registry import Registry
from mainstem.registry.requests import LATEST, SchemaRequest
from mainstem.schema.infer import schema_of
from mainstem.schemas_topic.frames import frame_of

DDL = (
    "id BIGINT, name STRING, paid BOOLEAN, ratio FLOAT, total DOUBLE, data BINARY, at TIMESTAMP, day DATE, "
    "local TIMESTAMP_NTZ, price DECIMAL(10,2), small SMALLINT, tags ARRAY<STRING>, scores MAP<STRING, INT>, "
    "home STRUCT<city: STRING, moved: ARRAY<TIMESTAMP>>, lines ARRAY<STRUCT<sku: STRING, count: INT>>, "
    "by_day MAP<STRING, STRUCT<n: BIGINT>>"
)
ROW: dict[str, Any] = {
    "id": -(2**63),
    "name": "Zoë",
    "paid": False,
    "ratio": 0.5,
    "total": -0.1,
    "data": "AAE=",
    "at": "1969-12-31T23:59:59.999999Z",
    "day": "2024-02-29",
    "local": "0001-01-01T00:00:00Z",
    "price": "-12345678.90",
    "small": -3,
    "tags": ["a", ""],
    "scores": {"x": -1, "": 0},
    "home": {"city": None, "moved": ["2024-02-29T12:00:00.000001Z"]},
    "lines": [{"sku": "s", "count": 0}, {"sku": None, "count": None}],
    "by_day": {"2024-01-01": {"n": 2**62}, "none": {"n": None}},
}
EMPTY: dict[str, Any] = {**dict.fromkeys(ROW), "tags": [], "scores": {}, "lines": [], "by_day": {}}
FOREIGN = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
enum Size { SIZE_UNKNOWN = 0; LARGE = 2; }
message Other { string x = 1; }
message Outer {
  message Unused { int32 x = 1; }
  message Order {
    message Line { string sku = 1; sint64 cents = 2; }
    int64 id = 7;
    Size size = 1;
    google.protobuf.Timestamp at = 2;
    google.protobuf.Int64Value weight = 3;
    repeated Line lines = 4;
    map<int32, Line> by_number = 5;
    oneof payment { string card = 6; fixed64 cash = 8; }
    optional string note = 9;
    google.protobuf.Duration took = 10;
    google.protobuf.Struct more = 11;
    bytes extra = 100;
  }
}
"""
FOREIGN_DDL = (
    "id BIGINT, size STRING, at TIMESTAMP, weight BIGINT, lines ARRAY<STRUCT<sku: STRING, cents: BIGINT>>, "
    "by_number MAP<STRING, STRUCT<cents: BIGINT>>, card STRING, cash BIGINT, note STRING, took STRING, "
    "more STRUCT<a: DOUBLE>, missing INT"
)


def topic_of(log: Log, ddl: str) -> str:
    """A topic in Protobuf."""
    topic = f"orders-{uuid.uuid4()}"
    log.create_topic(topic)
    register_topic(log, topic, schema_of(ddl), (), "protobuf")
    return topic


def context_of(topic: str) -> SerializationContext:
    """Where a value is, with a list for its headers."""
    return SerializationContext(topic, MessageField.VALUE, headers=[])


def text_of(source: str) -> str:
    """A schema of .proto source, as values are read by it."""
    return format_of("PROTOBUF").parse(source, {}).portable()


def in_default_pool(source: str, place: tuple[int, ...]) -> Any:
    """A message's class as a program has it whose messages protoc has compiled."""
    file = file_of(text_of(source))
    file.CopyToProto(own := message_factory.GetMessageClass(_FILE_PROTO)())
    own.name = f"{uuid.uuid4()}.proto"
    pool = descriptor_pool.Default()
    found = pool.AddSerializedFile(own.SerializeToString())
    message = list(found.message_types_by_name.values())[place[0]]
    for number in place[1:]:
        message = message.nested_types[number]
    return message_factory.GetMessageClass(message)


_FILE_PROTO = descriptor_pool.Default().FindMessageTypeByName("google.protobuf.FileDescriptorProto")


def test_every_type_is_read_as_it_was_written(mainstem_log: Log) -> None:
    topic, codec = topic_of(mainstem_log, DDL), Codec(mainstem_log)
    mainstem_log.append_many(topic, codec.encode_many(topic, [b"{}", None]))
    mainstem_log.append(topic, codec.encode(topic, ROW))
    assert [codec.decode(record) for record in mainstem_log.read(topic)] == [EMPTY, None, ROW]


@pytest.mark.parametrize("framing", ["id", "guid", "header"])
def test_what_is_written_is_read_by_confluents_deserializer(
    mainstem_log: Log, client: SchemaRegistryClient, framing: Literal["id", "guid", "header"]
) -> None:
    topic = topic_of(mainstem_log, DDL)
    text = Registry(mainstem_log).parsed(Registry(mainstem_log).version(f"{topic}-value", LATEST).content).portable()
    deserializer = ProtobufDeserializer(message_class(text), {"use.deprecated.format": False}, client)
    context = context_of(topic)
    found = deserializer(Codec(mainstem_log, framing=framing).encode(topic, ROW, context.headers), context)
    assert bool(context.headers) == (framing == "header")
    assert (found.id, found.name, found.data, found.price) == (-(2**63), "Zoë", b"\0\1", "-12345678.90")
    assert found.HasField("paid")
    assert (found.at.seconds, found.at.nanos) == (-1, 999_999_000)
    assert [(line.sku, line.HasField("count")) for line in found.lines] == [("s", True), ("", False)]
    assert dict(found.scores) == {"x": -1, "": 0}


@pytest.mark.parametrize("framing", ["prefix", "header"])
def test_what_confluents_serializer_writes_is_read_by_name(
    mainstem_log: Log, client: SchemaRegistryClient, framing: str
) -> None:
    topic = topic_of(mainstem_log, FOREIGN_DDL)
    client.set_compatibility(f"{topic}-value", level="NONE")
    kind = in_default_pool(FOREIGN.replace("package shop", f"package p{uuid.uuid4().hex}"), (1, 1))
    config: dict[str, Any] = {"use.deprecated.format": False}
    if framing == "header":
        config["schema.id.serializer"] = header_schema_id_serializer
    message = kind(id=2**60, size=2, cash=2**40, at=timestamp_pb2.Timestamp(seconds=1, nanos=1999))
    message.lines.add(sku="s", cents=-5)
    message.by_number[-1].cents = 7
    message.weight.value = 0
    message.took.seconds = 3
    message.more.update({"a": 1.5})
    message.extra = b"passed over"
    context = context_of(topic)
    data = ProtobufSerializer(kind, client, config)(message, context)
    mainstem_log.append_many(topic, [NewRecord(data, headers=context.headers)])
    [record] = mainstem_log.read(topic)
    assert bool(record.headers) == (framing == "header")
    assert Codec(mainstem_log).decode(record) == {
        "id": 2**60,
        "size": "LARGE",
        "at": "1970-01-01T00:00:01.000001Z",
        "weight": 0,
        "lines": [{"sku": "s", "cents": -5}],
        "by_number": {"-1": {"cents": 7}},
        "card": None,
        "cash": 2**40,
        "note": None,
        "took": "3s",
        "more": {"a": 1.5},
        "missing": None,
    }


def test_a_column_keeps_its_number_and_that_of_a_removed_one_is_reserved(mainstem_log: Log) -> None:
    topic = topic_of(mainstem_log, "a INT, b STRING, s STRUCT<x: INT, y: INT>")
    codec = Codec(mainstem_log)
    mainstem_log.append(topic, codec.encode(topic, {"a": 1, "b": "old", "s": {"x": 1, "y": 2}}))
    registry = Registry(mainstem_log)
    for ddl in ("c INT, b STRING, s STRUCT<z: INT, y: INT>", "a INT, c INT, b STRING, s STRUCT<z: INT, y: INT>"):
        register_topic(mainstem_log, topic, schema_of(ddl), (), "protobuf")
    text = registry.parsed(registry.version(f"{topic}-value", LATEST).content).portable()
    message = message_class(text).DESCRIPTOR
    assert {each.name: each.number for each in message.fields} == {"a": 5, "c": 4, "b": 2, "s": 3}
    inside = message.fields_by_name["s"].message_type
    assert {each.name: each.number for each in inside.fields} == {"y": 2, "z": 3}
    again = Codec(mainstem_log)
    mainstem_log.append(topic, again.encode(topic, {"a": 2, "c": 3}))
    assert [again.decode(each)["a"] for each in mainstem_log.read(topic)] == [1, 2]


def test_decimals_and_dates_of_kafka_connect_are_read(mainstem_log: Log) -> None:
    topic = topic_of(mainstem_log, "price DECIMAL(30,2), tiny DECIMAL(10,4), day DATE, none DATE")
    source = """
    syntax = "proto3";
    import "confluent/type/decimal.proto";
    import "google/type/date.proto";
    message Row { confluent.type.Decimal price = 1; confluent.type.Decimal tiny = 2; google.type.Date day = 3; }
    """
    schema = Registry(mainstem_log).register(f"{topic}-connect", SchemaRequest("PROTOBUF", source))
    message = message_class(text_of(source))()
    message.price.value, message.price.scale = (-(10**25) - 7).to_bytes(12, "big", signed=True), 2
    message.tiny.value, message.tiny.scale = b"\x05", 4
    message.day.year, message.day.month, message.day.day = 2024, 2, 29
    opening = frame_of(schema.id) + b"\x00"
    mainstem_log.append(topic, opening + message.SerializeToString())
    codec = Codec(mainstem_log)
    assert [codec.decode(record) for record in mainstem_log.read(topic)] == [
        {"price": "-100000000000000000000000.07", "tiny": "0.0005", "day": "2024-02-29", "none": None}
    ]
    for size, scale in ((33, 2), (1, 77), (1, -(2**31))):
        message.price.value, message.price.scale = b"\x01" * size, scale
        mainstem_log.append(topic, opening + message.SerializeToString())
        *_, record = mainstem_log.read(topic)
        with pytest.raises(SchemaError, match=f"a decimal of {size} bytes and scale {scale}"):
            codec.decode(record)


def test_unknown_fields_are_passed_over(mainstem_log: Log) -> None:
    topic = topic_of(mainstem_log, "id BIGINT")
    value = Codec(mainstem_log).encode(topic, {"id": 1})
    assert value is not None
    mainstem_log.append(topic, value + b"\xfa\x07\x01x")  # field 127, of one byte
    assert [Codec(mainstem_log).decode(each) for each in mainstem_log.read(topic)] == [{"id": 1}]


@pytest.mark.parametrize("row", [{"tags": ["a", None]}, {"scores": {"x": None}}])
def test_a_null_in_an_array_or_map_is_refused_with_its_column(mainstem_log: Log, row: dict[str, Any]) -> None:
    topic = topic_of(mainstem_log, DDL)
    name = next(iter(row))
    with pytest.raises(SchemaError, match=f"column '{name}' cannot be written as Protobuf: .* has a null in it"):
        Codec(mainstem_log).encode(topic, row)


@pytest.mark.parametrize("ddl", ["a ARRAY<ARRAY<INT>>", "a MAP<STRING, ARRAY<INT>>", "a ARRAY<MAP<STRING, INT>>"])
def test_collections_inside_of_collections_are_refused(ddl: str) -> None:
    with pytest.raises(DefinitionError, match="column 'a': Protobuf has no arrays or maps directly inside"):
        protobuf_schema_of("t", schema_of(ddl))


def test_messages_that_cannot_be_read_say_why(mainstem_log: Log) -> None:
    topic = topic_of(mainstem_log, "id BIGINT, at TIMESTAMP")
    codec, registry = Codec(mainstem_log), Registry(mainstem_log)
    good = codec.encode(topic, {"id": 1})
    assert good is not None
    other = registry.register(f"{topic}-other", SchemaRequest("PROTOBUF", FOREIGN))
    frame = frame_of(other.id)
    far = varint(2) + varint(1) + varint(1) + b"\x12\x0a\x08" + b"\xff" * 8 + b"\x7f"
    for value, reason in {
        good[:5]: "the place of its message cannot be read",
        good[:-1]: "is not a Protobuf message of its schema",
        good[:5] + varint(1) + varint(1): "the schema has no message at place 1",
        good[:5] + varint(1) + varint(-1): "the schema has no message at place -1",
        good[:5] + varint(2**40): "the place of its message has 1099511627776 numbers",
        good[:5] + varint(-1): "the place of its message has -1 numbers",
        frame + varint(3) + varint(1) + varint(1) + varint(1): "names no message of its schema",
        frame + b"\x00" + b"\x0a\x02\xff\xff": "is not a Protobuf message",
        frame + far: "does not fit its column",
    }.items():
        mainstem_log.append(topic, value)
        *_, record = mainstem_log.read(topic)
        with pytest.raises(SchemaError, match=reason):
            codec.decode(record)


def test_the_place_of_a_message_is_a_list_of_zigzag_numbers() -> None:
    assert split_place(b"\x00rest") == ((0,), 1)
    assert split_place(varint(2) + varint(1) + varint(300) + b"rest") == ((1, 300), 4)


def test_a_schema_text_that_is_damaged_is_refused() -> None:
    with pytest.raises(SchemaError, match="the Protobuf schema cannot be read"):
        file_of(base64.b64encode(b"\xff").decode())
