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
    r'|"""What '
    # Words in a sense that is not the field's: say "after", "recreated", "is in it twice", "sends", "exceeds".
    r"|\b(?:right|or|bytes|text|entries|address|offset|key|records?|headers|each|one|lies|stood)"
    r" behind\b|\b(?:begins?|goes on|go on) behind\b"
    r"|\bbehind (?:the last|what|damage|that|these|this|those)\b|\bmade again\b|\bstands? twice\b"
    r"|\bclock brings\b|\bmember brings\b|\bcame? too slowly\b|\bwould come to\b",
    re.MULTILINE,
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
            places += [f"{path}:{text.count(chr(10), 0, m.start()) + 1}: {m[0]!r}" for m in _DIALECT.finditer(text)]
    return places


def test_no_phrase_of_the_list_is_used() -> None:
    assert found() == [], "write these in plain English: say who does what, positively, in the field's words"


def test_the_list_finds_a_phrase() -> None:
    assert _DIALECT.search("it is no topic")
    assert not _DIALECT.search("there is no topic")
    assert _DIALECT.search("the bytes behind the last record")
    assert not _DIALECT.search("the view is behind; the views behind a gateway")
