"""The layout of the source: rooms of a size that a reader can take in, each with a map at its door."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "mainstem"
MODULES_MAX = 15
# One module for each API is the layout of these two.
FLAT = {"broker/handlers", "protocol/messages"}
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))

# Two or more public classes with one name, and in how many modules. A line here may only shrink or go.
SHARED_NAMES: dict[str, int] = {
    "AbortedTransaction": 2,
    "Answer": 2,
    "Appended": 2,
    "Change": 2,
    "Column": 2,
    "KeyOffsets": 2,
    "LogPlace": 2,
    "NewRecord": 2,
    "Now": 2,
    "OffsetChange": 2,
    "PendingOffsets": 2,
    "Producer": 2,
    "ReadOptions": 2,
    "ResourceType": 2,
    "Security": 2,
    "Source": 2,
    "Tls": 2,
    "Topic": 2,
    "TopicMetadata": 2,
    "Transaction": 2,
    "View": 2,
    "Wanted": 2,
}


def _name(package: Path) -> str:
    return str(package.relative_to(SOURCE))


def _modules(package: Path) -> list[str]:
    return sorted(path.stem for path in package.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("package", PACKAGES, ids=_name)
def test_a_package_has_at_most_fifteen_modules(package: Path) -> None:
    assert _name(package) in FLAT or len(_modules(package)) <= MODULES_MAX


@pytest.mark.parametrize("package", [path for path in PACKAGES if path != SOURCE], ids=_name)
def test_a_package_has_a_map_of_its_modules(package: Path) -> None:
    if _name(package) in FLAT:
        pytest.skip("one module for each API, named after it")
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    parts = [*_modules(package), *sorted(path.parent.name for path in package.glob("*/__init__.py"))]
    assert [part for part in parts if f"``{part}``" not in docstring] == []


def test_a_public_class_name_means_one_thing() -> None:
    names = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        if "protocol/messages" not in str(path)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name: count for name, count in names.items() if count > 1} == SHARED_NAMES
