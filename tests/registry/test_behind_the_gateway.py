"""The registry under ``/registry`` of the gateway: its errors and its access rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.tokens import Grants, TokenFile, new_token, write_tokens
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.registry.registry import Registry
from tests.gateway.served import served
from tests.registry.test_subjects import USER, USER_2, refusal
from tests.support.eventually import eventually

SCOPES = {"reader": Grants(read=("*",)), "writer": Grants(write=("*",)), "root": Grants(admin=("*",))}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, str]]]:
    path = tmp_path_factory.mktemp("tokens") / "tokens.json"
    made = {name: new_token(name, grants) for name, grants in SCOPES.items()}
    write_tokens(path, [token for token, _ in made.values()])
    return path, {name: {"Authorization": f"Bearer {text}"} for name, (_, text) in made.items()}


@pytest.fixture(scope="module")
def gated(registry_log: Log, tokens: tuple[Path, dict[str, dict[str, str]]]) -> Iterator[httpx.Client]:
    app = create_app(registry_log, ForwardingBackend([]), GatewayLimits(), tokens=TokenFile(tokens[0]))
    with served(app) as client:
        yield client


@pytest.fixture(scope="module")
def api(registry_log: Log) -> Iterator[httpx.Client]:
    with served(create_app(registry_log, ForwardingBackend([]), GatewayLimits(body_bytes_max=100_000))) as client:
        yield client


def test_the_routes_are_below_the_prefix(api: httpx.Client) -> None:
    made = api.post("/registry/contexts/.gate/subjects/users/versions", json={"schema": USER})
    assert made.json() == {"id": 1}
    assert api.get("/registry/contexts/.gate/subjects").json() == [":.gate:users"]
    assert api.get("/registry/subjects/:.gate:users/versions").json() == [1]
    assert api.get("/registry/").json() == {}
    eventually(lambda: api.get("/healthz").json()["status"] == "ok", "the log answers")


def test_every_refusal_below_the_prefix_has_the_registry_s_form(api: httpx.Client) -> None:
    assert refusal(api.get("/registry/nothing")) == (404, 404)
    assert refusal(api.delete("/registry/schemas")) == (405, 405)
    assert refusal(api.post("/registry/subjects/s/versions", content=b"x" * 200_000)) == (413, 413)
    assert refusal(api.get("/registry/subjects", headers={"Host": "elsewhere"})) == (421, 421)
    evil = {"Origin": "http://evil.example"}
    assert refusal(api.post("/registry/subjects/s/versions", json={"schema": USER}, headers=evil)) == (403, 403)
    assert set(api.get("/nothing").json()) >= {"type", "title", "status", "detail"}


def test_a_defect_has_the_registry_s_form_too(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(Registry, "versions", broken)
    answer = api.get("/registry/subjects/users/versions")
    assert refusal(answer) == (500, 500)
    assert "planted" not in answer.text


def test_a_log_that_is_away_is_an_error_of_the_store(api: httpx.Client, registry_log: Log) -> None:
    with Log("127.0.0.1:1", timeout_s=0.5) as away:
        with served(create_app(away, ForwardingBackend([]), GatewayLimits())) as client:
            assert refusal(client.get("/registry/subjects")) == (503, 50001)


@pytest.mark.parametrize(
    ("who", "method", "path", "status"),
    [
        (None, "GET", "/registry/subjects", 401),
        ("reader", "GET", "/registry/subjects", 200),
        ("writer", "GET", "/registry/subjects", 403),
        ("reader", "POST", "/registry/contexts/.gated/subjects/s", 404),
        ("reader", "POST", "/registry/contexts/.gated/subjects/s/versions", 403),
        ("writer", "POST", "/registry/contexts/.gated/subjects/s/versions", 200),
        ("root", "POST", "/registry/contexts/.gated/compatibility/subjects/s/versions/latest", 200),
        ("writer", "DELETE", "/registry/subjects/:.gated:none", 403),
        ("root", "DELETE", "/registry/subjects/:.gated:none", 404),
        ("writer", "PUT", "/registry/config/:.gated:s", 403),
        ("writer", "PUT", "/registry/mode/:.gated:s", 403),
        ("root", "PUT", "/registry/mode/:.gated:other", 422),
    ],
)
def test_each_request_asks_for_its_scope(
    gated: httpx.Client,
    tokens: tuple[Path, dict[str, dict[str, str]]],
    who: str | None,
    method: str,
    path: str,
    status: int,
) -> None:
    body = {"json": {"schema": USER_2}} if method in ("POST", "PUT") else {}
    answer = gated.request(method, path, headers=tokens[1][who] if who else {}, **body)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert refusal(answer)[0] == status


def test_a_password_is_a_token_for_clients_that_know_no_other(guarded: tuple[httpx.Client, str]) -> None:
    registry, token = guarded
    address = str(registry.base_url)
    client = SchemaRegistryClient({"url": address, "basic.auth.user.info": f"anyone:{token}"})
    assert client.register_schema("users", Schema(USER, "AVRO")) == 1
    assert registry.get("/subjects", auth=("", token)).json() == ["users"]
    for name, password in (("anyone", "wrong"), ("anyone", ""), (token, "")):
        assert refusal(registry.get("/subjects", auth=(name, password))) == (401, 401)
    for value in ("Basic", "Basic ?", f"Basic {token}"):
        assert refusal(registry.get("/subjects", headers={"Authorization": value})) == (401, 401)


def test_outside_of_the_registry_a_password_is_no_token(
    gated: httpx.Client, tokens: tuple[Path, dict[str, dict[str, str]]]
) -> None:
    token = tokens[1]["root"]["Authorization"].removeprefix("Bearer ")
    assert gated.get("/registry/subjects", auth=("root", token)).status_code == 200
    assert gated.get("/topics", auth=("root", token)).status_code == 401
