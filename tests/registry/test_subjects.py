"""Subjects and versions over HTTP: what each request answers, and the code of each refusal."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]})
USER_2 = json.dumps(
    {
        "type": "record",
        "name": "User",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string", "default": ""}],
    }
)
BROKEN_USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "nr", "type": "string"}]})
CANONICAL = '{"type":"record","name":"User","fields":[{"name":"id","type":"long"}]}'


def register(registry: httpx.Client, subject: str, schema: str, **fields: Any) -> httpx.Response:
    return registry.post(f"/subjects/{subject}/versions", json={"schema": schema, **fields})


def refusal(answer: httpx.Response) -> tuple[int, int]:
    """Status and code; the body has nothing but the code and a message."""
    document = answer.json()
    assert set(document) == {"error_code", "message"}
    assert document["message"]
    return answer.status_code, document["error_code"]


def test_a_schema_is_registered_once_and_read_by_id_and_version(registry: httpx.Client) -> None:
    assert register(registry, "users-value", USER).json() == {"id": 1}
    assert register(registry, "users-value", USER).json() == {"id": 1}
    assert register(registry, "users-value", USER_2).json() == {"id": 2}
    assert register(registry, "others-value", USER).json() == {"id": 1}
    assert registry.get("/subjects").json() == ["others-value", "users-value"]
    assert registry.get("/subjects/users-value/versions").json() == [1, 2]
    assert registry.get("/schemas/ids/1").json() == {"schema": CANONICAL}
    assert registry.get("/schemas/ids/1/schema").text == CANONICAL
    expected = {"subject": "users-value", "version": 1, "id": 1, "schema": CANONICAL}
    assert registry.get("/subjects/users-value/versions/1").json() == expected
    assert registry.get("/subjects/users-value/versions/latest").json()["version"] == 2
    assert registry.get("/subjects/users-value/versions/-1").json()["version"] == 2
    assert registry.get("/subjects/users-value/versions/1/schema").text == CANONICAL
    assert registry.get("/schemas/ids/1/subjects").json() == ["others-value", "users-value"]
    assert registry.get("/schemas/ids/1/versions").json() == [
        {"subject": "others-value", "version": 1},
        {"subject": "users-value", "version": 1},
    ]
    assert registry.post("/subjects/users-value", json={"schema": USER}).json() == expected


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/subjects/none/versions", 404, 40401),
        ("GET", "/subjects/none/versions/1", 404, 40401),
        ("GET", "/subjects/users/versions/9", 404, 40402),
        ("GET", "/subjects/users/versions/0", 422, 42202),
        ("GET", "/subjects/users/versions/two", 422, 42202),
        ("GET", "/schemas/ids/99", 404, 40403),
        ("GET", "/schemas/ids/99/subjects", 404, 40403),
        ("GET", "/schemas/guids/00000000-0000-0000-0000-000000000000", 404, 40403),
        ("GET", "/config/users", 404, 40408),
        ("GET", "/mode/users", 404, 40409),
        ("DELETE", "/subjects/none", 404, 40401),
        ("DELETE", "/subjects/users?permanent=true", 404, 40405),
        ("DELETE", "/subjects/users/versions/1?permanent=true", 404, 40407),
        ("DELETE", "/subjects/users/versions/9", 404, 40402),
        ("DELETE", "/config/none", 404, 40401),
        ("GET", "/nothing", 404, 404),
        ("PUT", "/subjects", 405, 405),
        ("GET", "/subjects?offset=-1", 400, 400),
    ],
)
def test_a_refusal_has_its_code_and_a_message_alone(
    registry: httpx.Client, method: str, path: str, status: int, code: int
) -> None:
    register(registry, "users", USER)
    assert refusal(registry.request(method, path)) == (status, code)


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/subjects/users/versions", {"schema": "{"}, 42201),
        ("/subjects/users/versions", {"schema": ""}, 42201),
        ("/subjects/users/versions", {}, 42201),
        ("/subjects/users/versions", {"schema": USER, "schemaType": "XML"}, 42201),
        ("/subjects/users/versions", {"schema": USER, "references": [{"name": "x"}]}, 42201),
        (
            "/subjects/users/versions",
            {"schema": USER, "references": [{"name": "x", "subject": "none", "version": 1}]},
            42201,
        ),
        ("/subjects/users/versions", {"schema": USER, "version": 7}, 42201),
        ("/subjects/users/versions", {"schema": USER, "id": 7}, 42205),
        ("/subjects/users/versions", {"schema": BROKEN_USER}, 40901),
        ("/subjects/users/versions", {"schema": '"' + 1_000_000 * "x" + '"'}, 42209),
        ("/subjects/a%01b/versions", {"schema": USER}, 42208),
        ("/subjects/__GLOBAL/versions", {"schema": USER}, 42208),
        ("/subjects/none", {"schema": USER}, 40401),
        ("/subjects/users", {"schema": BROKEN_USER}, 40403),
        ("/compatibility/subjects/users/versions/9", {"schema": USER}, 40402),
        ("/compatibility/subjects/users/versions/latest", {"schema": "{"}, 42201),
    ],
)
def test_a_wrong_schema_is_refused_with_its_code(
    registry: httpx.Client, path: str, body: dict[str, Any], code: int
) -> None:
    if path != "/subjects/users/versions" or body.get("version") is None:
        register(registry, "users", USER)
    assert refusal(registry.post(path, json=body)) == (code // 100, code)
    assert registry.get("/schemas/ids/2").status_code == 404


def test_a_body_that_is_not_json_is_refused(registry: httpx.Client) -> None:
    kind = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    for body in (b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"schema": "\\ud800"}'):
        assert refusal(registry.post("/subjects/users/versions", content=body, headers=kind)) == (422, 422)
    plain = registry.post("/subjects/users/versions", content=b"{}", headers={"Content-Type": "text/plain"})
    assert refusal(plain) == (415, 415)


def test_each_media_type_that_clients_accept_is_answered(registry: httpx.Client) -> None:
    for accept, answered in (
        ("*/*", "application/vnd.schemaregistry.v1+json"),
        ("application/vnd.schemaregistry.v1+json", "application/vnd.schemaregistry.v1+json"),
        ("application/vnd.schemaregistry+json; q=0.9, application/json", "application/vnd.schemaregistry+json"),
        ("text/html, application/json", "application/json"),
        ("application/octet-stream", "application/octet-stream"),
    ):
        answer = registry.get("/subjects", headers={"Accept": accept})
        assert (answer.status_code, answer.headers["content-type"]) == (200, answered)
    assert refusal(registry.get("/subjects", headers={"Accept": "text/html"})) == (406, 406)


def test_a_subject_may_have_a_slash_a_space_and_any_letter(registry: httpx.Client) -> None:
    for subject in ("a/b", "with space", "ä-€", "versions/1"):
        assert register(registry, quote(subject, safe=""), USER).json() == {"id": 1}, subject
    assert registry.get("/subjects").json() == ["a/b", "versions/1", "with space", "ä-€"]
    assert registry.get("/subjects/a%2Fb/versions/1").json()["subject"] == "a/b"


def test_a_subject_is_deleted_softly_then_for_good(registry: httpx.Client) -> None:
    register(registry, "users", USER)
    register(registry, "users", USER_2)
    assert registry.delete("/subjects/users/versions/1").json() == 1
    assert registry.get("/subjects/users/versions").json() == [2]
    assert registry.get("/subjects/users/versions?deleted=true").json() == [1, 2]
    assert registry.get("/subjects/users/versions?deletedOnly=true").json() == [1]
    assert refusal(registry.delete("/subjects/users/versions/1")) == (404, 40406)
    assert registry.get("/schemas/ids/1").json() == {"schema": CANONICAL}
    assert registry.delete("/subjects/users").json() == [2]
    assert registry.get("/subjects").json() == []
    assert registry.get("/subjects?deleted=true").json() == ["users"]
    assert refusal(registry.delete("/subjects/users")) == (404, 40404)
    assert registry.delete("/subjects/users?permanent=true").json() == [1, 2]
    assert registry.get("/subjects?deleted=true").json() == []
    assert refusal(registry.get("/schemas/ids/1")) == (404, 40403)
    assert register(registry, "users", USER).json() == {"id": 3}  # no id is used twice


def test_a_schema_that_was_soft_deleted_comes_back_with_its_id(registry: httpx.Client) -> None:
    register(registry, "users", USER)
    registry.delete("/subjects/users")
    assert register(registry, "users", USER).json() == {"id": 1}
    assert registry.get("/subjects/users/versions").json() == [2]


def test_metadata_and_rules_are_kept_as_they_came(registry: httpx.Client) -> None:
    metadata = {"properties": {"owner": "data"}, "tags": {"User.id": ["PII"]}, "sensitive": ["owner"]}
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]}
    register(registry, "users", USER, metadata=metadata, ruleSet=rules)
    found = registry.get("/subjects/users/versions/1").json()
    assert (found["metadata"], found["ruleSet"]) == (metadata, rules)
    assert registry.get("/schemas/ids/1").json()["ruleSet"] == rules
    assert registry.post("/subjects/users", json={"schema": USER}).json()["version"] == 1
    by_owner = registry.get("/subjects/users/metadata?key=owner&value=data").json()
    assert by_owner["version"] == 1
    assert refusal(registry.get("/subjects/users/metadata?key=owner&value=x")) == (404, 40403)


def test_a_client_that_takes_all_fields_gets_them(registry: httpx.Client) -> None:
    wants_all = {"Confluent-Accept-Unknown-Properties": "true"}
    made = registry.post("/subjects/users/versions", json={"schema": USER}, headers=wants_all).json()
    assert made.keys() == {"id", "version", "guid"}
    found = registry.get("/subjects/users/versions/1", headers=wants_all).json()
    assert found["schemaType"] == "AVRO"
    assert found["guid"] == made["guid"]
    assert found["ts"] > 0
    assert registry.get(f"/schemas/guids/{made['guid']}").json() == {"schema": CANONICAL}
    assert registry.get(f"/schemas/guids/{made['guid']}/ids").json() == [{"context": ".", "id": 1}]
    assert registry.get("/schemas/ids/1?fetchMaxId=true").json()["maxId"] == 1


def test_compatibility_is_told_for_one_version_and_for_all(registry: httpx.Client) -> None:
    path = "/compatibility/subjects/users/versions"
    assert registry.post(f"{path}/latest", json={"schema": USER}).json() == {"is_compatible": True}
    register(registry, "users", USER)
    assert registry.post(f"{path}/latest", json={"schema": USER_2}).json() == {"is_compatible": True}
    assert registry.post(f"{path}/1", json={"schema": BROKEN_USER}).json() == {"is_compatible": False}
    verbose = registry.post(f"{path}?verbose=true", json={"schema": BROKEN_USER}).json()
    assert not verbose["is_compatible"]
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in verbose["messages"][0]
    registry.put("/config/users", json={"compatibility": "NONE"})
    assert registry.post(f"{path}/1", json={"schema": BROKEN_USER}).json() == {"is_compatible": True}


def test_lists_come_in_pages(registry: httpx.Client) -> None:
    for number in range(5):
        register(registry, f"s{number}", USER)
    assert registry.get("/subjects?offset=1&limit=2").json() == ["s1", "s2"]
    assert registry.get("/subjects?subjectPrefix=s3").json() == ["s3"]
    assert [each["subject"] for each in registry.get("/schemas?limit=2").json()] == ["s0", "s1"]
    register(registry, "s1", USER_2)
    assert [each["version"] for each in registry.get("/schemas?subjectPrefix=s1").json()] == [1, 2]
    assert [each["version"] for each in registry.get("/schemas?subjectPrefix=s1&latestOnly=true").json()] == [2]


def test_the_server_says_what_it_is(registry: httpx.Client) -> None:
    assert registry.get("/").json() == {}
    assert sorted(registry.get("/schemas/types").json()) == ["AVRO", "JSON", "PROTOBUF"]
    assert registry.get("/v1/metadata/id").json()["scope"]["clusters"]["kafka-cluster"]
    assert registry.get("/v1/metadata/version").json()["version"]


def test_an_older_schema_is_found_after_a_later_version_brought_metadata(registry: httpx.Client) -> None:
    register(registry, "users", USER)
    register(registry, "users", USER_2, metadata={"properties": {"owner": "data"}})
    assert registry.post("/subjects/users", json={"schema": USER}).json()["version"] == 1
    assert register(registry, "users", USER).json() == {"id": 1}
    assert registry.get("/subjects/users/versions").json() == [1, 2]
