"""The table of the security page: every cell says what is so, and names a test of this repository that shows it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operate" / "security.md"
ACTORS = ("unauthenticated client", "client without rights", "reader", "writer", "local user", "web page in a browser")
TARGETS = ("log", "gateway", "views", "console", "files")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> list[list[str]]:
    """The cells of the table's rows."""
    section = PAGE.read_text().partition("## Who can do what\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[1:] if not line.startswith("|-")]


def test_there_is_a_row_for_each_actor_and_target() -> None:
    named = {(row[0], row[1]) for row in rows()}
    assert named == {(actor, target) for actor in ACTORS for target in TARGETS}


def test_every_cell_names_a_test_and_every_named_test_exists() -> None:
    for actor, target, can, can_shown, _, cannot_shown in rows():
        shown = (
            [cannot_shown] if can.startswith("nothing") and can_shown == "see *cannot*" else [can_shown, cannot_shown]
        )
        for proof in shown:
            named = _TEST.findall(proof)
            assert named, f"{actor}, {target}: a cell names no test: {proof}"
            for path, test in named:
                text = (ROOT / path).read_text() if (ROOT / path).exists() else ""
                assert re.search(rf"def {test}\(", text), f"{actor}, {target}: {path}::{test} does not exist"
