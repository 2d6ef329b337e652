"""The code of a request says all of it, whatever is in it."""

from __future__ import annotations

import io
import json
import shlex
import urllib.request

import pytest

from mainstem.console.requests import ConsoleRequest, command_line, curl_line, forms, path, row_of


def test_what_is_in_a_query_is_escaped_for_the_url_and_the_shell() -> None:
    asked = ConsoleRequest(path("views", "a/b", "search"), {"q": "it's & $(x)", "limit": None, "label": ["a=1", "b=2"]})
    words = shlex.split(curl_line(asked, "http://127.0.0.1:8080/"))
    assert words == [
        "curl",
        "-s",
        "http://127.0.0.1:8080/views/a%2Fb/search?q=it%27s%20%26%20%24%28x%29&label=a%3D1&label=b%3D2",
    ]


def test_a_body_is_one_word_of_the_shell() -> None:
    asked = ConsoleRequest("/views/v/sql", {}, "POST", {"query": "SELECT 'é' -- \"x\""})
    words = shlex.split(curl_line(asked, "http://localhost"))
    assert words[-1] == '{"query": "SELECT \'é\' -- \\"x\\""}'
    assert words[2:4] == ["-X", "POST"]


def test_a_token_is_not_written_out() -> None:
    assert '-H "Authorization: Bearer $TOKEN"' in curl_line(
        ConsoleRequest("/topics"), "http://localhost", with_token=True
    )


def test_a_key_of_dots_is_not_a_segment_of_the_path() -> None:
    assert row_of("v", "...").target == "/views/v/keys/..."
    assert row_of("v", "..").target == "/views/v/keys?start=..&end=..%00&limit=1"


def test_the_python_of_a_request_sends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[urllib.request.Request] = []

    def answer(request: urllib.request.Request) -> io.BytesIO:
        sent.append(request)
        return io.BytesIO(b"{}")

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    monkeypatch.setenv("TOKEN", "secret")
    body = {"query": "SELECT 'é' -- \"x\"", "limit": None, "flag": True}
    asked = ConsoleRequest("/views/v/sql", {"at_least": "t/0:1"}, "POST", body)
    exec(compile(forms(asked, "http://localhost", with_token=True)["Python"], "python form", "exec"), {})
    assert sent[0].full_url == "http://localhost/views/v/sql?at_least=t/0:1"
    assert isinstance(sent[0].data, bytes)
    assert json.loads(sent[0].data) == body
    assert (sent[0].get_method(), sent[0].get_header("Authorization")) == ("POST", "Bearer secret")


def test_the_javascript_of_a_request_has_its_body_and_method() -> None:
    asked = ConsoleRequest("/topics/t/records", {}, "POST", {"records": [{"value": "é"}]})
    code = forms(asked, "http://localhost")["JavaScript"]
    assert 'method: "POST"' in code
    assert 'body: JSON.stringify({"records": [{"value": "é"}]})' in code


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        (ConsoleRequest(path("topics", "a b")), "mainstem topics describe 'a b'"),
        (
            ConsoleRequest("/topics/t/records", {"from": "t/0:1", "limit": 1}),
            "mainstem read t --from=t/0:1 --limit=1 --json",
        ),
        (ConsoleRequest("/views/v/sql", {}, "POST", {"query": "SELECT 1"}), "mainstem views query v 'SELECT 1'"),
        (ConsoleRequest("/config"), None),
    ],
)
def test_a_request_has_a_command_where_one_asks_the_same(asked: ConsoleRequest, command: str | None) -> None:
    assert command_line(asked) == command
