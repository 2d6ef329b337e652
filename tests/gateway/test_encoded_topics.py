"""Encoded topics over HTTP: appends are encoded, reads and streams show JSON, what cannot be read is shown as it is."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.encodings.frames import schema_id_of
from mainstem.encodings.registration import register_topic
from mainstem.registry.registry import Registry
from mainstem.registry.requests import LATEST
from mainstem.schema.infer import schema_of
from mainstem.schema.types import ENCODINGS

ROWS: list[dict[str, Any]] = [{"id": 1, "name": "Zoë"}, {"id": 2, "name": None}]


@pytest.fixture(params=ENCODINGS)
def topic(request: pytest.FixtureRequest, session_log: Log) -> str:
    """An encoded topic."""
    name = f"orders-{uuid.uuid4()}"
    session_log.create_topic(name)
    register_topic(session_log, name, schema_of("id INT, name STRING"), (), request.param)
    return name


def appended(api: httpx.Client, topic: str, *values: Any) -> httpx.Response:
    """The answer to an append."""
    return api.post(f"/topics/{topic}/records", json={"records": [{"value": value} for value in values]})


def test_what_is_appended_is_encoded_in_the_log_and_json_in_the_answer(
    api: httpx.Client, session_log: Log, topic: str
) -> None:
    assert appended(api, topic, *ROWS, None).status_code == 201
    stored = Registry(session_log).version(f"{topic}-value", LATEST)
    records = list(session_log.read(topic))
    assert [schema_id_of(record.value or b"")[0] for record in records] == [stored.id, stored.id, None]
    answer = api.get(f"/topics/{topic}/records").json()
    assert [record["value"] for record in answer["records"]] == [*ROWS, None]


def test_an_append_to_a_topic_that_names_schemas_in_headers_adds_one(api: httpx.Client, session_log: Log) -> None:
    topic = f"orders-{uuid.uuid4()}"
    session_log.create_topic(topic, configs={"mainstem.idempotency.window.ms": "60000"})
    register_topic(session_log, topic, schema_of("id INT, name STRING"), (), "avro", None, "header")
    records = [{"value": ROWS[0], "headers": {"a": "b"}}, {"value": None, "key": "k"}]
    assert api.post(f"/topics/{topic}/records", json={"records": records}).status_code == 201
    one = api.post(f"/topics/{topic}/records", json={"records": records[:1]}, headers={"Idempotency-Key": "first"})
    assert one.status_code == 201
    names = [[name for name, _ in record.headers] for record in session_log.read(topic)]
    assert names[:2] == [["a", "__value_schema_id"], []]
    assert names[2][:2] == ["a", "__value_schema_id"]
    answer = api.get(f"/topics/{topic}/records").json()
    assert [record["value"] for record in answer["records"]] == [ROWS[0], None, ROWS[0]]


def test_a_stream_shows_json_of_old_and_new_records(api: httpx.Client, session_log: Log, topic: str) -> None:
    appended(api, topic, ROWS[0])
    with api.stream("GET", f"/topics/{topic}/stream?from=earliest") as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data:") and "value" in line)
        assert json.loads(next(lines).removeprefix("data:"))["value"] == ROWS[0]
        value = next(iter(session_log.read(topic))).value
        assert value is not None
        guid = uuid.UUID(Registry(session_log).version(f"{topic}-value", LATEST).content.guid)
        session_log.append_many(topic, [NewRecord(value[5:], headers=[("__value_schema_id", b"\x01" + guid.bytes)])])
        assert json.loads(next(lines).removeprefix("data:"))["value"] == ROWS[0]


def test_a_value_that_cannot_be_read_is_shown_as_it_is(api: httpx.Client, session_log: Log, topic: str) -> None:
    value = b"\x00\x7f\xff\xff\xff\xfe"
    session_log.append(topic, value)
    [record] = api.get(f"/topics/{topic}/records").json()["records"]
    assert base64.b64decode(record["value_base64"]) == value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"id": "x"}, "column 'id': \"x\" is not INT"),
        ({"other": 1}, "column 'other' does not exist; the columns are id, name"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    api: httpx.Client, session_log: Log, topic: str, value: Any, reason: str
) -> None:
    answer = appended(api, topic, ROWS[0], value)
    assert answer.status_code == 422
    assert f"topic {topic}: value 2: {reason}" in answer.json()["detail"]
    assert list(session_log.read(topic)) == []


@pytest.mark.parametrize("is_indexed", ["true", "false"])
def test_encoded_keys_are_text_over_http(api: httpx.Client, session_log: Log, is_indexed: str) -> None:
    topic = f"orders-{uuid.uuid4()}"
    session_log.create_topic(topic, partitions=3, configs={"mainstem.key.index": is_indexed})
    register_topic(session_log, topic, schema_of("id INT, name STRING"), ("id",), "avro", "avro")
    records = [{"key": str(row["id"]), "value": row} for row in ROWS] + [{"key": "1", "value": None}]
    assert api.post(f"/topics/{topic}/records", json={"records": records}).status_code == 201
    keys = {record.value: record.key for record in session_log.read(topic)}
    assert {schema_id_of(key or b"")[0] for key in keys.values()} == {
        Registry(session_log).version(f"{topic}-key", LATEST).id
    }
    for path in (f"/topics/{topic}/keys/1", f"/topics/{topic}/records?key=1"):
        found = api.get(path).json()["records"]
        assert [(record["key"], record["value"]) for record in found] == [("1", ROWS[0]), ("1", None)]
    with api.stream("GET", f"/topics/{topic}/stream?from=earliest&key=1") as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data:") and "value" in line)
        shown = [json.loads(next(lines).removeprefix("data:")) for _ in range(2)]
        assert [(record["key"], record["value"]) for record in shown] == [("1", ROWS[0]), ("1", None)]
        api.post(f"/topics/{topic}/records", json={"records": [{"key": key, "value": ROWS[0]} for key in ("2", "1")]})
        assert json.loads(next(lines).removeprefix("data:"))["key"] == "1"
    refused = api.post(f"/topics/{topic}/records", json={"records": [{"key": "x", "value": None}]})
    assert (refused.status_code, "'x' is not a key of it: id is INT" in refused.json()["detail"]) == (422, True)
    assert api.get(f"/topics/{topic}/keys/x").status_code == 422
