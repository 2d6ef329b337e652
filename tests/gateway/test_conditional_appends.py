"""Conditions and idempotency keys over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx
import pytest

from mainstem.client.log import Log

_CONFIGS = {
    "mainstem.key.index": "true",
    "mainstem.conditional.append": "true",
    "mainstem.idempotency.window.ms": "60000",
}


@pytest.fixture
def topic(mainstem_log: Log) -> Iterator[str]:
    name = f"accounts-{uuid.uuid4().hex[:12]}"
    mainstem_log.create_topic(name, partitions=2, configs=_CONFIGS)
    yield name
    mainstem_log.delete_topic(name)


def post(api: httpx.Client, topic: str, *values: object, key: str | None = "k", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"records": [{"key": key, "value": value} for value in values]}
    return api.post(f"/topics/{topic}/records", json=body, headers=named)


def test_a_keys_tag_guards_the_next_append(api: httpx.Client, topic: str) -> None:
    assert post(api, topic, 1, If_None_Match="*").status_code == 201
    read = api.get(f"/topics/{topic}/keys/k")
    assert read.headers["ETag"] == '"0"'
    assert [record["value"] for record in read.json()["records"]] == ["1"]
    assert "scanned" not in read.json()
    assert post(api, topic, 2, If_Match=read.headers["ETag"]).status_code == 201
    late = post(api, topic, 3, If_Match=read.headers["ETag"])
    assert late.status_code == 412
    assert late.json()["type"] == "/problems/condition-failed"
    assert (late.json()["expected"], late.json()["actual"]) == (0, 1)
    assert post(api, topic, 3, If_None_Match="*").status_code == 412


def test_a_key_that_has_no_record_has_a_tag_too(api: httpx.Client, topic: str) -> None:
    read = api.get(f"/topics/{topic}/keys/a/b%2Fc")
    assert (read.status_code, read.headers["ETag"], read.json()["key"]) == (200, '"-1"', "a/b/c")
    assert post(api, topic, 1, key="a/b/c", If_Match='"-1"').status_code == 201
    assert len(api.get(f"/topics/{topic}/keys/a/b%2Fc").json()["records"]) == 1


def test_a_request_that_is_repeated_is_appended_once(api: httpx.Client, topic: str) -> None:
    first = post(api, topic, 1, key=None, Idempotency_Key="x")
    again = post(api, topic, 1, key=None, Idempotency_Key="x")
    assert (first.status_code, first.json()) == (again.status_code, again.json())


def test_the_end_can_be_expected(api: httpx.Client, topic: str) -> None:
    assert post(api, topic, 1, Mainstem_Expect_End="0").status_code == 201
    assert post(api, topic, 1, Mainstem_Expect_End="0").json()["actual"] == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"If_Match": "*"},
        {"If_Match": "17"},
        {"If_Match": 'W/"17"'},
        {"If_Match": '"1", "2"'},
        {"If_None_Match": '"1"'},
        {"If_Match": '"1"', "If_None_Match": "*"},
        {"Mainstem_Expect_End": "-1"},
        {"Idempotency_Key": ""},
        {"Idempotency_Key": "x" * 256},
    ],
)
def test_headers_that_say_nothing_clear_are_refused(api: httpx.Client, topic: str, headers: dict[str, str]) -> None:
    assert post(api, topic, 1, **headers).status_code == 400


def test_conditions_are_for_one_record(api: httpx.Client, topic: str) -> None:
    assert post(api, topic, 1, 2, If_None_Match="*").status_code == 400


def test_a_topic_without_the_configs_says_so(api: httpx.Client, mainstem_topic: str) -> None:
    refused = post(api, mainstem_topic, 1, If_None_Match="*")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/unsupported-feature")
    read = api.get(f"/topics/{mainstem_topic}/keys/k")
    assert "ETag" not in read.headers
    assert "mainstem.key.index" in read.json()["scanned"]
