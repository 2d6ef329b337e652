"""Topics over HTTP: append, read, list, describe."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.encodings.encoded_records import EncodedRecords
from mainstem.model import Position
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import register


def appended(api: httpx.Client, topic: str, *records: dict[str, object]) -> str:
    answer = api.post(f"/topics/{topic}/records", json={"records": list(records)})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["position"])


def test_an_append_answers_with_the_position_just_after_it(api: httpx.Client, mainstem_topic: str) -> None:
    answer = api.post(f"/topics/{mainstem_topic}/records", json={"records": [{"value": 1}, {"value": 2}]})
    assert answer.status_code == 201
    assert answer.json() == {"position": f"{mainstem_topic}/0:2", "records": 2}
    assert answer.headers["Mainstem-Position"] == f"{mainstem_topic}/0:2"


def test_what_is_appended_is_in_the_log(api: httpx.Client, mainstem_topic: str, mainstem_log: Log) -> None:
    appended(api, mainstem_topic, {"key": "k", "value": {"é": [1, None]}, "headers": {"h": "v"}, "timestamp_ms": 17})
    (record,) = mainstem_log.read(mainstem_topic)
    assert (record.key, record.value, record.headers) == (b"k", '{"é":[1,null]}'.encode(), (("h", b"v"),))
    assert record.timestamp_ms == 17


def test_text_is_kept_as_text_and_null_is_a_tombstone(
    api: httpx.Client, mainstem_topic: str, mainstem_log: Log
) -> None:
    appended(api, mainstem_topic, {"key": "k", "value": "plain"}, {"key": "k", "value": None})
    assert [record.value for record in mainstem_log.read(mainstem_topic)] == [b"plain", None]


def test_a_read_gives_records_and_where_to_go_on(api: httpx.Client, mainstem_topic: str) -> None:
    appended(api, mainstem_topic, *({"key": str(n), "value": {"n": n}} for n in range(5)))
    first = api.get(f"/topics/{mainstem_topic}/records", params={"limit": 3}).json()
    rest = api.get(f"/topics/{mainstem_topic}/records", params={"from": first["position"]}).json()
    assert [record["value"]["n"] for record in first["records"] + rest["records"]] == [0, 1, 2, 3, 4]
    assert rest["position"] == f"{mainstem_topic}/0:5"


def test_a_read_can_start_and_end_at_offsets(api: httpx.Client, mainstem_topic: str) -> None:
    appended(api, mainstem_topic, *({"value": n} for n in range(5)))
    answer = api.get(f"/topics/{mainstem_topic}/records", params={"from": "1", "to": "3"}).json()
    assert [record["offset"] for record in answer["records"]] == [1, 2]


def test_a_read_can_start_at_a_time(api: httpx.Client, mainstem_topic: str) -> None:
    appended(api, mainstem_topic, {"value": "old", "timestamp_ms": 1_000}, {"value": "new", "timestamp_ms": 5_000})
    answer = api.get(f"/topics/{mainstem_topic}/records", params={"from": "1970-01-01T00:00:02Z"}).json()
    assert [record["value"] for record in answer["records"]] == ["new"]


def test_a_read_can_be_of_one_key(api: httpx.Client, mainstem_topic: str) -> None:
    appended(api, mainstem_topic, *({"key": "ab"[n % 2], "value": n} for n in range(4)))
    answer = api.get(f"/topics/{mainstem_topic}/records", params={"key": "b"}).json()
    assert [record["offset"] for record in answer["records"]] == [1, 3]


def test_bytes_that_are_no_text_come_as_base64(api: httpx.Client, mainstem_topic: str, mainstem_log: Log) -> None:
    mainstem_log.append(mainstem_topic, b"\xff", key=b"\xfe")
    (record,) = api.get(f"/topics/{mainstem_topic}/records").json()["records"]
    assert (record["key_base64"], record["value_base64"]) == ("/g==", "/w==")


def test_topics_are_listed_and_described(api: httpx.Client, mainstem_topic: str) -> None:
    position = appended(api, mainstem_topic, {"value": 1})
    assert mainstem_topic in [topic["name"] for topic in api.get("/topics").json()["topics"]]
    described = api.get(f"/topics/{mainstem_topic}").json()
    assert (described["partitions"], described["offsets"], described["end"]) == (1, 1, position)
    assert described["configs"]["cleanup.policy"] == "delete"


def test_a_topic_tells_where_its_committed_records_end(
    api: httpx.Client, mainstem_topic: str, mainstem_log: Log
) -> None:
    committed = appended(api, mainstem_topic, {"value": 1})
    with mainstem_log.transaction(f"{mainstem_topic}-open") as transaction:
        transaction.append_many(mainstem_topic, ["x" * 100_000] * 6)  # so many that they are sent before the end
        described = api.get(f"/topics/{mainstem_topic}").json()
    assert (described["committed_end"], described["end"] == committed) == (committed, False)


def test_every_topic_is_listed_with_what_it_holds(api: httpx.Client, mainstem_topic: str) -> None:
    position = appended(api, mainstem_topic, {"key": "k", "value": 1}, {"key": "k", "value": 2})
    listed = {topic["name"]: topic for topic in api.get("/topics", params={"offsets": "true"}).json()["topics"]}
    topic = listed[mainstem_topic]
    assert (topic["offsets"], topic["end"], topic["cleanup"]) == (2, position, "delete")
    assert topic["beginning"] == f"{mainstem_topic}/0:0"
    assert topic["size_bytes"] > 0


def test_positions_of_several_partitions_are_one_text(api: httpx.Client, mainstem_log: Log) -> None:
    mainstem_log.create_topic("spread", partitions=3, exist_ok=True)
    position = appended(api, "spread", {"value": "a", "partition": 0}, {"value": "b", "partition": 2})
    assert Position.parse(position).topics == {"spread"}
    assert [tp.partition for tp in Position.parse(position)] == [0, 2]


def test_an_append_that_is_validated_takes_what_fits_the_schema_alone(
    api: httpx.Client, mainstem_topic: str, mainstem_log: Log
) -> None:
    url = f"/topics/{mainstem_topic}/records"
    records = {"records": [{"value": {"n": 1}}, {"value": {"n": "1"}}]}
    unknown = api.post(url, json=records, params={"validate": "true"})
    assert (unknown.status_code, "has no schema to validate by" in unknown.text) == (422, True)
    unchecked = api.post(url, json=records, params={"dry_run": "true"}).json()
    assert unchecked == {"records": 2, "appended": 0, "schema": False}
    register(mainstem_log, mainstem_topic, schema_of("n INT NOT NULL, d DATE"))
    refused = api.post(url, json=records, params={"validate": "true"})
    assert (refused.status_code, refused.json()["type"].rpartition("/")[2]) == (422, "schema")
    assert "value 2 of 2: column 'n': \"1\" is not INT" in refused.json()["detail"]
    assert list(mainstem_log.read(mainstem_topic)) == []
    good = {"records": [{"value": {"n": 1, "d": "2020-02-29"}}, {"key": "k", "value": None}]}
    checked = api.post(url, json=good, params={"dry_run": "true"})
    assert (checked.status_code, checked.json()) == (200, {"records": 2, "appended": 0, "schema": True})
    assert api.post(url, json=records, params={"dry_run": "true"}).status_code == 422
    assert api.post(url, json=good, params={"validate": "true"}).status_code == 201
    assert api.post(url, json=records).status_code == 201


def test_the_first_check_loads_its_libraries_in_a_thread(
    api: httpx.Client, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops: list[object] = []
    monkeypatch.setattr(EncodedRecords, "require", lambda *_: loops.append(asyncio._get_running_loop()))
    url = f"/topics/{mainstem_topic}/records"
    assert api.post(url, json={"records": [{"value": 1}]}, params={"validate": "true"}).status_code == 201
    assert loops == [None]


def test_the_example_of_a_schema_fits_it(api: httpx.Client, mainstem_topic: str, mainstem_log: Log) -> None:
    nothing = api.get(f"/topics/{mainstem_topic}/example").json()
    assert (nothing["columns"], nothing["example"]) == ([], None)
    assert api.get("/topics/no-such-topic/example").status_code == 404
    columns = (
        "id STRING NOT NULL, n BIGINT NOT NULL, x DOUBLE, ok BOOLEAN, d DATE, t TIMESTAMP, u TIMESTAMP_NTZ, b BINARY, "
        "p DECIMAL(2,2), w DECIMAL(5,0), l ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<a: INT, `b c`: STRUCT<d: DATE>>"
    )
    register(mainstem_log, mainstem_topic, schema_of(columns), key=("id", "n"))
    answer = api.get(f"/topics/{mainstem_topic}/example").json()
    assert answer["example"]["key"] == '["text",1]'
    assert answer["example"]["value"]["s"] == {"a": 1, "b c": {"d": "2026-01-31"}}
    assert answer["columns"][0] == {"name": "id", "type": "STRING", "nullable": False}
    url = f"/topics/{mainstem_topic}/records"
    assert api.post(url, json={"records": [answer["example"]]}, params={"validate": "true"}).status_code == 201
