from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mainstem.client.http.views import Views, views
from mainstem.errors import (
    ConfigError,
    FrameError,
    LogUnavailableError,
    MainstemError,
    PositionTimeoutError,
    QueryError,
    UnknownViewError,
)
from mainstem.model import Position
from mainstem.problems import problem_of
from tests.test_problems import ERROR_CLASSES, example

EVERY_ERROR = [example(error_class) for error_class in ERROR_CLASSES]
ANSWER = {"rows": [{"carrier": "UA"}, {"carrier": "DL"}], "position": "delays/0:7", "covers": "flights/0:17"}


class Gateway:
    """Answers every request with ``status`` and ``body``, and keeps what it was asked."""

    def __init__(self) -> None:
        self.status, self.body = 200, json.dumps(ANSWER).encode()
        self.asked: list[tuple[str, str, Any]] = []
        self.authorizations: list[str | None] = []
        self.connections = 0
        self.keeps = True
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                gateway.connections += 1
                super().setup()

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                gateway.authorizations.append(self.headers.get("Authorization"))
                gateway.asked.append((self.command, self.path, json.loads(body) if body else None))
                self.send_response(gateway.status)
                self.send_header("Content-Length", str(len(gateway.body)))
                self.end_headers()
                self.wfile.write(gateway.body)
                self.close_connection = not gateway.keeps  # without a word, as a server does that restarts

            do_GET = do_POST = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def fail(self, error: MainstemError) -> None:
        problem = problem_of(error)
        self.status, self.body = problem["status"], json.dumps(problem).encode()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    gateway = Gateway()
    thread = threading.Thread(target=gateway.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield gateway
    gateway.server.shutdown()
    gateway.server.server_close()
    thread.join(5)


@pytest.fixture
def client(gateway: Gateway) -> Iterator[Views]:
    client = views(gateway.url)
    yield client
    client.close()


def test_an_answer_has_rows_and_says_what_it_reflects(client: Views) -> None:
    answer = client["delays"].get("UA")
    assert (answer.row, len(answer), [row["carrier"] for row in answer]) == ({"carrier": "UA"}, 2, ["UA", "DL"])
    assert (answer.position, answer.covers) == (Position.of("delays", 0, 7), Position.of("flights", 0, 17))


@pytest.mark.parametrize(
    ("ask", "asked"),
    [
        (lambda v: v.get("a/b ü"), ("GET", "/views/v/keys/a%2Fb%20%C3%BC", None)),
        (lambda v: v.get(".."), ("GET", "/views/v/keys?prefix=&start=..&end=..%00&limit=1", None)),
        (lambda v: v.range(prefix="U", limit=3), ("GET", "/views/v/keys?prefix=U&limit=3", None)),
        (lambda v: v.search("kennedy"), ("GET", "/views/v/search?q=kennedy&limit=20", None)),
        (lambda v: v.path("BUR", "JFK"), ("GET", "/views/v/path?from=BUR&to=JFK&direction=out", None)),
        (
            lambda v: v.neighbors("BUR", hops=2, direction="both"),
            ("GET", "/views/v/neighbors?node=BUR&hops=2&direction=both&limit=10000", None),
        ),
        (
            lambda v: v.sql("SELECT 1"),
            ("POST", "/views/v/sql", {"query": "SELECT 1", "limit": 10_000, "timeout_s": 10.0}),
        ),
        (
            lambda v: v.get("k", at_least=Position.of("t", 0, 1), timeout=2),
            ("GET", "/views/v/keys/k?at_least=t%2F0%3A1&timeout=2", None),
        ),
        (
            lambda v: v.get("k", max_lag_ms=0, at_least=None),
            ("GET", "/views/v/keys/k?max_lag_ms=0&timeout=30.0", None),
        ),
        (
            lambda v: v.get("k", as_of=datetime.datetime(2013, 1, 1, 10, tzinfo=datetime.UTC), timeout=2),
            ("GET", "/views/v/keys/k?as_of=2013-01-01T10%3A00%3A00%2B00%3A00&timeout=2", None),
        ),
        (lambda v: v.get("k", as_of=17, timeout=2), ("GET", "/views/v/keys/k?as_of=17&timeout=2", None)),
        (lambda v: v.status(), ("GET", "/views/v", None)),
        (lambda v: v.verify(), ("POST", "/views/v/verify?full=true", None)),
        (lambda v: v.rebuild(), ("POST", "/views/v/rebuild?from=log", None)),
    ],
)
def test_each_question_goes_to_its_route(
    client: Views, gateway: Gateway, ask: Callable[[Any], object], asked: tuple[str, str, Any]
) -> None:
    ask(client["v"])
    assert gateway.asked == [asked]


def test_the_views_are_a_mapping_by_name(client: Views, gateway: Gateway) -> None:
    gateway.body = b'{"views": [{"name": "delays"}, {"name": "flights"}]}'
    assert (list(client), len(client), "delays" in client, "x" in client) == (["delays", "flights"], 2, True, False)


@pytest.mark.parametrize("error", [UnknownViewError("no view 'v'"), QueryError("no such table")])
def test_what_went_wrong_behind_the_gateway_is_raised_as_itself(
    client: Views, gateway: Gateway, error: MainstemError
) -> None:
    gateway.fail(error)
    with pytest.raises(type(error), match=str(error)):
        client["v"].get("k")


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_every_problem_is_raised_as_the_error_that_it_was(
    client: Views, gateway: Gateway, error: MainstemError
) -> None:
    gateway.fail(error)
    with pytest.raises(MainstemError) as raised:
        client["v"].get("k")
    assert type(raised.value) is type(error)
    assert (str(raised.value), vars(raised.value)) == (str(error), vars(error))


def test_a_token_is_brought_with_each_request(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTEM_TOKEN", "from-the-environment")
    views(gateway.url, token="given")["v"].get("k")
    views(gateway.url)["v"].get("k")
    monkeypatch.delenv("MAINSTEM_TOKEN")
    views(gateway.url)["v"].get("k")
    assert gateway.authorizations == ["Bearer given", "Bearer from-the-environment", None]


def test_a_position_that_was_not_reached_comes_with_both_positions(client: Views, gateway: Gateway) -> None:
    wanted, reached = Position.of("t", 0, 9), Position.of("t", 0, 7)
    gateway.fail(PositionTimeoutError("late", wanted=wanted, reached=reached))
    with pytest.raises(PositionTimeoutError) as caught:
        client["v"].get("k", at_least=wanted)
    assert (caught.value.wanted, caught.value.reached) == (wanted, reached)


def test_a_connection_is_kept_and_opened_again_when_it_is_gone(client: Views, gateway: Gateway) -> None:
    client["v"].get("a")
    client["v"].get("b")
    assert gateway.connections == 1
    gateway.keeps = False
    for key in "cde":
        client["v"].get(key)
    assert len(gateway.asked) == 5


@pytest.mark.parametrize(
    ("status", "body", "error", "said"),
    [(200, b"[]", FrameError, "did not answer with a JSON object"), (502, b"<html>", MainstemError, "answered with")],
)
def test_an_answer_that_is_not_ours_is_a_clear_error(
    client: Views, gateway: Gateway, status: int, body: bytes, error: type, said: str
) -> None:
    gateway.status, gateway.body = status, body
    with pytest.raises(error, match=said):
        client["v"].get("k")


def test_a_gateway_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(LogUnavailableError, match="is the gateway running"):
        views("127.0.0.1:1")["v"].get("k")


@pytest.mark.parametrize("url", ["", "ftp://host", "http://host:x", "http://host?x=1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="http://HOST:PORT"):
        views(url)


def test_a_diff_says_what_changed_and_where_to_read_on(client: Views, gateway: Gateway) -> None:
    row = {"key": "a", "before": None, "after": {"n": 1}}
    gateway.body = json.dumps({"rows": [row], "from": "t/0:1", "to": "t/0:9", "next": "a"}).encode()
    diff = client["v"].diff(Position.of("t", 0, 1), limit=1, timeout=2)
    assert gateway.asked == [("GET", "/views/v/diff?from=t%2F0%3A1&limit=1&timeout=2", None)]
    assert [(change.key, change.before, change.after) for change in diff] == [("a", None, {"n": 1})]
    assert (diff.start, diff.end, diff.next) == (Position.of("t", 0, 1), Position.of("t", 0, 9), "a")
