"""``mainstem run`` with an App that has views and no pipelines, and ``mainstem views`` against it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.http.http import JsonHttp
from mainstem.client.log import Log
from tests.cli.commands import Commands

APP = """
import mainstem as ms
app = ms.App("run-tests")
people = app.topic("people", schema="id STRING NOT NULL, name STRING, friend STRING", key="id", compacted=True)
app.view("by-id", people, ms.KeyValue())
app.view("people", people, ms.SQL())
app.view("names", people, ms.Search("name"))
app.view("friends", people, ms.Graph(source="id", target="friend"))
"""
ROWS = [{"id": "a", "name": "Ada", "friend": "b"}, {"id": "b", "name": "Bob", "friend": "c"}]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The addresses of a running App, and the position of its records."""
    directory = tmp_path_factory.mktemp("run")
    (directory / "app.py").write_text(APP)
    argv = [sys.executable, "-m", "mainstem.cli.main", "run", str(directory / "app.py"), "--json"]
    argv += ["--data", str(directory / "data"), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--no-console"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready: dict[str, str] = json.loads(process.stdout.readline())["ready"]
        with Log(ready["kafka"], timeout_s=30) as log:
            position = log.append_many("people", [(row["id"], row) for row in ROWS])
        yield {**ready, "position": str(position)}
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.fixture
def asking(command: Commands, running: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setenv("MAINSTEM_URL", f"http://{running['http']}")
    return command


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (["query", "by-id", "a"], [{"name": "Ada"}]),
        (["query", "people", "SELECT count(*) AS n FROM people"], [{"n": 2}]),
        (["query", "names", "bob"], [{"id": "b"}]),
        (["query", "friends", "b"], [{"node": "a"}, {"node": "c"}]),
        (["range", "by-id", "--prefix", "b"], [{"id": "b"}]),
        (["neighbors", "friends", "a", "--hops", "2"], [{"node": "b"}, {"node": "c"}]),
        (["path", "friends", "a", "c"], [{"node": "a"}, {"node": "b"}, {"node": "c"}]),
    ],
)
def test_a_view_is_asked(
    asking: Commands, running: dict[str, str], arguments: list[str], rows: list[dict[str, object]]
) -> None:
    done = asking.run("views", *arguments, "--at-least", running["position"], "--json")
    assert [row | wanted for row, wanted in zip(done.json["rows"], rows, strict=True)] == done.json["rows"]
    assert done.json["position"] == running["position"]


def test_an_answer_is_drawn_as_a_table(asking: Commands, running: dict[str, str]) -> None:
    text = asking.run("views", "query", "by-id", "a", "--at-least", running["position"]).out
    assert "Ada" in text
    assert text.splitlines()[-1] == f"1 row at position {running['position']}"


def test_a_range_that_is_cut_says_how_to_read_on(asking: Commands, running: dict[str, str]) -> None:
    first = asking.run("views", "range", "by-id", "--limit", "1", "--at-least", running["position"])
    assert first.out.splitlines()[-1] == "more rows follow: --after a"
    rest = asking.run("views", "range", "by-id", "--limit", "1", "--after", "a", "--json")
    assert ([row["id"] for row in rest.json["rows"]], rest.json["next"]) == (["b"], None)


def test_views_are_listed(asking: Commands) -> None:
    assert [view["kind"] for view in asking.run("views", "list", "--json").json["views"]] == [
        "key-value",
        "sql",
        "search",
        "graph",
    ]
    assert "by-id" in asking.run("views", "list").out


def test_a_view_is_verified_and_rebuilt(asking: Commands) -> None:
    assert asking.run("views", "verify", "people").out.strip() == "equal: people and a replay of 2 records"
    assert asking.run("views", "rebuild", "people", "--json").json["records"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["query", "nope", "x"], 1, "no view 'nope'"),
        (["query", "people", "DELETE FROM people"], 1, ""),
        (["query", "by-id", "a", "--at-least", "people/0:99999"], 1, "beyond the log's end"),
        (["query", "by-id", "a", "--at-least", "nonsense"], 1, "is not TOPIC/PARTITION:NEXT_OFFSET"),
        (["neighbors", "friends", "a", "--hops", "99"], 1, "hops 99"),
    ],
)
def test_a_question_that_is_wrong_is_one_line(asking: Commands, arguments: list[str], code: int, words: str) -> None:
    done = asking.run("views", *arguments)
    assert (done.code, done.out) == (code, "")
    assert words in done.error


def test_the_gateway_forwards_to_the_view_host(running: dict[str, str]) -> None:
    status = JsonHttp(running["http"]).call("GET", "/views/by-id")
    assert (status["app"], status["topic"]) == ("run-tests", "people")


def test_an_app_that_is_wrong_is_one_line_before_anything_starts(command: Commands, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import mainstem as ms\napp = ms.App('x')\napp.view('v', 'nope', ms.KeyValue())\n")
    done = command.run("run", str(tmp_path / "app.py"), "--data", str(tmp_path / "data"))
    assert (done.code, "app.py:3" in done.error) == (1, True)
    assert not (tmp_path / "data").exists()
