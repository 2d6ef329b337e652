"""Pages for users have short sentences: a median under 20 words, and at most three over 35 words on a page."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
_FOR_BUILDERS = ("decisions", "internals")
PAGES = sorted(
    name
    for name in (path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    if not name.startswith(_FOR_BUILDERS)
)


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
