"""The lessons run, block after block, on a real log, view host and gateway, and print what they show."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from mainstem.pipelines.app import App
from tests.examples.serving import serving

LEARN = Path(__file__).resolve().parents[2] / "docs" / "learn"
PAGES = ("1-a-log.md", "2-keys-and-partitions.md", "3-a-view.md")
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


@pytest.mark.parametrize("page", PAGES)
def test_the_page_prints_what_it_shows(page: str, tmp_path: Path) -> None:
    blocks = [(mark or "", language, text) for mark, language, text in _BLOCK.findall((LEARN / page).read_text())]
    names: dict[str, Any] = {}
    for mark, _, text in blocks:
        if mark == "app":
            _run(text, names)
    app = names.get("app") or App("documentation")
    with serving(app, tmp_path) as (log, gateway):
        names, printed = {}, ""
        for mark, language, text in blocks:
            if language == "python" and mark != "app":
                assert not printed, f"{page} does not show {printed!r}"
                code = text.replace("localhost:9092", log.bootstrap).replace("http://localhost:8080", gateway)
                printed = _run(code, names)
            elif language == "text" and printed:
                assert _matches(text, printed), f"{page} shows {text!r}, and it prints {printed!r}"
                printed = ""
        assert not printed, f"{page} does not show {printed!r}"
        names["log"].close()
