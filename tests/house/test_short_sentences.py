"""Pages for newcomers have short sentences: a median under 20 words, and at most three over 35 words on a page."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
_OLDER = {"concepts/positions.md", "howto/browser.md", "howto/requests.md", "howto/testing.md", "howto/agents.md"}
_NAMED = [f"operate/{name}.md" for name in ("index", "backup", "upgrade", "troubleshooting", "checklist")]
_NAMED += ["spark/migrate-from-kafka-format.md", "spark/clusters.md"]
_ROOMS = [
    path.relative_to(DOCS).as_posix() for room in ("concepts", "howto", "about") for path in (DOCS / room).glob("*.md")
]
PAGES = sorted({*_ROOMS, *_NAMED} - _OLDER)


def sentences(text: str) -> list[int]:
    """The words of each sentence of a page: no code, no table rows; a list item is a sentence of its own."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^\s*(?:\||#).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    parts = re.split(r"(?<=[.!?:])[*)]*\s+|\n\s*\n|\n\s*(?:[*-]|\d+\.)\s", text)
    return [len(part.split()) for part in parts if part.strip()]


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short(page: str) -> None:
    words = sentences((DOCS / page).read_text(encoding="utf-8"))
    assert not words or median(words) < 20
    assert sum(count > 35 for count in words) <= 3


def test_a_long_sentence_is_counted() -> None:
    assert sentences("word " * 40 + ". Short one.\n\n| " + "cell " * 50) == [41, 2]
