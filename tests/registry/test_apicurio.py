"""The requests that Apicurio's serializers send, without Java: ``test_other_languages`` has the serializers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import mainstem
from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.tokens import Grants, TokenFile, new_token, write_tokens
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.registry.registry import Registry
from tests.gateway.served import served

API = "/apis/registry/v3"
ARTIFACTS = f"{API}/groups/default/artifacts"
LINE = '{"type":"record","name":"Line","namespace":"shop","fields":[{"name":"sku","type":"string"}]}'
BASKET = '{"type":"record","name":"Basket","namespace":"shop","fields":[{"name":"line","type":"Line"}]}'
PROTO = 'syntax = "proto3";\nmessage Line {\n  string sku = 1;\n}\n'
LINE_REFERENCE = {"groupId": "default", "artifactId": "shop.Line", "version": "1", "name": "shop.Line"}
ARTIFACT_FIELDS = {"groupId", "artifactId", "artifactType", "owner", "createdOn"}


def body(artifact: str, text: str, kind: str = "AVRO", references: Any = None, **version: Any) -> dict[str, Any]:
    content = {"content": text, "contentType": "application/json", "references": references}
    return {"artifactId": artifact, "artifactType": kind, "firstVersion": {"content": content, **version}}


def create(client: httpx.Client, document: Any, *, api: str = API, group: str = "default", **query: Any) -> Any:
    parameters = {"ifExists": "FIND_OR_CREATE_VERSION", "canonical": "false", **query}
    return client.post(f"{api}/groups/{group}/artifacts", json=document, params=parameters)


def made(client: httpx.Client, *arguments: Any, **options: Any) -> dict[str, Any]:
    answer = create(client, body(*arguments), **options)
    assert answer.status_code == 200, answer.text
    version: dict[str, Any] = answer.json()["version"]
    return version


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """The status and Apicurio's name of an error, whose form is checked."""
    document = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert set(document) - {"causes"} == {"title", "detail", "status", "name", "error_code", "message"}
    assert document["status"] == document["error_code"] == answer.status_code
    assert document["detail"] == f"{document['name']}: {document['title']}"
    assert document["title"] == document["message"] != ""
    return answer.status_code, document["name"]


def test_what_apicurio_registers_is_a_subject_with_one_id(registry: httpx.Client) -> None:
    answer = create(registry, body("orders-value", LINE)).json()
    assert set(answer["artifact"]) == ARTIFACT_FIELDS | {"modifiedBy", "modifiedOn"}
    assert set(answer["version"]) == ARTIFACT_FIELDS | {"version", "globalId", "contentId", "state"}
    assert answer["version"].items() >= {"version": "1", "globalId": 1, "contentId": 1, "state": "ENABLED"}.items()
    assert not answer["version"]["createdOn"].startswith("1970")
    assert registry.get("/subjects/orders-value/versions/1").json()["id"] == 1
    assert registry.post("/subjects/other/versions", json={"schema": LINE}).json()["id"] == 1
    assert made(registry, "orders-value", LINE)["version"] == "1"
    for kind in ("contentIds", "globalIds"):
        assert registry.get(f"{API}/ids/{kind}/1").text == LINE
        assert registry.get(f"{API}/ids/{kind}/1/references").json() == []


def test_versions_are_found_by_number_branch_and_content(registry: httpx.Client) -> None:
    made(registry, "orders-value", LINE)
    newer = LINE.replace('"string"', '["string","null"]')
    assert made(registry, "orders-value", newer)["version"] == "2"
    for version, text in (("1", LINE), ("2", newer), ("branch=latest", newer), ("latest", newer)):
        found = registry.get(f"{ARTIFACTS}/orders-value/versions/{version}").json()
        assert registry.get(f"{API}/ids/contentIds/{found['contentId']}").text == text
        assert registry.get(f"{ARTIFACTS}/orders-value/versions/{version}/content").text == text
        query = {"artifactId": "orders-value", "artifactType": "AVRO", "groupId": "default", "limit": "100"}
        searched = registry.post(f"{API}/search/versions", params=query, content=text.encode()).json()
        assert searched == {"count": 1, "versions": [found]}


def test_a_search_finds_other_spellings_and_nothing_of_others(registry: httpx.Client) -> None:
    made(registry, "lines", LINE)

    def count(artifact: str, text: str, kind: str = "AVRO") -> int:
        query = {"artifactId": artifact, "artifactType": kind}
        found: int = registry.post(f"{API}/search/versions", params=query, content=text.encode()).json()["count"]
        return found

    assert count("lines", LINE) == count("lines", json.dumps(json.loads(LINE), indent=2)) == 1
    assert count("nowhere", LINE) == count("lines", '"long"') == count("lines", '{"type": "object"}', "JSON") == 0


def test_references_are_artifacts(registry: httpx.Client) -> None:
    made(registry, "shop.Line", LINE)
    basket = made(registry, "baskets", BASKET, "AVRO", [LINE_REFERENCE])
    kept = registry.get("/subjects/baskets/versions/1").json()["references"]
    assert kept == [{"name": "shop.Line", "subject": "shop.Line", "version": 1}]
    by_id = f"{API}/ids/globalIds/{basket['globalId']}"
    assert registry.get(f"{by_id}/references").json() == [LINE_REFERENCE]
    assert registry.get(f"{ARTIFACTS}/baskets/versions/1/references").json() == [LINE_REFERENCE]
    assert registry.get(by_id).text == BASKET
    line = json.loads(registry.get(by_id, params={"references": "DEREFERENCE"}).text)["fields"][0]["type"]
    assert line["fields"] == [{"name": "sku", "type": "string"}]
    query = {"artifactId": "baskets", "artifactType": "AVRO"}  # a client sends no references here
    assert registry.post(f"{API}/search/versions", params=query, content=BASKET).json()["count"] == 1
    assert refusal(registry.get(by_id, params={"references": "REWRITE"})) == (501, "NotImplementedException")


def test_protobuf_and_names_with_slashes(registry: httpx.Client) -> None:
    made(registry, "shop/line.proto", PROTO, "PROTOBUF")
    content = registry.get(f"{ARTIFACTS}/shop%2Fline.proto/versions/1/content")
    assert (content.text, content.headers["content-type"]) == (PROTO, "application/x-protobuf")
    assert registry.get("/subjects/shop%2Fline.proto/versions").json() == [1]


def test_canonical_makes_one_what_is_spelled_differently(registry: httpx.Client) -> None:
    one, other = (LINE.replace('"sku",', f'"sku",{extra},') for extra in ('"a":1,"b":2', '"b":2,"a":1'))
    first = made(registry, "lines", one, canonical="true")
    assert made(registry, "lines", other, canonical="true") == first
    query = {"artifactId": "lines", "artifactType": "AVRO", "canonical": "true"}
    assert registry.post(f"{API}/search/versions", params=query, content=other).json()["versions"] == [first]
    assert made(registry, "lines", other)["version"] == "2"


def test_a_context_in_front_means_its_own_ids(registry: httpx.Client) -> None:
    made(registry, "orders-value", LINE)
    api = f"/contexts/.lab{API}"
    made(registry, "shop.Line", LINE, api=api)
    basket = made(registry, "baskets", BASKET, "AVRO", [LINE_REFERENCE], api=api)
    assert (basket["artifactId"], basket["contentId"]) == ("baskets", 2)
    assert registry.get("/subjects/:.lab:baskets/versions").json() == [1]
    assert registry.get(f"{api}/ids/contentIds/2/references").json() == [LINE_REFERENCE]
    assert refusal(registry.get(f"{API}/ids/contentIds/2")) == (404, "ContentNotFoundException")


def test_the_server_says_what_it_is(registry: httpx.Client) -> None:
    assert registry.get(f"{API}/system/info").json() == {"name": "Mainstem", "version": mainstem.__version__}


def test_fail_wants_a_new_artifact(registry: httpx.Client) -> None:
    assert made(registry, "lines", LINE, ifExists="FAIL")["version"] == "1"
    assert refusal(create(registry, body("lines", LINE), ifExists="FAIL")) == (409, "ArtifactAlreadyExistsException")


def test_an_incompatible_schema_breaks_the_rule(registry: httpx.Client) -> None:
    made(registry, "lines", LINE)
    answer = create(registry, body("lines", LINE.replace('"string"', '"int"')))
    assert refusal(answer) == (409, "RuleViolationException")
    assert "TYPE_MISMATCH" in answer.json()["causes"][0]["description"]


@pytest.mark.parametrize(
    ("document", "query", "expected"),
    [
        ({}, {}, (422, "UnprocessableEntityException")),
        (body("", LINE), {}, (422, "UnprocessableEntityException")),
        (body("lines", ""), {}, (422, "UnprocessableEntityException")),
        (body("lines", "{"), {}, (422, "UnprocessableEntityException")),
        (body("lines", LINE, "OPENAPI"), {}, (422, "UnprocessableEntityException")),
        (body("lines", LINE, version="1.0"), {}, (422, "UnprocessableEntityException")),
        (body("lines", LINE, version="7"), {}, (422, "UnprocessableEntityException")),
        (body("baskets", BASKET, "AVRO", [{**LINE_REFERENCE, "groupId": "lab"}]), {}, (422, "Unprocessable")),
        (body("baskets", BASKET, "AVRO", ["shop.Line"]), {}, (422, "UnprocessableEntityException")),
        (body("lines", LINE, isDraft=True), {}, (501, "NotImplementedException")),
        (body("lines", LINE), {"ifExists": "CREATE_VERSION"}, (501, "NotImplementedException")),
        (body("lines", LINE), {"dryRun": "true"}, (501, "NotImplementedException")),
        (body("lines", LINE), {"ifExists": "PERHAPS"}, (400, "BadRequestException")),
        (body("lines", LINE), {"group": "lab"}, (404, "NotFoundException")),
    ],
)
def test_a_wrong_registration_is_refused(
    registry: httpx.Client, document: Any, query: dict[str, Any], expected: tuple[int, str]
) -> None:
    status, name = refusal(create(registry, document, **query))
    assert (status, name[: len(expected[1])]) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("ids/contentIds/7", (404, "ContentNotFoundException")),
        ("ids/globalIds/none", (404, "ContentNotFoundException")),
        ("ids/globalIds/7/references", (404, "ContentNotFoundException")),
        ("groups/default/artifacts/none/versions/1", (404, "ArtifactNotFoundException")),
        ("groups/default/artifacts/lines/versions/7", (404, "VersionNotFoundException")),
        ("groups/default/artifacts/lines/versions/7/content", (404, "VersionNotFoundException")),
        ("groups/default/artifacts/lines/versions/branch=other", (404, "VersionNotFoundException")),
        ("groups/default/artifacts/lines/versions/1.0", (422, "UnprocessableEntityException")),
        ("groups/lab/artifacts/lines/versions/1", (404, "NotFoundException")),
    ],
)
def test_what_is_not_there_is_not_found(registry: httpx.Client, path: str, expected: tuple[int, str]) -> None:
    made(registry, "lines", LINE)
    assert refusal(registry.get(f"{API}/{path}")) == expected


def test_a_wrong_search_is_refused(registry: httpx.Client) -> None:
    query = {"artifactId": "lines", "artifactType": "AVRO"}
    assert refusal(registry.post(f"{API}/search/versions", params=query, content=b"\xff"))[0] == 422
    assert refusal(registry.post(f"{API}/search/versions", params=query, content=b""))[0] == 422
    assert refusal(registry.post(f"{API}/search/versions", content=LINE.encode()))[0] == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{API}/admin/rules"),
        ("DELETE", f"{ARTIFACTS}/lines/versions/1"),
        ("GET", ARTIFACTS),
        ("GET", "/apis/registry/v2/ids/globalIds/1"),
    ],
)
def test_what_is_not_served_says_so(registry: httpx.Client, method: str, path: str) -> None:
    answer = registry.request(method, path)
    assert refusal(answer)[0] in (404, 405)
    assert answer.json()["title"].startswith(f"{method} {path} is not supported: ")


def test_below_the_gateway_with_its_rules(registry_log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scopes = {"reader": Grants(read=("*",)), "writer": Grants(write=("*",))}
    tokens = {name: new_token(name, grants) for name, grants in scopes.items()}
    write_tokens(tmp_path / "tokens.json", [token for token, _ in tokens.values()])
    reader, writer = ({"Authorization": f"Bearer {tokens[name][1]}"} for name in scopes)
    path = tmp_path / "tokens.json"
    limits = GatewayLimits(body_bytes_max=100_000)
    with served(create_app(registry_log, ForwardingBackend([]), limits, tokens=TokenFile(path))) as client:
        api = f"/registry/contexts/.apicurio{API}"
        register = f"{api}/groups/default/artifacts"
        assert refusal(client.get(f"{api}/system/info")) == (401, "UnauthorizedException")
        assert client.get(f"{api}/system/info", headers=reader).status_code == 200
        assert refusal(client.post(register, json=body("s", LINE), headers=reader)) == (403, "ForbiddenException")
        assert client.post(register, json=body("s", LINE), headers=writer).json()["version"]["contentId"] == 1
        assert client.get(f"{api}/ids/contentIds/1", headers=reader).text == LINE
        assert refusal(client.post(register, content=b"x" * 200_000, headers=writer))[0] == 413
        assert refusal(client.post(register, content=b"x", headers={**writer, "Content-Type": "text/plain"}))[0] == 415

        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("planted")

        monkeypatch.setattr(Registry, "with_id", broken)
        answer = client.get(f"{api}/ids/contentIds/1", headers=reader)
        assert refusal(answer) == (500, "InternalServerErrorException")
        assert "planted" not in answer.text
