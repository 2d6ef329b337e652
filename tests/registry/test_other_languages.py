"""Clients for Java, JavaScript and Go against the registry; values go to Python and back.

They are Confluent's for Java and JavaScript, franz-go's, and Apicurio's serializers, which speak Apicurio's own API.
"""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from mainstem.registry.data_contracts import with_contract
from mainstem.registry.formats.protobuf.protobuf_compiler import MAIN, compiled
from mainstem.schemas_topic.records import sorted_json
from tests.support.foreign_programs import REGISTRY_CLIENT, ask, go_argv, java_argv, node_argv, node_env

HOME: Final = Path(__file__).with_name("foreign")
ORDER: Final = {"id": 7, "name": "Zoë"}
SCHEMAS: Final = {
    "avro": json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
        }
    ),
    "json": json.dumps(
        {
            "title": "Order",
            "type": "object",
            "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
            "additionalProperties": False,
        }
    ),
}
LINE: Final = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "sku", "type": "string"}]}
BASKET: Final = {"id": 7, "line": {"sku": "pen"}}
STRATEGIES: Final = {
    "QualifiedRecordIdStrategy": "shop.Basket",
    "RecordIdStrategy": "Basket",
    "TopicRecordIdStrategy": "java-named-Basket",
}
"""Apicurio's other strategies, and the subjects that they name."""
PROTO: Final = 'syntax = "proto3"; package shop; message Unused {} message Order { int64 id = 1; string name = 2; }'


class Serializers:
    """Confluent's serializers and deserializers for Python, of one order in each format."""

    def __init__(self, registry: httpx.Client) -> None:
        self.client = SchemaRegistryClient({"url": str(registry.base_url)})
        self.file: descriptor_pb2.FileDescriptorProto = compiled(PROTO, {})[-1]
        self.file.name = self.file.name.replace(MAIN, "order.proto")
        pool = descriptor_pool.DescriptorPool()
        pool.Add(self.file)
        self.order_class: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))

    def written(self) -> dict[str, str]:
        values = {
            "avro": AvroSerializer(self.client, SCHEMAS["avro"])(ORDER, self._context("python-avro")),
            "json": JSONSerializer(SCHEMAS["json"], self.client)(ORDER, self._context("python-json")),
            "protobuf": ProtobufSerializer(self.order_class, self.client)(
                self.order_class(**ORDER), self._context("python-protobuf")
            ),
        }
        return {name: bytes(value or b"").hex() for name, value in values.items()}

    def read(self, format_name: str, value: str) -> Any:
        data, context = bytes.fromhex(value), self._context("read")
        if format_name == "avro":
            return AvroDeserializer(self.client)(data, context)
        if format_name == "json":
            return JSONDeserializer(None, schema_registry_client=self.client)(data, context)
        message = ProtobufDeserializer(self.order_class, {}, self.client)(data, context)
        return {"id": message.id, "name": message.name}

    def question(self, registry: httpx.Client) -> dict[str, Any]:
        return {
            "url": str(registry.base_url).rstrip("/"),
            "read": self.written(),
            "schemas": SCHEMAS,
            "descriptor": base64.b64encode(self.file.SerializeToString()).decode(),
        }

    @staticmethod
    def _context(topic: str) -> SerializationContext:
        return SerializationContext(topic, MessageField.VALUE)


def both_ways(python: Serializers, answer: dict[str, Any], formats: set[str]) -> None:
    assert answer["read"] == dict.fromkeys(formats, ORDER)
    assert {name: python.read(name, value) for name, value in answer["written"].items()} == answer["read"]


@pytest.mark.maven
def test_java(registry: httpx.Client) -> None:
    """Confluent's own client, and Apache Flink's Avro format, which uses it."""
    argv = java_argv(HOME / "java", "Client.java", "confluent-registry-client-2.3.0")
    python = Serializers(registry)
    merges = [[contract(random.Random(f"{number}{side}")) for side in "ab"] for number in range(40)]
    answer = ask(argv, {**python.question(registry), "merges": merges})
    both_ways(python, answer, {"avro"})
    assert answer["calls"] == {
        "subjects": ["calls"],
        "versions": [1],
        "latest": 1,
        "same text": True,
        "version": 1,
        "compatible": True,
        "compatibility": "FULL",
        "owner": "data",
        "by metadata": 2,
        "mode": "READONLY",
        "global mode": "READWRITE",
        "types": ["JSON", "PROTOBUF", "AVRO"],
        "refused": [409, 40901],
        "deleted": [1, 2],
        "deleted for good": [1, 2],
    }
    for (lower, upper), theirs in zip(merges, answer["merged"], strict=True):
        config = {"overrideMetadata": upper["metadata"], "overrideRuleSet": upper["ruleSet"]}
        metadata, rules = with_contract(config, sorted_json(lower["metadata"]), sorted_json(lower["ruleSet"]))
        assert plain(json.loads(metadata or "")) == plain(theirs["metadata"])
        assert plain(json.loads(rules or "")) == plain(theirs["ruleSet"])


@pytest.mark.maven
def test_apicurio(registry: httpx.Client, guarded: tuple[httpx.Client, str]) -> None:
    """Apicurio's serializers write ids of four bytes, which mean the same schema to Confluent's, and read theirs."""
    argv = java_argv(HOME / "apicurio", "Serializers.java", "apicurio-serializers-3.1.7")
    python = Serializers(registry)
    question = python.question(registry)
    python.client.register_schema("lines", Schema(json.dumps(LINE), "AVRO"))
    referring = Schema(json.dumps(basket("shop.Line")), "AVRO", [SchemaReference("shop.Line", "lines", 1)])
    nested = AvroSerializer(python.client, referring)(BASKET, SerializationContext("python-nested", MessageField.VALUE))
    question |= {"nested schema": json.dumps(basket(LINE)), "nested": bytes(nested or b"").hex()}
    question |= {"guarded": str(guarded[0].base_url).rstrip("/"), "token": guarded[1]}
    answer = ask(argv, question)
    both_ways(python, answer, {"avro", "json", "protobuf"})
    calls = answer["calls"]
    assert python.read("avro", calls.pop("nested")) == calls.pop("nested read") == calls.pop("dereferenced") == BASKET
    for strategy, subject in STRATEGIES.items():
        assert python.read("avro", calls.pop(strategy)) == BASKET
        assert "references" not in registry.get(f"/subjects/{subject}/versions/1").json()
    assert calls.pop("latest") == calls.pop("by content") == calls.pop("password") == question["read"]["avro"]
    assert python.read("json", calls.pop("latest json")) == ORDER
    assert bytes.fromhex(calls.pop("imports"))[5:] == bytes.fromhex("02000a020809")
    event = registry.get("/subjects/java-imports-value/versions/1").json()
    assert [each["subject"] for each in event["references"]] == ["google/protobuf/timestamp.proto"]
    assert "Could not resolve artifact reference by content" in calls.pop("unknown")
    assert {name: (each["status"], each["name"]) for name, each in calls.items()} == {
        "exists": (409, "ArtifactAlreadyExistsException"),
        "breaks": (409, "RuleViolationException"),
        "no id": (404, "ContentNotFoundException"),
        "group": (404, "NotFoundException"),
    }


def basket(line: Any) -> dict[str, Any]:
    """A record's schema with another one in it, or with its name."""
    fields = [{"name": "id", "type": "long"}, {"name": "line", "type": line}]
    return {"type": "record", "name": "Basket", "namespace": "shop", "fields": fields}


def contract(chance: random.Random) -> dict[str, Any]:
    """Metadata and rules from few names, so that two have some in common."""

    def some(names: str) -> list[str]:
        return chance.sample(names, chance.randint(0, len(names)))

    def rules() -> list[dict[str, Any]]:
        return [
            {"name": name, "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": chance.choice("xyz")}
            for name in some("rstu")
        ]

    metadata = {
        "properties": {name: chance.choice("123") for name in some("abcd")},
        "tags": {path: some("PQR") for path in some("mno")},
        "sensitive": some("abcd"),
    }
    return {"metadata": metadata, "ruleSet": {"domainRules": rules(), "migrationRules": rules()}}


def plain(value: Any) -> Any:
    """Without empty fields, and with sets in order: each program writes these in its own way."""
    if isinstance(value, dict):
        fields = ((name, plain(each)) for name, each in value.items())
        return {name: each for name, each in fields if each not in ([], {}, None, False)}
    if isinstance(value, list):
        return sorted(value) if all(isinstance(each, str) for each in value) else [plain(each) for each in value]
    return value


@pytest.mark.slow
def test_javascript(registry: httpx.Client) -> None:
    argv = node_argv(HOME / "javascript" / "client.cjs", REGISTRY_CLIENT)
    python = Serializers(registry)
    answer = ask(argv, python.question(registry), env=node_env(REGISTRY_CLIENT))
    both_ways(python, answer, {"avro", "json", "protobuf"})
    assert answer["calls"] == {
        "same": True,
        "version": 1,
        "versions": [1],
        "subjects": True,
        "compatible": True,
        "compatibility": "FULL",
        "config": "FULL",
        "association": "calls",
        "deleted": [1],
    }


@pytest.mark.slow
def test_go(registry: httpx.Client) -> None:
    argv = go_argv(HOME / "go", "registryclient")
    python = Serializers(registry)
    answer = ask(argv, python.question(registry))
    both_ways(python, answer, {"json"})
    assert answer["calls"] == {
        "version": 1,
        "by id": True,
        "usages": 2,
        "looked up": 1,
        "versions": [1],
        "all": 1,
        "references": 0,
        "compatible": True,
        "level": "FULL",
        "unset": True,
        "unset mode": True,
        "contexts": ["."],
        "types": 3,
        "deleted": [1],
        "deleted for good": [1],
    }
