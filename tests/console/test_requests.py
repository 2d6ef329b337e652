"""The curl line of a request says all of it, whatever is in it."""

from __future__ import annotations

import shlex

from mainstem.console.requests import ConsoleRequest, curl_line, path, row_of


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
