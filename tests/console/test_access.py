"""The pages about access: users, ACLs, tokens, what a user may do; and a console that only reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.console.access.acl_explainer import explained, is_super_user, principal_of, resource_option
from mainstem.console.access.read_only import ReadOnly
from mainstem.console.console_mount import mount_console
from mainstem.console.gateway_client import GatewayClient, GatewayError
from mainstem.console.requests import ConsoleRequest
from mainstem.console.sign_in import Sessions
from mainstem.gateway.access.access_rules import READ_VIEW, WRITE_TOPIC, AccessRules
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.private_connections import PeerConnection
from mainstem.gateway.access.tokens import TokenFile, grants_of, new_token, write_tokens
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.testing.embedded import EmbeddedBroker
from tests.console.stage import gateway

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.support.browser import NewPage

PASSWORD = "correct horse"
OPEN = PeerConnection(is_encrypted=False, is_local=False)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings={"super.users": "User:root;User:ANONYMOUS"}) as running:
        yield running


@pytest.fixture(scope="module")
def log(broker: EmbeddedBroker) -> Iterator[Log]:
    with Log(broker.bootstrap, timeout_s=30.0) as log:
        log.create_topic("orders", partitions=1)
        yield log


def see(page: Page, text: str) -> None:
    from playwright.sync_api import expect

    expect(page.get_by_text(text, exact=False).filter(visible=True).first).to_be_visible()


def signed_in(page: Page, address: str, secret: str) -> None:
    page.goto(address)
    page.get_by_label("Bearer token").fill(secret)
    page.get_by_label("Bearer token").press("Enter")
    page.locator("#theme").wait_for()
    page.wait_for_function("window.did_handshake")


def go(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_function("window.did_handshake")


@pytest.mark.browser
def test_users_acls_and_tokens_are_added_explained_and_removed(
    broker: EmbeddedBroker, log: Log, new_page: NewPage, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    token, secret = new_token("keeper", grants_of([], [], ["*"]))
    write_tokens(tmp_path / "tokens.json", [token])
    with gateway(broker.bootstrap, tokens=tmp_path / "tokens.json") as (url, _):
        page = new_page(viewport={"width": 390, "height": 800})
        signed_in(page, f"{url}/console/access", secret)
        expect(page.locator(".identity")).to_contain_text("keeper")
        page.get_by_text("Add a user").click()
        page.get_by_label("Name").fill("alice")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Save").click()
        see(page, "alice can log in now")
        assert "alice" in log.access_admin.users()
        assert PASSWORD not in page.content()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390

        log.access_admin.add_acls("User:alice", ["read"], ["topic:orders"])
        go(page, f"{url}/console/access?tab=acls&who=alice")
        see(page, "Describe, Read")
        page.get_by_role("button", name="Remove …").click()
        confirm = page.get_by_role("button", name="Remove the ACL")
        expect(confirm).to_be_disabled()
        page.get_by_label("Type User:alice").fill("User:alice")
        confirm.click()
        see(page, "Nothing here yet")
        assert log.access_admin.acls() == []
        page.get_by_label("User, such as alice").fill("root")
        page.keyboard.press("Enter")
        see(page, "is a super user")

        go(page, f"{url}/console/access?tab=tokens")
        page.get_by_text("Create a token").click()
        page.get_by_label("Name", exact=True).fill("shop")
        page.get_by_label("May read").fill("topic:orders")
        page.get_by_role("button", name="Create", exact=True).click()
        see(page, "Copy it now")
        made = page.locator(".note .position").inner_text().strip()
        with httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {made}"}, trust_env=False, timeout=60
        ) as shop:
            assert shop.get("/topics/orders").status_code == 200
            assert shop.get("/tokens").status_code == 403
        page.get_by_role("button", name="Revoke … keeper").click()
        page.get_by_label("Type keeper").fill("keeper")
        page.get_by_role("button", name="Revoke the token").click()
        see(page, "last token with admin")


@pytest.mark.browser
def test_a_console_that_only_reads_hides_changes_and_refuses_them(
    broker: EmbeddedBroker, log: Log, new_page: NewPage
) -> None:
    from playwright.sync_api import expect

    end = log.end("orders")
    with gateway(broker.bootstrap, read_only=True) as (url, _):
        page = new_page(viewport={"width": 1280, "height": 800})
        go(page, f"{url}/console/topics/orders")
        expect(page.locator(".identity")).to_contain_text("read-only")
        form = page.get_by_text("Append a record")
        expect(form).to_be_hidden()
        page.evaluate("document.querySelector('.read-only').classList.remove('read-only')")
        form.click()
        page.get_by_role("button", name="Append", exact=True).click()
        see(page, "this console only reads")
        assert log.end("orders") == end
        records = {"records": [{"value": 1}]}
        answer = httpx.post(f"{url}/topics/orders/records", json=records, trust_env=False, timeout=60)
        assert answer.status_code == 201, "the gateway's own clients change what they may"


async def _ask(client: GatewayClient, asked: ConsoleRequest, **options: Any) -> Any:
    return await client.ask(asked, **options)


def asked(client: GatewayClient, request: ConsoleRequest, **options: Any) -> int:
    """The status that a page gets."""
    try:
        asyncio.run(_ask(client, request, **options))
    except GatewayError as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    ("method", "path", "is_refused"),
    [
        ("GET", "/topics", False),
        ("POST", "/views/table/sql", False),
        ("POST", "/topics/orders/records", True),
        ("DELETE", "/topics/orders", True),
        ("POST", "/unknown", True),
    ],
)
def test_what_only_reads_passes_questions_alone(method: str, path: str, is_refused: bool) -> None:
    rules = AccessRules([("POST", "/views/{view}/sql", READ_VIEW), ("POST", "/topics/{topic}/records", WRITE_TOPIC)])

    async def answering(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    client = GatewayClient(ReadOnly(answering, rules), Sessions(None))
    assert asked(client, ConsoleRequest(path, {}, method)) == (403 if is_refused else 200)


def test_a_page_on_an_open_connection_neither_sends_a_password_nor_gets_a_token(log: Log, tmp_path: Path) -> None:
    token, secret = new_token("keeper", grants_of([], [], ["*"]))
    write_tokens(tmp_path / "tokens.json", [token])
    app = create_app(log, ForwardingBackend([]), GatewayLimits(), tokens=TokenFile(tmp_path / "tokens.json"))
    mount_console(app)
    client = GatewayClient(app, Sessions(None))
    user = ConsoleRequest("/users", {}, "POST", {"user": "eve", "password": PASSWORD})
    shop = ConsoleRequest("/tokens", {}, "POST", {"name": "shop", "read": ["*"]})
    for request in (user, shop):
        assert asked(client, request, token=secret, connection=OPEN) == 403
    assert "eve" not in log.access_admin.users()
    assert asked(client, ConsoleRequest("/tokens"), token=secret, connection=OPEN) == 200


def acl(principal: str, operation: str, **more: str) -> dict[str, str]:
    base = {"permission": "Allow", "resource": "Topic", "name": "orders", "pattern": "Literal", "host": "*"}
    return {**base, "principal": principal, "operation": operation, **more}


def test_the_explainer_follows_kafkas_rules() -> None:
    acls = [
        acl("User:alice", "Read"),
        acl("User:*", "AlterConfigs"),
        acl("User:bob", "All"),
        acl("User:alice", "Write", permission="Deny"),
        acl("User:alice", "Write", host="10.0.0.7"),
        acl("User:alice", "All", name="*", resource="Group"),
        acl("User:alice", "Read", name="tmp-", pattern="Prefixed", permission="Deny"),
    ]
    rows = {(row["resource"], row["host"]): row for row in explained(acls, principal_of("alice"))}
    assert rows["topic orders", "anywhere"]["allowed"] == "AlterConfigs, Describe, DescribeConfigs, Read"
    assert rows["topic orders", "anywhere"]["denied"] == "Write"
    assert rows["topic orders", "anywhere"]["source"] == "its own and everyone's"
    assert rows["topic orders", "10.0.0.7"]["allowed"] == "Describe"
    assert rows["every group", "anywhere"]["allowed"] == "everything"
    assert rows["topics that begin with tmp-", "anywhere"]["denied"] == "Read"
    assert explained(acls, "User:carol")[0]["source"] == "everyone's"
    assert explained(acls[:1], "User:carol") == []


def test_the_names_of_principals_and_resources() -> None:
    assert is_super_user("User:root", "User:admin; User:root")
    assert not is_super_user("User:roo", "User:admin;User:root")
    assert principal_of("User:CN=a") == "User:CN=a"
    assert resource_option(acl("User:a", "Read", resource="TransactionalId", name="t")) == "transactional-id:t"
    assert resource_option(acl("User:a", "Read", resource="Cluster", name="kafka-cluster")) == "cluster"
    assert resource_option(acl("User:a", "Read", resource="DelegationToken")) is None
