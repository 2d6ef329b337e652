"""Plain English: sources and pages use none of the phrases that made readers stop."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_DIALECT = re.compile(
    r"(?<!there )(?<!There )\bis no [a-z]"
    r"|\b(?:[Nn]obody|[Ww]hoever|[Aa]new|no more|told|said no|as good as|[Ss]omebody)\b"
    r"|\b[Ss]ee the module\b|\blies? behind\b|\bstands? for\b"
    r'|"""What ',
    re.MULTILINE,
)

# Verbs and prepositions in a sense that is not the field's: "after", "recreated", "is in it twice", "sends", "exceeds".
_UNUSUAL = re.compile(
    r"\b(?:right|or|bytes|text|entries|address|offset|key|records?|headers|each|one|lies|stood)"
    r" behind\b|\b(?:begins?|goes on|go on) behind\b"
    r"|\bbehind (?:the last|what|damage|that|these|this|those)\b|\bmade again\b|\bstands? twice\b"
    r"|\bclock brings\b|\bmember brings\b|\bcame? too slowly\b|\bwould come to\b"
)
# Parts that still use them. A line here may only go.
_NOT_YET = (
    "src/mainstem/postgres/",
    "src/mainstem/registry/",
    "src/mainstem/encodings/",
    "src/mainstem/gateway/registry/",
    "src/mainstem/record/native/",
    "src/mainstem/views/stores/table/",
    "docs/postgres.md",
    "docs/registry.md",
    "docs/decisions/0033-postgres-changes.md",
)


def _is_checked(path: str) -> bool:
    is_code = path.startswith("src/mainstem/") and path.endswith(".py")
    is_page = path.startswith("docs/") and path.endswith(".md")
    return is_code or is_page or path in {"README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md"}


def found() -> list[str]:
    """The places with phrases of the list, each as ``path:line: phrase``."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    places = []
    for path in filter(_is_checked, listed.stdout.splitlines()):
        if (ROOT / path).is_file():
            text = (ROOT / path).read_text()
            phrases = [*_DIALECT.finditer(text), *(() if path.startswith(_NOT_YET) else _UNUSUAL.finditer(text))]
            places += [f"{path}:{text.count(chr(10), 0, m.start()) + 1}: {m[0]!r}" for m in phrases]
    return places


def test_no_phrase_of_the_list_is_used() -> None:
    assert found() == [], "write these in plain English: say who does what, positively, in the field's words"


def test_the_list_finds_a_phrase() -> None:
    assert _DIALECT.search("it is no topic")
    assert not _DIALECT.search("there is no topic")
    assert _UNUSUAL.search("the bytes behind the last record")
    assert not _UNUSUAL.search("the view is behind; the views behind a gateway")
