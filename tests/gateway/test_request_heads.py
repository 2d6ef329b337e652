"""Heads of requests are bounded before a token is asked for, whoever sends them and however."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.gateway.access.request_heads import HEAD_BYTES_MAX, HEADERS_MAX, BoundedHeads

LINE = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def connection(api: httpx.Client) -> Iterator[socket.socket]:
    with socket.create_connection((api.base_url.host, api.base_url.port or 0), timeout=60) as connection:
        yield connection


def answer(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    "head",
    [
        LINE + b"X-Long: " + b"x" * HEAD_BYTES_MAX + b"\r\n\r\n",
        LINE + b"X-Endless: " + b"x" * 2 * HEAD_BYTES_MAX,
        LINE + b"".join(b"X-%d: y\r\n" % n for n in range(HEADERS_MAX + 1)),
        LINE + b"".join(b"X-%d: " % n + b"y" * (HEAD_BYTES_MAX // 50) + b"\r\n" for n in range(60)) + b"\r\n",
        b"GET /" + b"x" * HEAD_BYTES_MAX + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=["long", "endless", "many", "together", "line"],
)
def test_a_head_over_the_bounds_is_431_and_the_end_of_its_connection(connection: socket.socket, head: bytes) -> None:
    try:
        connection.sendall(head)
        said = answer(connection)
    except ConnectionError:  # it was closed while more was sent: then what was said may be lost
        return
    assert said.startswith(b"HTTP/1.1 431 "), said[:200]
    assert b"/problems/headers-too-large" in said


def test_a_head_within_the_bounds_is_served_also_behind_another(connection: socket.socket) -> None:
    headers = b"".join(b"X-%d: %s\r\n" % (n, b"y" * 500) for n in range(HEADERS_MAX - 10))
    connection.sendall(LINE + headers + b"\r\n" + LINE + headers + b"Connection: close\r\n\r\n")
    assert answer(connection).count(b"HTTP/1.1 200 OK") == 2


def test_a_large_body_does_not_count_as_head(api: httpx.Client, mainstem_topic: str) -> None:
    for _ in range(2):
        sent = api.post(f"/topics/{mainstem_topic}/records", json={"records": [{"value": "x" * 90_000}]})
        assert sent.status_code == 201, sent.text


@pytest.mark.parametrize(
    ("begun", "head_s"), [(b"", 0.2), (b"\r\n", 0.2), (b"GET /healthz HT", 0.2), (LINE + b"\r\n" + LINE, 2.0)]
)
def test_a_connection_whose_head_does_not_come_is_closed(
    api: httpx.Client, begun: bytes, head_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.get("/openapi.json")  # the gateway makes the document at its first request
    monkeypatch.setattr(BoundedHeads, "head_s", head_s)
    with socket.create_connection((api.base_url.host, api.base_url.port or 0), timeout=50) as connection:
        said = b""
        with suppress(ConnectionError):  # it is closed already
            connection.sendall(begun[: len(begun) // 2])
            connection.sendall(begun[len(begun) // 2 :])
            said = answer(connection)
        assert said.count(b"HTTP/1.1 200 OK") == begun.count(b"\r\n\r\n")


@pytest.mark.parametrize("length", [1 << 40, (4 << 20) + 1], ids=["endless", "complete"])
def test_a_connection_is_closed_after_a_refused_body(
    api: httpx.Client, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedHeads, "head_s", 1.0)
    with socket.create_connection((api.base_url.host, api.base_url.port or 0), timeout=50) as connection:
        connection.sendall(
            b"POST /topics/any/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % length
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
        with suppress(ConnectionError):  # it is closed already
            connection.sendall(b"x" * min(length, 8 << 20))
        with suppress(ConnectionError):  # what was sent was not read
            answer(connection)


def test_a_connection_serves_the_next_request_after_a_refused_body(connection: socket.socket) -> None:
    length = (4 << 20) + 1
    connection.sendall(b"POST /topics/any/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % length)
    assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
    connection.sendall(b"x" * length + LINE + b"Connection: close\r\n\r\n")
    assert answer(connection).count(b"HTTP/1.1 200 OK") == 1


def test_an_answer_that_takes_longer_than_a_head_may_is_not_cut_off(
    api: httpx.Client, mainstem_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedHeads, "head_s", 1.0)
    waited = api.post(f"/topics/{mainstem_topic}/requests", json={"value": 1, "timeout_s": 1.3})
    assert waited.status_code == 202, waited.text


def test_a_connection_whose_answer_is_not_taken_is_cut_off(
    api: httpx.Client, mainstem_topic: str, session_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_log.append_many(mainstem_topic, [("k", "x" * 500_000)] * 16)
    lost, closed = threading.Event(), BoundedHeads.connection_lost

    def connection_lost(self: BoundedHeads, exc: Exception | None) -> None:
        closed(self, exc)
        if self.transport.get_extra_info("peername") == client.getsockname():  # others end meanwhile, too
            lost.set()

    monkeypatch.setattr(BoundedHeads, "stall_s", 0.2)
    with socket.create_connection((api.base_url.host, api.base_url.port or 0), timeout=50) as client:
        monkeypatch.setattr(BoundedHeads, "connection_lost", connection_lost)
        client.sendall(f"GET /topics/{mainstem_topic}/records HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert client.recv(12) == b"HTTP/1.1 200"
        assert lost.wait(50)
        assert len(answer(client)) < 8_000_000, "what the kernel held, and no more"
