"""What a registry does with too much: large schemas, references in a circle, many subjects."""

from __future__ import annotations

import json

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_registry_app
from tests.gateway.served import served

SUBJECTS = 10_000


def stored(number: int, subject: str, kind: str, schema: str, refers_to: str | None = None) -> tuple[str, bytes]:
    """A record of the schemas topic, as another program writes it."""
    key = json.dumps({"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}, separators=(",", ":"))
    value = {"subject": subject, "version": 1, "id": number, "schemaType": kind, "schema": schema}
    if refers_to is not None:
        value["references"] = [{"name": refers_to, "subject": refers_to, "version": 1}]
    return key, json.dumps(value).encode()


def text_of(kind: str, name: str, refers_to: str) -> str:
    """A schema that needs another one."""
    if kind == "AVRO":
        return json.dumps({"type": "record", "name": name, "fields": [{"name": "f", "type": ["null", refers_to]}]})
    if kind == "JSON":
        return json.dumps({"type": "object", "properties": {"f": {"$ref": refers_to}}})
    return f'syntax = "proto3"; import "{refers_to}"; message {name}M {{ {refers_to}M f = 1; }}'


def test_a_schema_of_ten_megabytes_is_refused(registry: httpx.Client) -> None:
    text = json.dumps({"type": "enum", "name": "A", "symbols": ["a"], "doc": "x" * 10_000_000})
    answer = registry.post("/subjects/big/versions", json={"schema": text})
    assert answer.json() == {
        "error_code": 413,
        "message": "the body is larger than 4194304 bytes; send it in parts",
    }
    assert registry.get("/subjects").json() == []


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_references_in_a_circle_are_named(registry_log: Log, topic: str, kind: str) -> None:
    registry_log.create_topic(topic, partitions=1, configs={"cleanup.policy": "compact"})
    pairs = [(1, "a", "b"), (2, "b", "a")]
    registry_log.append_many(
        topic, [stored(number, name, kind, text_of(kind, name, other), other) for number, name, other in pairs]
    )
    body = {"schema": text_of(kind, "c", "a"), "schemaType": kind}
    body |= {"references": [{"name": "a", "subject": "a", "version": 1}]}
    with served(create_registry_app(registry_log, GatewayLimits(), topic=topic)) as client:
        assert client.get("/schemas/ids/1").json()["schema"] == text_of(kind, "a", "b")
        answers = [
            client.get("/schemas/ids/1?format=resolved"),
            client.post("/subjects/c/versions", json=body),
            client.post("/compatibility/subjects/a/versions/latest", json=body),
        ]
        assert client.delete("/subjects/a").json()["error_code"] == 42206
    if kind == "JSON":  # which allows a circle of references
        assert [each.status_code for each in answers] == [200, 200, 200]
        return
    for each in answers:
        assert each.json()["error_code"] == 42201
        assert "the references make a circle: " in each.json()["message"]


def test_ten_thousand_subjects_are_listed_within_bounds(registry_log: Log, topic: str) -> None:
    registry_log.create_topic(topic, partitions=1, configs={"cleanup.policy": "compact"})
    schemas = [
        json.dumps({"type": "enum", "name": "A", "symbols": [f"s{number}"], "doc": "x" * 1000})
        for number in range(SUBJECTS)
    ]
    registry_log.append_many(topic, (stored(nth + 1, f"s{nth}", "AVRO", text) for nth, text in enumerate(schemas)))
    with served(create_registry_app(registry_log, GatewayLimits(), topic=topic)) as client:
        assert sorted(client.get("/subjects").json()) == sorted(f"s{number}" for number in range(SUBJECTS))
        lists = [client.get(path).json() for path in ("/schemas", "/subjects?subjectPrefix=s99", "/subjects?limit=5")]
        assert [len(each) for each in lists] == [1000, 111, 5]
        assert client.get("/schemas?offset=9990&limit=100").json()[-1]["subject"] == f"s{SUBJECTS - 1}"
        added = client.post("/subjects/new/versions", json={"schema": '"long"'})
        assert added.json() == {"id": SUBJECTS + 1}
