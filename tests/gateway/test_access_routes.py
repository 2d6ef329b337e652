"""Users, ACLs and tokens over HTTP: for administrators alone, secrets only where others cannot listen in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.errors import AuthorizationError
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.tokens import Grants, TokenFile, new_token, read_tokens, write_tokens
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.testing import EmbeddedBroker
from tests.gateway.served import served
from tests.gateway.test_bad_input import is_problem

USERS = {"admin": "admin's"}
GRANTS = {
    "root": Grants(admin=("*",)),
    "reader": Grants(read=("*",)),
    "writer": Grants(write=("*",)),
    "owner": Grants(admin=("topic:*", "view:*")),
}
PASSWORD = "correct horse"
NEW_USER = {"user": "alice", "password": PASSWORD}
ROUTES = (
    ("GET", "/users", None),
    ("POST", "/users", NEW_USER),
    ("DELETE", "/users/admin?confirm=admin", None),
    ("GET", "/acls", None),
    ("POST", "/acls", {"principal": "User:reader", "operations": ["all"], "on": ["cluster"]}),
    ("DELETE", "/acls?principal=User:a&on=cluster&confirm=User:a", None),
    ("GET", "/tokens", None),
    ("POST", "/tokens", {"name": "mine", "admin": ["*"]}),
    ("DELETE", "/tokens/root?confirm=root", None),
)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(users=USERS, settings={"super.users": "User:admin"}) as running:
        yield running


@pytest.fixture(scope="module")
def log(broker: EmbeddedBroker) -> Iterator[Log]:
    with Log(broker.bootstrap, timeout_s=30, security=broker.security("admin")) as log:
        log.create_topic("orders", partitions=1)
        yield log


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("access") / "tokens.json"


@pytest.fixture(scope="module")
def bearer(file: Path) -> dict[str, dict[str, str]]:
    made = {name: new_token(name, grants) for name, grants in GRANTS.items()}
    write_tokens(file, [token for token, _ in made.values()])
    return {name: {"Authorization": f"Bearer {text}"} for name, (_, text) in made.items()}


@pytest.fixture(scope="module")
def app(log: Log, file: Path, bearer: dict[str, dict[str, str]]) -> Any:
    return create_app(log, ForwardingBackend([]), GatewayLimits(), tokens=TokenFile(file))


@pytest.fixture(scope="module")
def gated(app: Any) -> Iterator[httpx.Client]:
    with served(app) as api:
        yield api


@pytest.fixture
def api(gated: httpx.Client, bearer: dict[str, dict[str, str]]) -> Iterator[httpx.Client]:
    """As an administrator."""
    with httpx.Client(base_url=gated.base_url, headers=bearer["root"], timeout=30, trust_env=False) as client:
        yield client


@pytest.mark.parametrize("who", ["reader", "writer", "owner"])
def test_only_admin_on_everything_may_look_at_access_or_change_it(
    gated: httpx.Client, bearer: dict[str, dict[str, str]], file: Path, who: str
) -> None:
    before = file.read_bytes()
    for method, path, body in ROUTES:
        is_problem(gated.request(method, path, json=body, headers=bearer[who]), 403, "admin on *")
        is_problem(gated.request(method, path, json=body), 401)
    assert file.read_bytes() == before


def test_a_user_is_added_logs_in_and_is_removed(
    api: httpx.Client, broker: EmbeddedBroker, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = api.post("/users", json=NEW_USER)
    assert (made.status_code, made.json()) == (201, {"user": "alice", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"]})
    assert {"user": "alice", "mechanisms": made.json()["mechanisms"]} in api.get("/users").json()["users"]
    options = broker.security("admin") | {"sasl.username": "alice", "sasl.password": PASSWORD}
    with Log(broker.bootstrap, timeout_s=30, security=options) as alice, pytest.raises(AuthorizationError):
        alice.append("orders", "x")
    for wrong in ({"user": "bob"}, NEW_USER | {"password": ""}, NEW_USER | {"mechanisms": ["PLAIN"]}):
        is_problem(api.post("/users", json=wrong), 400)

    is_problem(api.delete("/users/alice"), 400, "confirm=alice")
    assert api.delete("/users/alice", params={"confirm": "alice"}).json() == {"removed": "alice"}
    is_problem(api.delete("/users/alice", params={"confirm": "alice"}), 404, "alice")
    assert "alice" not in log.access_admin.users()
    assert PASSWORD not in caplog.text


def test_acls_are_added_listed_and_removed(api: httpx.Client, log: Log) -> None:
    body = {"principal": "User:bob", "operations": ["read", "describe-configs"], "on": ["topic:orders"], "prefix": True}
    added = api.post("/acls", json=body)
    assert added.status_code == 201
    rule = {"principal": "User:bob", "permission": "Allow", "operation": "Read", "resource": "Topic"}
    assert added.json()["acls"][0] == rule | {"name": "orders", "pattern": "Prefixed", "host": "*"}
    for params in ({"principal": "User:bob"}, {"on": "topic:orders-eu"}):
        assert [each["operation"] for each in api.get("/acls", params=params).json()["acls"]] == [
            "Read",
            "DescribeConfigs",
        ]
    assert api.get("/acls", params={"on": "topic:else"}).json() == {"acls": []}
    assert len(log.access_admin.acls("User:bob")) == 2

    for wrong in (body | {"operations": ["look"]}, body | {"on": ["orders"]}, body | {"principal": "bob"}):
        answer = api.post("/acls", json=wrong)
        assert answer.status_code in (400, 502), answer.text
    is_problem(api.get("/acls", params={"on": "orders"}), 400, "topic:NAME")

    which = {"principal": "User:bob", "on": "topic:orders", "prefix": "true", "operation": "read"}
    is_problem(api.delete("/acls", params=which), 400, "confirm=User:bob")
    removed = api.delete("/acls", params=which | {"confirm": "User:bob"}).json()["acls"]
    assert [each["operation"] for each in removed] == ["Read"]
    assert [each.operation for each in log.access_admin.acls("User:bob")] == ["DescribeConfigs"]
    log.access_admin.remove_acls("User:bob", ["topic:orders"], prefix=True)


def test_a_token_works_at_once_and_ends_at_once(
    api: httpx.Client, gated: httpx.Client, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = api.post("/tokens", json={"name": "shop", "read": ["topic:orders"]})
    secret = made.json()["token"]
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    assert made.json() == {"name": "shop", "token": secret, "read": ["topic:orders"], "write": [], "admin": []}
    shop = {"Authorization": f"Bearer {secret}"}
    assert gated.get("/topics/orders", headers=shop).status_code == 200
    listed = api.get("/tokens")
    assert {"name": "shop", "read": ["topic:orders"], "write": [], "admin": []} in listed.json()["tokens"]
    assert secret not in listed.text
    assert read_tokens(file)["shop"].sha256 not in listed.text
    is_problem(api.post("/tokens", json={"name": "shop", "read": ["*"]}), 409, "shop")
    for wrong in ({"name": "none"}, {"name": "a b", "read": ["*"]}, {"name": "x", "read": ["orders"]}):
        is_problem(api.post("/tokens", json=wrong), 400)

    is_problem(api.delete("/tokens/shop"), 400, "confirm=shop")
    assert api.delete("/tokens/shop", params={"confirm": "shop"}).json() == {"revoked": "shop"}
    is_problem(gated.get("/topics/orders", headers=shop), 401)
    is_problem(api.delete("/tokens/shop", params={"confirm": "shop"}), 404, "shop")
    assert secret not in caplog.text


def test_the_last_administrators_token_stays(api: httpx.Client) -> None:
    is_problem(api.delete("/tokens/root", params={"confirm": "root"}), 400, "last token")
    assert api.get("/tokens").status_code == 200


def test_everyone_may_ask_who_they_are(gated: httpx.Client, bearer: dict[str, dict[str, str]]) -> None:
    shown = gated.get("/whoami", headers=bearer["reader"]).json()
    assert shown == {"name": "reader", "asks_for_tokens": True, "read": ["*"], "write": [], "admin": []}
    is_problem(gated.get("/whoami"), 401)


@pytest.mark.parametrize("path", ["/users", "/acls", "/tokens", "/whoami"])
def test_a_page_of_another_site_cannot_have_access_asked_for(api: httpx.Client, path: str) -> None:
    is_problem(api.get(path, headers={"Sec-Fetch-Site": "cross-site"}), 403)


@pytest.mark.parametrize(("method", "path", "body"), [each for each in ROUTES if each[0] != "GET"])
def test_a_page_of_another_origin_changes_no_access(
    api: httpx.Client, method: str, path: str, body: dict[str, Any] | None
) -> None:
    is_problem(api.request(method, path, json=body, headers={"Origin": "https://evil.example"}), 403)


def asked_from(
    app: Any, address: str, base_url: str, path: str, method: str = "POST", **options: Any
) -> httpx.Response:
    """The answer to a request that came from an address."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, client=(address, 50_000))
        async with httpx.AsyncClient(transport=transport, base_url=base_url) as client:
            return await client.request(method, path, **options)

    return asyncio.run(ask())


@pytest.mark.parametrize(("path", "body"), [("/users", NEW_USER), ("/tokens", {"name": "far", "read": ["*"]})])
def test_secrets_pass_only_where_no_one_else_can_read_them(
    app: Any, bearer: dict[str, dict[str, str]], log: Log, file: Path, path: str, body: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"json": body, "headers": bearer["root"]}
    is_problem(asked_from(app, "192.0.2.7", "http://localhost", path, **options), 403, "TLS")
    assert "alice" not in log.access_admin.users()
    assert "far" not in read_tokens(file)
    assert asked_from(app, "192.0.2.7", "https://localhost", path, **options).status_code == 201
    name = body.get("user") or body["name"]
    if path == "/users":
        log.access_admin.remove_user(name)
    assert PASSWORD not in file.read_text()


@pytest.mark.parametrize(("method", "path", "body"), [each for each in ROUTES if "tokens" not in each[1]])
def test_without_tokens_access_is_changed_from_the_gateways_machine_alone(
    session_log: Log, method: str, path: str, body: dict[str, Any] | None
) -> None:
    app = create_app(session_log, ForwardingBackend([]), GatewayLimits())
    for base_url in ("http://localhost", "https://localhost"):
        is_problem(asked_from(app, "192.0.2.7", base_url, path, method=method, json=body), 403, "--http-tokens")


def test_a_log_without_an_authorizer_and_a_gateway_without_tokens_say_so(session_log: Log) -> None:
    with served(create_app(session_log, ForwardingBackend([]), GatewayLimits())) as api:
        is_problem(api.get("/acls"), 409, "super.users")
        for answer in (api.get("/tokens"), api.post("/tokens", json={"name": "x", "read": ["*"]})):
            is_problem(answer, 409, "--http-tokens")
        shown = api.get("/whoami").json()
        assert (shown["name"], shown["asks_for_tokens"], shown["admin"]) == (None, False, ["*"])
