"""Confluent's Python serializers and ours, crosswise: each reads what the other has written, in both framings."""

from __future__ import annotations

import datetime
import json
import uuid
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.encodings.registration import register_topic
from mainstem.encodings.topic_values import Codec
from mainstem.errors import InputError
from mainstem.schema.infer import schema_of

DDL = "id BIGINT, name STRING, day DATE, at TIMESTAMP, data BINARY, tags ARRAY<STRING>, total DOUBLE"
AT = datetime.datetime(2024, 2, 29, 12, 0, 0, 1, datetime.UTC)
ROW: dict[str, Any] = {
    "id": 2**40,
    "name": "Zoë",
    "day": "2024-02-29",
    "at": "2024-02-29T12:00:00.000001Z",
    "data": "AAE=",
    "tags": ["a", "b"],
    "total": 1.5,
}
PLAIN = {**ROW, "day": AT.date(), "at": AT, "data": b"\x00\x01"}
"""The same in the types of Avro's Python libraries."""
FOREIGN = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "extra", "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"]}},
            {"name": "total", "type": ["double", "null"]},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "data", "type": ["null", "bytes"]},
            {"name": "id", "type": "int"},
        ],
    }
)
"""Another writer's schema: fields in another order, one more and one less, a narrower type."""


def topic_of(log: Log, encoding: str) -> str:
    """An encoded topic."""
    topic = f"orders-{uuid.uuid4()}"
    log.create_topic(topic)
    register_topic(log, topic, schema_of(DDL), (), encoding)
    return topic


def context_of(topic: str) -> SerializationContext:
    """Where a value is, with a list for its headers."""
    return SerializationContext(topic, MessageField.VALUE, headers=[])


@pytest.mark.parametrize("framing", ["prefix", "header"])
def test_what_confluents_avro_serializer_writes_is_read(
    mainstem_log: Log, client: SchemaRegistryClient, framing: str
) -> None:
    topic = topic_of(mainstem_log, "avro")
    client.set_compatibility(f"{topic}-value", level="NONE")
    config = {"schema.id.serializer": header_schema_id_serializer} if framing == "header" else {}
    serializer = AvroSerializer(client, FOREIGN, conf=config)
    context = context_of(topic)
    data = serializer({**PLAIN, "id": 7, "extra": "L"}, context)
    mainstem_log.append_many(topic, [NewRecord(data, headers=context.headers)])
    [record] = mainstem_log.read(topic)
    assert bool(record.headers) == (framing == "header")
    assert Codec(mainstem_log).decode(record) == {**ROW, "id": 7, "name": None}


def test_what_is_written_in_avro_is_read_by_confluents_deserializer(
    mainstem_log: Log, client: SchemaRegistryClient
) -> None:
    topic = topic_of(mainstem_log, "avro")
    deserializer = AvroDeserializer(client)
    for row, plain in ((ROW, PLAIN), (dict.fromkeys(ROW), dict.fromkeys(ROW))):
        data = Codec(mainstem_log).encode(topic, row)
        assert deserializer(data, context_of(topic)) == plain


def test_values_with_a_global_id_are_read_by_confluents_deserializer(
    mainstem_log: Log, client: SchemaRegistryClient
) -> None:
    topic = topic_of(mainstem_log, "avro")
    data = Codec(mainstem_log, framing="guid").encode(topic, ROW)
    assert data is not None
    assert data[:1] == b"\x01"
    assert AvroDeserializer(client)(data, context_of(topic)) == PLAIN
    with pytest.raises(InputError, match="unknown framing 'long': use one of id, guid, header"):
        Codec(mainstem_log, framing="long")  # type: ignore[arg-type]


def test_a_global_id_in_a_header_is_read_by_confluents_deserializer(
    mainstem_log: Log, client: SchemaRegistryClient
) -> None:
    topic, codec = topic_of(mainstem_log, "avro"), Codec(mainstem_log, framing="header")
    context = context_of(topic)
    data = codec.encode(topic, ROW, context.headers)
    assert AvroDeserializer(client)(data, context) == PLAIN
    mainstem_log.append_many(topic, [NewRecord(data, headers=context.headers)])
    assert [codec.decode(record) for record in mainstem_log.read(topic)] == [ROW]
    assert [name for name, _ in context.headers] == ["__value_schema_id"]
    with pytest.raises(InputError, match="give encode a list as headers="):
        codec.encode(topic, ROW)


def test_confluents_serializer_finds_the_registered_schema(mainstem_log: Log, client: SchemaRegistryClient) -> None:
    topic = topic_of(mainstem_log, "avro")
    config = {"auto.register.schemas": False, "use.latest.version": True}
    data = AvroSerializer(client, None, conf=config)(PLAIN, context_of(topic))
    assert data == Codec(mainstem_log).encode(topic, ROW)


@pytest.mark.parametrize("framing", ["prefix", "header"])
def test_json_schema_is_read_and_written_crosswise(
    mainstem_log: Log, client: SchemaRegistryClient, framing: str
) -> None:
    topic = topic_of(mainstem_log, "json-schema")
    text = client.get_latest_version(f"{topic}-value").schema.schema_str
    config = {"schema.id.serializer": header_schema_id_serializer} if framing == "header" else {}
    context = context_of(topic)
    data = JSONSerializer(text, client, conf=config)(ROW, context)
    mainstem_log.append_many(topic, [NewRecord(data, headers=context.headers)])
    assert [Codec(mainstem_log).decode(record) for record in mainstem_log.read(topic)] == [ROW]
    context = context_of(topic)
    written = Codec(mainstem_log, framing="header" if framing == "header" else "id").encode(topic, ROW, context.headers)
    assert bool(context.headers) == (framing == "header")
    assert JSONDeserializer(None, schema_registry_client=client)(written, context) == ROW
