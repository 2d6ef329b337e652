"""The pages of the examples run as a reader would run them: the App, and what the page tries in another terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mainstem.client.http.views import views
from tests.house.pages import ROOT, blocks_of, indented_commands, is_as_shown
from tests.node.page_session import PageSession
from tests.support.page_modules import run_module

PAGES = ("bank", "board", "census", "documents", "drift", "job-views", "request_reply")
_PLACES = {"python examples/board.py": "python examples/board.py 0", "doc-4711": "doc-42"}
_STOPPED_FOR = "python examples/drift.py cook"
_DIFFERS = "mainstem views verify balances"
_ASKS = "mainstem views query balances"
_RICHEST = "SELECT owner, balance FROM balances ORDER BY balance DESC LIMIT 1"


@pytest.mark.parametrize("page", PAGES)
def test_an_example_does_what_its_page_shows(page: str, tmp_path: Path) -> None:
    path = ROOT / f"docs/examples/{page}.md"
    start, *modules = (block for block in blocks_of(path) if block.mark == "node")
    with PageSession(tmp_path, _PLACES) as session:
        _copy_examples(tmp_path, session)
        session.place("localhost:8080", session.http)
        session.run(start)
        for command, shown in indented_commands(path):
            if "…" in command:
                continue  # it needs a part of the answer before it
            if command == _STOPPED_FOR:
                session.stop()
            if command == _DIFFERS:
                session.until(command, lambda said: "different" in said, f"{command} says different")
                session.line(f"{command}; test $? = 5")
                _names_the_row_that_was_changed(session.http)
            elif command.startswith(_ASKS):  # the view has to have the accounts before their database is changed
                session.until(command, lambda said: "mallory" in said, f"{command} shows mallory")
            elif shown:
                what = f"{command} says {shown}"
                session.until(f"{command} 2>&1", lambda said, shown=shown: is_as_shown(shown, said), what)
            else:
                session.line(command)
        for module in modules:
            run_module(session.here(module.text), f"http://{session.http}", ["text"])
        if page == "drift":
            assert views(session.http)["balances"].sql(_RICHEST).rows == [{"owner": "ada", "balance": 180.0}]


def _names_the_row_that_was_changed(url: str) -> None:
    balances = views(url)["balances"]
    assert balances.sql(_RICHEST).rows == [{"owner": "mallory", "balance": 1e6}]
    for full in (False, True):
        [found] = balances.verify(full=full)["differences"]
        assert (found["key"], found["expected"]["balance"], found["actual"]["balance"]) == ("mallory", 7.25, 1e6)
    assert balances.status()["drifted"]


def _copy_examples(directory: Path, session: PageSession) -> None:
    """The examples, with the addresses of the session's node."""
    (directory / "examples").mkdir()
    for each in (ROOT / "examples").iterdir():
        if each.is_file():
            text = each.read_text().replace("127.0.0.1:9092", session.log).replace("10_000", "100")
            text = re.sub(r"(localhost|127\.0\.0\.1):8080", session.http, text)
            (directory / "examples" / each.name).write_text(text)
