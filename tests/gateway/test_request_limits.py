"""The guard: bounds on requests and bodies, before anything is parsed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.access.request_limits import Message, Receive, RequestLimits, Scope, Send
from mainstem.gateway.http.problem_responses import HttpError, http_problem


class Client:
    """One request against an ASGI app, body chunks given by the test."""

    def __init__(self, app: Any, chunks: list[bytes], headers: dict[str, str] | None = None) -> None:
        self._app = app
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        for number, chunk in enumerate(chunks, 1):
            self.feed(chunk, last=number == len(chunks))
        self._headers = {"host": "localhost", **(headers or {})}
        self.sent: list[Message] = []

    def feed(self, chunk: bytes, *, last: bool) -> None:
        self._messages.put_nowait({"type": "http.request", "body": chunk, "more_body": not last})

    async def run(self, method: str = "POST", path: str = "/") -> tuple[int, Any]:
        scope: Scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in self._headers.items()],
        }

        async def send(message: Message) -> None:
            self.sent.append(message)

        await self._app(scope, self._messages.get, send)
        body = b"".join(message.get("body", b"") for message in self.sent)
        return self.sent[0]["status"], json.loads(body) if body.startswith(b"{") else body


async def echo_size(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that reads its whole body, as a handler would."""
    try:
        size = len(await Request(scope, receive).body())
    except HttpError as error:
        await http_problem(error.status, str(error))(scope, receive, send)
        return
    await PlainTextResponse(str(size))(scope, receive, send)


def test_a_body_within_the_limit_passes() -> None:
    guard = RequestLimits(echo_size, GatewayLimits(body_bytes_max=10))
    assert asyncio.run(Client(guard, [b"12345", b"67890"]).run()) == (200, b"10")


def test_a_body_that_turns_out_too_large_is_cut_off_while_it_comes() -> None:
    guard = RequestLimits(echo_size, GatewayLimits(body_bytes_max=10))
    status, problem = asyncio.run(Client(guard, [b"12345", b"678901"]).run())
    assert (status, problem["type"]) == (413, "/problems/body-too-large")


def test_a_declared_length_over_the_limit_is_refused_before_the_body_is_read() -> None:
    guard = RequestLimits(echo_size, GatewayLimits(body_bytes_max=10))
    status, _ = asyncio.run(Client(guard, [], {"content-length": "11"}).run())
    assert status == 413


def test_bodies_together_are_bounded_and_their_room_comes_back() -> None:
    guard = RequestLimits(echo_size, GatewayLimits(body_bytes_max=10, bodies_bytes_max=15))

    async def scenario() -> list[int]:
        slow = Client(guard, [b"1234567890"])
        slow._messages = asyncio.Queue()
        slow.feed(b"1234567890", last=False)
        first = asyncio.create_task(slow.run())
        while guard._bodies_bytes < 10:
            await asyncio.sleep(0)
        refused, _ = await Client(guard, [b"123456"]).run()
        slow.feed(b"", last=True)
        served, _ = await first
        again, _ = await Client(guard, [b"123456"]).run()
        return [refused, served, again]

    assert asyncio.run(scenario()) == [503, 200, 200]


@pytest.mark.parametrize("headers", [{"content-length": "5"}, {"transfer-encoding": "chunked"}])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_only_reads_takes_no_body_and_holds_no_room(method: str, headers: dict[str, str]) -> None:
    guard = RequestLimits(echo_size, GatewayLimits(bodies_bytes_max=5))
    status, problem = asyncio.run(Client(guard, [b"12345"], headers).run(method, "/topics/t/stream"))
    assert (status, problem["type"]) == (400, "/problems/input")
    assert asyncio.run(Client(guard, [b""], {"content-length": "0"}).run(method)) == (200, b"0")


def test_requests_at_once_are_bounded() -> None:
    guard = RequestLimits(echo_size, GatewayLimits(requests_max=1))

    async def scenario() -> list[int]:
        waiting = Client(guard, [])
        first = asyncio.create_task(waiting.run())
        while guard._requests < 1:
            await asyncio.sleep(0)
        refused, problem = await Client(guard, [b""]).run()
        waiting.feed(b"", last=True)
        served, _ = await first
        assert "try again" in problem["detail"]
        return [refused, served]

    assert asyncio.run(scenario()) == [503, 200]


def test_a_body_that_pauses_too_long_is_given_up() -> None:
    guard = RequestLimits(echo_size, GatewayLimits(body_pause_s=0.01))
    status, problem = asyncio.run(Client(guard, []).run())
    assert (status, problem["type"]) == (408, "/problems/request-timeout")


async def hang(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.Event().wait()


def cancelled(method: str, path: str) -> tuple[int, dict[str, Any], dict[bytes, bytes]]:
    """What a request gets that the server cancels."""

    async def scenario() -> tuple[int, dict[str, Any], dict[bytes, bytes]]:
        guard = RequestLimits(hang, GatewayLimits())
        client = Client(guard, [b""])
        task = asyncio.create_task(client.run(method, path))
        while guard._requests < 1:
            await asyncio.sleep(0)
        task.cancel()
        status, problem = await task
        return status, problem, dict(client.sent[0]["headers"])

    return asyncio.run(scenario())


def test_who_waits_when_the_server_stops_is_told_to_ask_again() -> None:
    for method, path in (("GET", "/views/v/keys/k"), ("POST", "/views/v/sql"), ("GET", "/topics/t/records")):
        status, problem, headers = cancelled(method, path)
        assert (status, problem["type"], headers[b"retry-after"]) == (503, "/problems/unavailable", b"1")


def test_an_append_that_the_server_gives_up_is_not_to_be_repeated_blindly() -> None:
    for path in ("/topics/t/records", "/topics/t/requests"):
        status, problem, headers = cancelled("POST", path)
        assert (status, problem["type"]) == (504, "/problems/outcome-unknown")
        assert b"retry-after" not in headers


def opened(headers: dict[str, str], limits: GatewayLimits | None = None) -> list[Message]:
    """What a websocket's request to connect is answered with."""
    sent: list[Message] = []

    async def accept(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})

    async def run() -> None:
        async def receive() -> Message:
            return {"type": "websocket.connect"}

        async def send(message: Message) -> None:
            sent.append(message)

        scope: Scope = {
            "type": "websocket",
            "path": "/",
            "raw_path": b"/",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        await RequestLimits(accept, limits or GatewayLimits())(scope, receive, send)

    asyncio.run(run())
    return sent


def test_a_websocket_of_our_own_page_is_accepted() -> None:
    [message] = opened({"host": "localhost:8080", "origin": "http://localhost:8080"})
    assert message["type"] == "websocket.accept"


def test_a_websocket_of_another_page_is_refused_before_it_is_accepted() -> None:
    assert opened({"host": "localhost:8080", "origin": "http://evil.example"})[0]["status"] == 403
    assert opened({"host": "localhost:8080", "origin": "http://localhost:3000"})[0]["status"] == 403
    assert opened({"host": "localhost:8080", "origin": "null"})[0]["status"] == 403


def test_a_websocket_under_another_host_name_is_refused() -> None:
    assert opened({"host": "evil.example", "origin": "http://evil.example"})[0]["status"] == 421


def test_websockets_are_bounded() -> None:
    assert opened({"host": "localhost"}, GatewayLimits(websockets_max=0))[0]["status"] == 503


def embedded(headers: dict[str, str], path: str = "/views/names/search", **limits: Any) -> int:
    """The status of a GET that a browser describes by ``headers``."""
    guard = RequestLimits(echo_size, GatewayLimits(**limits))
    return asyncio.run(Client(guard, [b""], headers).run("GET", path))[0]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_cannot_have_data_asked_for(site: str) -> None:
    assert embedded({"sec-fetch-site": site}) == 403
    assert embedded({"sec-fetch-site": site}, "/topics") == 403
    assert embedded({"sec-fetch-site": site, "origin": "https://elsewhere"}) == 403


def test_other_requests_of_browsers_are_served() -> None:
    for site in ("same-origin", "none"):
        assert embedded({"sec-fetch-site": site}) == 200
    assert embedded({"sec-fetch-site": "cross-site"}, "/console/topics") == 200, "a link to the console"
    named = {"sec-fetch-site": "cross-site", "origin": "https://app.example"}
    assert embedded(named, origins=frozenset({"https://app.example"})) == 200


@pytest.mark.parametrize("name", ["host", "origin", "sec-fetch-site"])
def test_a_header_that_decides_stands_once(name: str) -> None:
    scope: Scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b""}
    scope["headers"] = [(b"host", b"localhost"), *[(name.encode(), b"localhost")] * 2]
    client = Client(None, [b""])

    async def send(message: Message) -> None:
        client.sent.append(message)

    asyncio.run(RequestLimits(echo_size, GatewayLimits())(scope, client._messages.get, send))
    assert client.sent[0]["status"] == 400
