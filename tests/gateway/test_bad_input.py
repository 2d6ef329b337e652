"""Whatever is sent, the answer is a problem document with a status below 500, and the log is as it was."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from mainstem.client.log import Log

JSON = {"content-type": "application/json"}


def is_problem(answer: Any, status: int, words: str = "") -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert document["type"].startswith("/problems/")
    assert words in document["detail"]
    assert "\n" not in document["detail"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "EOF"),
        (b"{", "EOF"),
        (b"[]", "object"),
        (b'{"records": []}', "at least 1 item"),
        (b'{"records": [{}]}', "records.0.value: Field required"),
        (b'{"records": [{"value": 1, "valeu": 2}]}', "valeu"),
        (b'{"records": [{"value": 1, "key": 5}]}', "records.0.key"),
        (b'{"records": [{"value": 1, "partition": -1}]}', "records.0.partition: use 0 or more"),
        (b'{"records": [{"value": 1, "headers": {"a": 1}}]}', "headers"),
        (b'{"records": [{"value": NaN}]}', "JSON"),
        (b'{"records": [{"value": 1e999}]}', "JSON"),
        (b'{"records": [{"value": ' + b"1" * 5000 + b"}]}", ""),
        (b'{"records": [{"value": "\xff"}]}', ""),
        (b'{"records": [{"value": "\\ud800"}]}', ""),
        (b'{"records": [{"value": {"\\ud800": "\\udfff"}}]}', ""),
        (b'{"records": [{"value": ' + b"[" * 15_000 + b"]" * 15_000 + b"}]}", ""),
    ],
)
def test_a_body_that_is_wrong_is_a_problem(api: httpx.Client, mainstem_topic: str, body: bytes, words: str) -> None:
    answer = api.post(f"/topics/{mainstem_topic}/records", content=body, headers=JSON)
    assert answer.status_code in (400, 422), answer.text
    is_problem(answer, answer.status_code, words)
    assert api.get(f"/topics/{mainstem_topic}/records").json()["records"] == []


def test_a_body_over_the_limit_is_refused(api: httpx.Client, mainstem_topic: str) -> None:
    is_problem(api.post(f"/topics/{mainstem_topic}/records", content=b"x" * 100_001, headers=JSON), 413, "100000")


def test_a_streamed_body_over_the_limit_is_refused(api: httpx.Client, mainstem_topic: str) -> None:
    chunks = (b"x" * 30_000 for _ in range(10))
    is_problem(api.post(f"/topics/{mainstem_topic}/records", content=chunks, headers=JSON), 413)


def test_a_body_without_its_type_is_refused(api: httpx.Client, mainstem_topic: str) -> None:
    answer = api.post(f"/topics/{mainstem_topic}/records", content=b'{"records": [{"value": 1}]}')
    is_problem(answer, 415, "application/json")


def test_a_record_over_the_topics_limit_is_refused(api: httpx.Client, mainstem_log: Log) -> None:
    mainstem_log.create_topic("small", partitions=1, configs={"max.message.bytes": "1000"}, exist_ok=True)
    answer = api.post("/topics/small/records", json={"records": [{"value": "x" * 5000}]})
    is_problem(answer, 413, "max.message.bytes")
    assert mainstem_log.describe_topic("small").offsets == 0


@pytest.mark.parametrize("topic", ["nope", "no%20pe", "..", "%00", "a" * 300, "%F0%9F%98%80"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_topic_is_404_and_is_not_created(api: httpx.Client, topic: str, method: str) -> None:
    body = {"json": {"records": [{"value": 1}]}} if method == "POST" else {}
    is_problem(api.request(method, f"/topics/{topic}/records", **body), 404)
    assert "nope" not in [found["name"] for found in api.get("/topics").json()["topics"]]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=x",
        "limit=99999999999999999999",
        "form=earliest",
        "from=",
        "from=yesterday",
        "from=-1",
        "from=99999",
        "from=9999999999999999999999",
        "from=other/0:1",
        "from=a/b/c",
        "from=%00",
        "to=nonsense",
        "from=0001-01-01T00:00:00",
        "from=9999-12-31T23:59:59.999999%2B00:00",
        "key=%FF",
    ],
)
def test_a_query_that_is_wrong_is_a_problem(api: httpx.Client, mainstem_topic: str, query: str) -> None:
    answer = api.get(f"/topics/{mainstem_topic}/records?{query}")
    if answer.status_code != 200:  # a time before all records, or after them, is a place like any other
        assert answer.status_code in (400, 404, 416), answer.text
        is_problem(answer, answer.status_code)
    assert answer.status_code == 200 or "9999-12" not in query


def test_a_position_beyond_the_end_of_the_log_is_a_problem(api: httpx.Client, mainstem_topic: str) -> None:
    answer = api.get(f"/topics/{mainstem_topic}/records", params={"from": f"{mainstem_topic}/0:10"})
    is_problem(answer, 416, "beyond the end")


def test_an_unknown_partition_is_a_problem(api: httpx.Client, mainstem_topic: str) -> None:
    answer = api.post(f"/topics/{mainstem_topic}/records", json={"records": [{"value": 1, "partition": 7}]})
    is_problem(answer, 404)


def test_an_unknown_path_is_a_problem(api: httpx.Client) -> None:
    is_problem(api.get("/nothing/here"), 404, "/openapi.json")


def test_a_method_that_a_path_does_not_take_is_a_problem(api: httpx.Client) -> None:
    answer = api.delete("/topics")
    is_problem(answer, 405)
    assert answer.headers["allow"] == "GET"


def test_an_unknown_view_is_a_problem(api: httpx.Client) -> None:
    is_problem(api.get("/views/nope/keys/a"), 404, "no views are served")


@pytest.mark.parametrize("path", ["/topics/%FF", "/views/%C3%28/keys/a", "/topics?x=%FF"])
def test_a_path_or_query_that_is_not_utf8_is_a_problem(api: httpx.Client, path: str) -> None:
    is_problem(api.get(path), 400, "UTF-8")


def test_another_pages_request_changes_nothing(api: httpx.Client, mainstem_topic: str) -> None:
    headers = {"origin": "http://elsewhere.example"}
    answer = api.post(f"/topics/{mainstem_topic}/records", json={"records": [{"value": 1}]}, headers=headers)
    is_problem(answer, 403)


def test_a_page_of_this_host_may_append(api: httpx.Client, mainstem_topic: str) -> None:
    headers = {"origin": str(api.base_url)}
    answer = api.post(f"/topics/{mainstem_topic}/records", json={"records": [{"value": 1}]}, headers=headers)
    assert answer.status_code == 201


def test_a_foreign_host_name_is_not_served(api: httpx.Client) -> None:
    is_problem(api.get("/topics", headers={"host": "rebound.example"}), 421)
