"""Plain English: the old dialect goes, area by area, and does not come back.

The list is of phrases that made readers stop. It is a ratchet: an area's number may only shrink, and is written down
when it does.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_DIALECT = re.compile(
    r"(?<!there )(?<!There )\bis no [a-z]"
    r"|\b(?:nobody|whoever|anew|no more|told|said no|as good as|somebody)\b|See the module\."
    r'|"""What ',
    re.MULTILINE,
)

# Area → how many places are left. These numbers only shrink.
LEFT: dict[str, int] = {
    "durable_files": 1,
    "json_depth": 2,
    "lake": 5,
    "logs": 3,
    "model": 1,
    "protocol": 11,
    "schema": 5,
    "spark": 10,
    "testing": 5,
    "views": 148,
}


def _area(path: str) -> str | None:
    parts = path.split("/")
    if path.startswith("src/mainstem/") and path.endswith(".py"):
        return parts[2].removesuffix(".py")
    if path in {"README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md"}:
        return path
    return "docs" if path.startswith("docs/") and path.endswith(".md") else None


def found() -> dict[str, int]:
    """Area → how many phrases of the old dialect its files have."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    counts: Counter[str] = Counter()
    for path in listed.stdout.splitlines():
        area = _area(path)
        if area is not None and (ROOT / path).is_file():
            counts[area] += len(_DIALECT.findall((ROOT / path).read_text()))
    return {area: count for area, count in counts.items() if count}


def test_the_old_dialect_only_shrinks() -> None:
    grown = {area: count for area, count in found().items() if count > LEFT.get(area, 0)}
    assert grown == {}, "write these in plain English: say who does what, positively, in the field's words"


def test_what_was_gained_is_written_down() -> None:
    assert {area: count for area, count in found().items() if count < LEFT.get(area, 0)} == {}
    assert sorted(LEFT) == sorted(area for area in found() if LEFT.get(area))
