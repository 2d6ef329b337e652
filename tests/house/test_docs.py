"""The documentation keeps its word: links lead somewhere, the README has the example and names targets that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.pages import PAGES, ROOT, blocks_of, name_of

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", _FENCE.sub("", page.read_text()))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_shows_the_example_as_it_is() -> None:
    program = (ROOT / "examples" / "flights.py").read_text().strip()
    assert program in [block.text.strip() for block in blocks_of(ROOT / "README.md")]


def test_every_make_target_the_readme_names_exists() -> None:
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)", (ROOT / "README.md").read_text()))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named
    assert named <= targets
