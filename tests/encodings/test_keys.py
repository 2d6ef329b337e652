"""Encoded keys: Confluent's serializers crosswise, one form of equal keys, and the same text wherever keys are read."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.client.values import key_bytes
from mainstem.encodings.encoded_records import EncodedRecords
from mainstem.encodings.encoders import key_encoder_of
from mainstem.encodings.frames import schema_id_of
from mainstem.encodings.protobuf.protobuf_messages import message_class
from mainstem.encodings.registration import register_topic
from mainstem.encodings.topic_values import Codec
from mainstem.errors import DefinitionError, SchemaError
from mainstem.registry.errors import RegistryError
from mainstem.registry.registry import Registry
from mainstem.registry.requests import LATEST, SchemaRequest
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import lookup
from mainstem.schema.types import ENCODINGS

DDL = "id BIGINT, name STRING, day DATE, at TIMESTAMP, price DECIMAL(10,2), paid BOOLEAN, small INT, value STRING"
DEBEZIUM = {
    "type": "record",
    "name": "Key",
    "namespace": "server.inventory.customers",
    "fields": [{"name": "id", "type": "long"}],
}
PAIR = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "name", "type": ["null", "string"], "default": None}, {"name": "id", "type": "long"}],
}


def topic_of(log: Log, key: tuple[str, ...], key_encoding: str | None, encoding: str | None = None) -> str:
    """A topic with encoded keys."""
    topic = f"orders-{uuid.uuid4()}"
    log.create_topic(topic)
    register_topic(log, topic, schema_of(DDL), key, encoding, key_encoding)
    return topic


def context_of(topic: str) -> SerializationContext:
    """Where a key is, with a list for its headers."""
    return SerializationContext(topic, MessageField.KEY, headers=[])


def versions(log: Log, topic: str) -> list[int]:
    """The versions of the topic's key schema."""
    try:
        return Registry(log).versions(f"{topic}-key")
    except RegistryError:
        return []


KEYS: list[tuple[tuple[str, ...], Any]] = [
    (("id",), -5),
    (("name",), 'Zoë "17"\n'),
    (("name",), "17"),
    (("day",), "2024-02-29"),
    (("at",), "2024-02-29T12:00:00.000001Z"),
    (("price",), "12.50"),
    (("paid",), True),
    (("id", "name"), [7, "x"]),
    (("day", "small", "paid"), ["2024-02-29", 0, False]),
]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_keys_are_read_as_the_text_that_they_would_be(mainstem_log: Log, encoding: str) -> None:
    for columns, key in KEYS:
        topic = topic_of(mainstem_log, columns, encoding)
        codec = Codec(mainstem_log)
        assert versions(mainstem_log, topic) == []  # the schema is registered with the first key
        stored = codec.encode_key(topic, key)
        assert stored is not None
        assert schema_id_of(stored)[0] == Registry(mainstem_log).version(f"{topic}-key", LATEST).id
        mainstem_log.append(topic, None, key=stored)
        mainstem_log.append(topic, None, key=key)
        assert [codec.decode_key(record) for record in mainstem_log.read(topic)] == [key_bytes(key)] * 2
        assert Codec(mainstem_log).encode_key(topic, key) == stored
        assert codec.encode_key(topic, None) is None


def test_a_key_that_does_not_fit_its_columns_is_refused(mainstem_log: Log) -> None:
    one, two = (topic_of(mainstem_log, columns, "avro") for columns in (("id",), ("id", "name")))
    codec = Codec(mainstem_log)
    for topic, key, reason in (
        (one, "x", r"'x' is not a key of it: id is BIGINT"),
        (one, "1.5", r"'1.5' is not a key of it: id is BIGINT"),
        (two, "x", r"'x' is not a key of it: use a JSON array: id, name"),
        (two, [1], r"'\[1\]' is not a key of it: use a JSON array: id, name"),
        (two, [1, None], r"is not a key of it: name is STRING"),
        (one, b"\xff", "a key is not UTF-8"),
    ):
        with pytest.raises(SchemaError, match=f"topic {topic}: .*{reason}"):
            codec.encode_key(topic, key)
    none = topic_of(mainstem_log, (), "avro")
    with pytest.raises(SchemaError, match="declares no key columns"):
        codec.encode_key(none, 1)
    with pytest.raises(DefinitionError, match="key column 'tags' is ARRAY<INT>: a key has scalars only"):
        key_encoder_of(mainstem_log, one, schema_of("tags ARRAY<INT>"), "avro")


@pytest.mark.parametrize("framing", ["prefix", "header"])
@pytest.mark.parametrize(
    ("columns", "schema", "key", "plain"),
    [
        (("id",), DEBEZIUM, {"id": 7}, 7),
        (("id", "name"), PAIR, {"name": "Zoë", "id": 7}, [7, "Zoë"]),
        (("id",), "long", 7, 7),
        (("name",), {"type": "string"}, "x", "x"),
        ((), PAIR, {"name": "Zoë", "id": 7}, ["Zoë", 7]),
        ((), "long", 7, 7),
    ],
)
def test_what_confluents_serializer_writes_is_read(
    mainstem_log: Log, client: SchemaRegistryClient, columns: Any, schema: Any, key: Any, plain: Any, framing: str
) -> None:
    topic = topic_of(mainstem_log, columns, "avro")
    config = {"schema.id.serializer": header_schema_id_serializer} if framing == "header" else {}
    context = context_of(topic)
    data = AvroSerializer(client, json.dumps(schema), conf=config)(key, context)
    mainstem_log.append_many(topic, [NewRecord(None, data, headers=context.headers)])
    [record] = mainstem_log.read(topic)
    assert bool(record.headers) == (framing == "header")
    assert Codec(mainstem_log).decode_key(record) == key_bytes(plain)
    assert EncodedRecords(mainstem_log).shown(record).key == key_bytes(plain)
    if columns and framing == "prefix":  # keys are written with the schema that is there
        assert Codec(mainstem_log).encode_key(topic, plain) == data
        assert versions(mainstem_log, topic) == [1]


def test_what_is_written_is_read_by_confluents_deserializers(mainstem_log: Log, client: SchemaRegistryClient) -> None:
    found = {}
    for encoding in ENCODINGS:
        topic = topic_of(mainstem_log, ("id", "name"), encoding)
        data = Codec(mainstem_log).encode_key(topic, [0, "x"])
        registry = Registry(mainstem_log)
        content = registry.version(f"{topic}-key", LATEST).content
        deserializer: Any
        if encoding == "avro":
            deserializer = AvroDeserializer(client)
        elif encoding == "json-schema":
            deserializer = JSONDeserializer(content.text)
        else:
            kind = message_class(registry.parsed(content).portable())
            deserializer = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)
        found[encoding] = deserializer(data, context_of(topic))
    message = found.pop("protobuf")
    assert (message.id, message.name, message.HasField("id")) == (0, "x", True)
    row = {"id": 0, "name": "x"}
    assert found == {"avro": row, "json-schema": row}


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("avro", '{"type": "record", "name": "K", "fields": [{"name": "id", "type": "int"}]}'),
        ("avro", '{"type": "record", "name": "K", "fields": [{"name": "other", "type": "long"}]}'),
        ("avro", '"string"'),
        ("protobuf", 'syntax = "proto3"; message K { string id = 1; }'),
        ("json-schema", '{"type": "object", "properties": {"other": {"type": "integer"}}}'),
        ("protobuf", '"long"'),
    ],
)
def test_a_schema_of_keys_that_the_columns_do_not_fit_is_refused(mainstem_log: Log, encoding: str, text: str) -> None:
    topic = topic_of(mainstem_log, ("id",), encoding)
    kind = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}[encoding] if text[0] != '"' else "AVRO"
    Registry(mainstem_log).register(f"{topic}-key", SchemaRequest(kind, text))
    with pytest.raises(SchemaError, match=r"is not that of the key columns id BIGINT in .*: equal keys would have"):
        Codec(mainstem_log).encode_key(topic, 1)


def test_protobuf_keys_without_optional_are_written_as_other_programs_write_them(mainstem_log: Log) -> None:
    topic = topic_of(mainstem_log, ("id", "name"), "protobuf")
    source = 'syntax = "proto3"; package p; message K { string name = 1; int64 id = 4; }'
    stored = Registry(mainstem_log).register(f"{topic}-key", SchemaRequest("PROTOBUF", source))
    kind = message_class(Registry(mainstem_log).parsed(stored.content).portable())
    for plain in ([0, "x"], [5, ""]):
        data = Codec(mainstem_log).encode_key(topic, plain)
        assert data is not None
        assert data[6:] == kind(id=plain[0], name=plain[1]).SerializeToString()


def test_keys_that_cannot_be_read_say_why(mainstem_log: Log) -> None:
    topic = topic_of(mainstem_log, ("id",), "avro")
    codec = Codec(mainstem_log)
    good = codec.encode_key(topic, 1)
    assert good is not None
    other = Registry(mainstem_log).register(
        f"{topic}-other", SchemaRequest("AVRO", json.dumps(DEBEZIUM | {"fields": []}))
    )
    for key, reason in {
        b"\0\x7f\0\0\0": "the key cannot be read, or lacks a column of id: the schema registry has no schema",
        good[:-1]: "the key cannot be read, or lacks a column of id: the key is not an Avro record",
        b"\0" + other.id.to_bytes(4, "big"): "the key cannot be read, or lacks a column of id",
    }.items():
        mainstem_log.append(topic, None, key=key)
        *_, record = mainstem_log.read(topic)
        with pytest.raises(SchemaError, match=reason):
            codec.decode_key(record)
        assert EncodedRecords(mainstem_log).shown(record).key == key


def test_the_columns_of_a_topic_that_another_program_has_registered_only_say_what_is_read(mainstem_log: Log) -> None:
    topic = f"server.inventory.customers-{uuid.uuid4()}"
    mainstem_log.create_topic(topic)
    registry = Registry(mainstem_log)
    record = {"type": "record", "name": "Value", "namespace": "server", "fields": [{"name": "id", "type": "long"}]}
    value = registry.register(f"{topic}-value", SchemaRequest("AVRO", json.dumps(record)))
    key = registry.register(f"{topic}-key", SchemaRequest("AVRO", json.dumps(DEBEZIUM)))
    register_topic(mainstem_log, topic, schema_of("id BIGINT, added INT"), ("id",), "avro", "avro")
    register_topic(mainstem_log, topic, schema_of("id BIGINT"), ("id",), "avro", "avro")
    assert registry.versions(f"{topic}-value") == registry.versions(f"{topic}-key") == [1]
    registered = lookup(mainstem_log, topic)
    assert registered is not None
    assert (registered.encoding, registered.key_encoding, registered.version) == ("avro", "avro", 2)
    frames = [b"\0" + stored.id.to_bytes(4, "big") for stored in (key, value)]
    mainstem_log.append(topic, frames[1] + b"\x0e", key=frames[0] + b"\x0e")
    [found] = mainstem_log.read(topic)
    codec = Codec(mainstem_log)
    assert (codec.decode_key(found), codec.decode(found)) == (b"7", {"id": 7})
    with pytest.raises(SchemaError, match="the schema registry refuses the avro schema"):
        codec.encode(topic, {"id": 1})


def test_different_columns_of_our_own_topic_are_still_refused(mainstem_log: Log) -> None:
    topic = topic_of(mainstem_log, (), None, "avro")
    with pytest.raises(SchemaError, match="the schema registry refuses the avro schema"):
        register_topic(mainstem_log, topic, schema_of("id STRING"), (), "avro")


def test_many_keys_are_encoded_with_nulls_in_their_places(mainstem_log: Log) -> None:
    topic = topic_of(mainstem_log, ("id",), "avro")
    codec = Codec(mainstem_log)
    keys = codec.encode_keys(topic, [b"1", None, b"2"])
    assert keys == [codec.encode_key(topic, 1), None, codec.encode_key(topic, 2)]
    encoder = key_encoder_of(mainstem_log, topic, schema_of("id BIGINT"), "avro")
    with pytest.raises(SchemaError, match="key column 'id' is null in 1 rows"):
        encoder.encode(pa.RecordBatch.from_pydict({"id": pa.array([1, None], pa.int64())}))
