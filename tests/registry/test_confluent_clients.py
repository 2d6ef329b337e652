"""Confluent's own Python client, serializers and deserializers against the registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.schema_registry_client import ConfigCompatibilityLevel, ServerConfig
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory

from mainstem.registry.formats.protobuf.protobuf_compiler import MAIN, compiled

ADDRESS = json.dumps({"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]})
PERSON = json.dumps(
    {
        "type": "record",
        "name": "Person",
        "fields": [{"name": "name", "type": "string"}, {"name": "home", "type": "Address"}],
    }
)
JSON_ORDER = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
    }
)
PROTO_ORDER = """
syntax = "proto3";
package shop;
import "google/type/money.proto";
message Unused {}
message Outer { message Order { int64 id = 1; map<string, int32> counts = 2; google.type.Money price = 3; } }
"""


@pytest.fixture
def client(registry: httpx.Client) -> Iterator[SchemaRegistryClient]:
    """Confluent's client, for each of whose instances everything is new to it."""
    with SchemaRegistryClient({"url": str(registry.base_url)}) as client:
        yield client


def test_each_call_of_the_client_is_answered(client: SchemaRegistryClient) -> None:
    first = client.register_schema("address", Schema(ADDRESS, "AVRO"))
    person = Schema(PERSON, "AVRO", [SchemaReference("Address", "address", 1)])
    second = client.register_schema("person", person)
    assert (first, second) == (1, 2)
    client.clear_caches()
    assert client.get_schema(second).references[0].subject == "address"
    registered = client.lookup_schema("person", person)
    assert (registered.schema_id, registered.version) == (2, 1)
    assert client.get_schema_by_guid(registered.guid).schema_str == registered.schema.schema_str
    assert client.get_schema_types()
    assert client.get_subjects() == ["address", "person"]
    assert client.get_subjects_by_schema_id(1) == ["address"]
    assert [(each.subject, each.version) for each in client.get_schema_versions(1)] == [("address", 1)]
    assert client.get_versions("person") == [1]
    assert client.get_latest_version("person").version == 1
    assert client.get_version("person", 1).schema_id == 2
    assert client.get_referenced_by("address", 1) == [2]
    assert client.test_compatibility("address", Schema(ADDRESS, "AVRO"))
    assert client.test_compatibility_all_versions("address", Schema(ADDRESS, "AVRO"))
    assert client.set_compatibility("person", "FULL") == {"compatibility": "FULL"}
    assert client.get_compatibility("person") == "FULL"
    config = ServerConfig(compatibility=ConfigCompatibilityLevel.NONE, compatibility_group="major")
    assert client.set_config("person", config)["compatibilityGroup"] == "major"
    assert client.get_config("person").compatibility_level == ConfigCompatibilityLevel.NONE
    client.delete_config("person")
    assert client.update_mode("person", "READONLY") == "READONLY"
    assert client.get_mode("person") == "READONLY"
    client.delete_mode("person")
    assert client.get_global_mode() == "READWRITE"
    assert client.get_contexts() == ["."]
    with pytest.raises(SchemaRegistryError) as refused:
        client.delete_version("address", 1)
    assert (refused.value.http_status_code, refused.value.error_code) == (422, 42206)
    assert client.delete_version("person", 1) == 1
    assert client.delete_version("person", 1, permanent=True) == 1
    assert client.delete_subject("address") == [1]
    assert client.delete_subject("address", permanent=True) == [1]


def test_an_unknown_schema_is_told_as_the_client_expects(client: SchemaRegistryClient) -> None:
    client.register_schema("address", Schema(ADDRESS, "AVRO"))
    for asked, code in (
        (lambda: client.lookup_schema("address", Schema('"long"', "AVRO")), 40403),
        (lambda: client.lookup_schema("none", Schema(ADDRESS, "AVRO")), 40401),
        (lambda: client.get_schema(99), 40403),
        (lambda: client.register_schema("address", Schema('"long"', "AVRO")), 40901),
    ):
        with pytest.raises(SchemaRegistryError) as refused:
            asked()
        assert refused.value.error_code == code


def headers_too(headers: list[Any]) -> SerializationContext:
    return SerializationContext("orders", MessageField.VALUE, headers)


@pytest.mark.parametrize("framing", ["id", "guid in headers"])
def test_avro_goes_through(client: SchemaRegistryClient, framing: str) -> None:
    config = {} if framing == "id" else {"schema.id.serializer": header_schema_id_serializer}
    context, person = headers_too([]), {"name": "Ada", "home": {"city": "London"}}
    client.register_schema("address", Schema(ADDRESS, "AVRO"))
    schema = Schema(PERSON, "AVRO", [SchemaReference("Address", "address", 1)])
    data = AvroSerializer(client, schema, conf=config)(person, context)
    assert AvroDeserializer(client)(data, context) == person
    assert bool(context.headers) is (framing != "id")


@pytest.mark.parametrize("framing", ["id", "guid in headers"])
def test_json_schema_goes_through(client: SchemaRegistryClient, framing: str) -> None:
    config = {} if framing == "id" else {"schema.id.serializer": header_schema_id_serializer}
    context = headers_too([])
    data = JSONSerializer(JSON_ORDER, client, conf=config)({"id": 7}, context)
    assert JSONDeserializer(JSON_ORDER, schema_registry_client=client)(data, context) == {"id": 7}
    assert JSONDeserializer(None, schema_registry_client=client)(data, context) == {"id": 7}


def proto_class() -> Any:
    """The class of a message with a map, a message of its own and one of another file; as protoc would make it."""
    files = compiled(PROTO_ORDER, {})
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        file.name = file.name.replace(MAIN, "shop/order.proto")
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Outer.Order"))


@pytest.mark.parametrize("framing", ["id", "guid in headers"])
def test_protobuf_goes_through(client: SchemaRegistryClient, registry: httpx.Client, framing: str) -> None:
    config = {} if framing == "id" else {"schema.id.serializer": header_schema_id_serializer}
    order_class = proto_class()
    context, order = headers_too([]), order_class(id=7, counts={"a": 1})
    order.price.currency_code = "EUR"
    data = ProtobufSerializer(order_class, client, conf=config)(order, context)
    assert ProtobufDeserializer(order_class, schema_registry_client=client)(data, context) == order
    with SchemaRegistryClient({"url": str(registry.base_url)}) as second:
        assert ProtobufDeserializer(order_class, schema_registry_client=second)(data, context) == order
        again = ProtobufSerializer(order_class, second, conf=config)(order, headers_too([]))
        assert (again, second.get_versions("orders-value")) == (data, [1])
    text = registry.get("/subjects/orders-value/versions/1/schema").text
    assert "map<string, int32> counts = 2;" in text
    source = {"schema": PROTO_ORDER.replace(";", ";\n// no part of it\n", 1), "schemaType": "PROTOBUF"}
    assert registry.post("/subjects/orders-value", json=source).json()["version"] == 1
