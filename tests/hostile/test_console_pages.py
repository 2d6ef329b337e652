"""Browsers that aim at the console: what it keeps is bounded, and without a token it keeps nothing."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mainstem.gateway.access.tokens import Grants, new_token, write_tokens
from mainstem.testing.embedded import EmbeddedBroker
from tests.hostile.serving import Process, WellBehaved, client, gateway

_UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
_EVENTS = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
_MODULE = "mainstem.console.process"


@pytest.fixture(scope="module")
def closed(mainstem_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, str]]:
    """A console that asks for tokens, and a token."""
    file = tmp_path_factory.mktemp("tokens") / "tokens.json"
    token, text = new_token("reader", Grants(read=("*",)))
    write_tokens(file, [token])
    with gateway(mainstem_broker.bootstrap, "--tokens", str(file), module=_MODULE) as process:
        yield process, text


def handshake(api: httpx.Client, **headers: str) -> int:
    with api.stream("GET", _EVENTS, headers={**_UPGRADE, "Origin": str(api.base_url), **headers}) as answer:
        return answer.status_code


def test_a_websocket_without_a_session_is_refused(closed: tuple[Process, str]) -> None:
    process, _ = closed
    with client(process) as api:
        assert handshake(api) == 401
        assert handshake(api, Cookie="mainstem_console=guessed") == 401


def test_pages_without_a_session_ask_for_a_token_and_keep_nothing(closed: tuple[Process, str]) -> None:
    process, _ = closed
    with client(process) as api:
        first = api.get("/")
        assert (first.status_code, "Bearer token" in first.text) == (401, True)
        before = process.memory_peak_mib()
        for _ in range(600):
            assert api.get("/console/topics").status_code == 401
    assert process.memory_peak_mib() - before < 20


def test_a_wrong_token_opens_no_session(closed: tuple[Process, str]) -> None:
    process, _ = closed
    with client(process) as api:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            answer = api.post("/console/sign-in", headers=headers)
            assert (answer.status_code, answer.cookies.get("mainstem_console")) == (401, None)


def test_a_token_opens_pages_and_websockets_and_no_route_of_the_api(closed: tuple[Process, str]) -> None:
    process, token = closed
    with client(process) as api:
        answer = api.post("/console/sign-in", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 204
        assert "httponly" in answer.headers["set-cookie"].lower()
        assert api.get("/console/topics").status_code == 200
        assert handshake(api) == 101
        assert handshake(api, Origin="http://evil.example") == 403
        assert api.get("/topics").status_code == 401, "the API looks at no cookie"


@pytest.mark.parametrize("other", ['theme={"dark": true}', "words=two words", "who=J\u00fcrgen", "nameless"])
def test_a_session_is_found_beside_the_cookies_of_other_applications(closed: tuple[Process, str], other: str) -> None:
    process, token = closed
    with client(process) as api:
        session = api.post("/console/sign-in", headers={"Authorization": f"Bearer {token}"}).headers["set-cookie"]
        cookies = f"{other}; {session.partition(';')[0]}".encode()
        api.cookies.clear()
        assert api.get("/console/topics", headers=[(b"Cookie", cookies)]).status_code == 200
        assert api.get("/console/topics", headers=[(b"Cookie", other.encode())]).status_code == 401


def test_a_page_of_another_site_cannot_sign_in(closed: tuple[Process, str]) -> None:
    process, token = closed
    with client(process) as api:
        headers = {"Authorization": f"Bearer {token}", "Origin": "http://evil.example"}
        assert api.post("/console/sign-in", headers=headers).status_code == 403


def test_a_session_ends_when_its_token_is_revoked(mainstem_broker: EmbeddedBroker, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    token, text = new_token("reader", Grants(read=("*",)))
    write_tokens(file, [token])
    with gateway(mainstem_broker.bootstrap, "--tokens", str(file), module=_MODULE) as process, client(process) as api:
        api.post("/console/sign-in", headers={"Authorization": f"Bearer {text}"})
        assert api.get("/console/topics").status_code == 200
        write_tokens(file, [])
        while api.get("/console/topics").status_code != 401:  # the file is looked at every second
            continue


def test_pages_that_no_browser_keeps_open_are_bounded(mainstem_broker: EmbeddedBroker) -> None:
    with gateway(mainstem_broker.bootstrap, module="tests.hostile.small_console") as process, client(process) as api:
        with WellBehaved(process, "/healthz") as neighbor:
            found = [api.get("/console/topics").status_code for _ in range(6)]
        assert found == [200, 200, 200, 200, 503, 503]
        assert api.get("/topics").status_code == 200
        assert set(neighbor.answers) <= {200}


def test_a_page_that_is_left_before_its_answer_is_no_error(
    mainstem_broker: EmbeddedBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    with gateway(mainstem_broker.bootstrap, module=_MODULE) as process, client(process) as api:
        files = re.findall(r'"(/_nicegui/[^"]+\.(?:js|css))"', api.get("/").text)
        host, _, port = process.address.rpartition(":")
        for path in files * 3:
            with socket.create_connection((host, int(port)), timeout=20) as leaving:
                leaving.sendall(f"GET {path} HTTP/1.1\r\nHost: {process.address}\r\n\r\n".encode())
        assert all(api.get(path).status_code == 200 for path in files)
    assert len(files) > 10
    assert capfd.readouterr().err[:1000] == ""
