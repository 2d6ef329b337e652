"""The lessons run, block after block, on a real log, view host and gateway, and print what they show."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from mainstem.client.log import Log
from mainstem.pipelines.app import App
from tests.examples.serving import serving

LEARN = Path(__file__).resolve().parents[2] / "docs" / "learn"
PAGES = ("1-a-log.md", "2-keys-and-partitions.md", "3-a-view.md", "6-when-things-break.md", "7-test-it.md")
Block = tuple[str, str, str]  # the mark before it, its language, its text
_BLOCK = re.compile(r"(?:^<!-- run: ([^\n]*) -->\n)?^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _matches(shown: str, printed: str) -> bool:
    """Whether ``printed`` is as the page shows it, where ``…`` stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, shown.strip().split("…"))), printed.strip(), re.DOTALL) is not None


def _run(code: str, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<documentation>", "exec"), names)
    return printed.getvalue()


def test_a_wrong_output_is_seen() -> None:
    assert _matches("a … c\n", "a b c\n")
    assert not _matches("orders/0:1", "orders/0:2")


def blocks_of(page: str) -> list[Block]:
    """The blocks of a lesson, in order."""
    return [(mark or "", language, text) for mark, language, text in _BLOCK.findall((LEARN / page).read_text())]


def app_of(page: str) -> App:
    """The App that a lesson declares; an empty one if it declares none."""
    names: dict[str, Any] = {"app": App("documentation")}
    for mark, _, text in blocks_of(page):
        if mark == "app":
            _run(text, names)
    found = names["app"]
    assert isinstance(found, App)
    return found


def run_page(page: str, log: Log, gateway: str) -> None:
    """Run a lesson's Python blocks, and compare what they print with the text blocks after them."""
    names: dict[str, Any] = {}
    printed = ""
    for mark, language, text in blocks_of(page):
        if language == "python" and not mark:
            assert not printed, f"{page} does not show {printed!r}"
            printed = _run(
                text.replace("localhost:9092", log.bootstrap).replace("http://localhost:8080", gateway), names
            )
        elif language == "text" and printed:
            assert _matches(text, printed), f"{page} shows {text!r}, and it prints {printed!r}"
            printed = ""
    assert not printed, f"{page} does not show {printed!r}"
    names["log"].close()


@pytest.mark.parametrize("page", PAGES)
def test_the_page_prints_what_it_shows(page: str, tmp_path: Path) -> None:
    with serving(app_of(page), tmp_path) as (log, gateway):
        run_page(page, log, gateway)
