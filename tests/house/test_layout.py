"""The layout of the source: rooms of a size that a reader can take in, each with a map in its __init__."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.house.sources import source_tree

SOURCE = Path(__file__).resolve().parents[2] / "src" / "mainstem"
MODULES_MAX = 15
# One module for each API is the layout of these two.
FLAT = {"broker/handlers", "protocol/messages"}
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))

# Two public classes with one name, each deliberate. A line here may only go.
SHARED_NAMES = {
    "Answer": "one thing on both sides of HTTP: the view host's and the client's",
    "Change": "one thing on both sides of HTTP: the view host's and the client's",
    "Column": "a column of a schema, and a column of values as they were decoded",
    "NewRecord": "the client's has a topic's partition to be chosen, the record format's is what a batch holds",
    "ReadOptions": "options of one read: of a view's answer, and of Spark's data source",
    "Topic": "Kafka's word: the App declares one, the log has one",
    "Transaction": "Kafka's word: a client's, and the coordinator's state of it",
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
    docstring = ast.get_docstring(source_tree(package / "__init__.py")) or ""
    parts = [*_modules(package), *sorted(path.parent.name for path in package.glob("*/__init__.py"))]
    assert [part for part in parts if f"``{part}``" not in docstring] == []


def test_a_public_class_name_means_one_thing() -> None:
    names = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        if "protocol/messages" not in str(path)
        for node in source_tree(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name: count for name, count in names.items() if count > 1} == dict.fromkeys(SHARED_NAMES, 2)


@cache
def _imports() -> dict[str, set[str]]:
    """Which modules each module imports, type-only imports and those within functions included."""
    modules = {".".join(("mainstem", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in _sources()}
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        asked = set()
        for node in ast.walk(source_tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module:
                asked |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                asked |= {alias.name for alias in node.names}
        found[name] = (asked & modules.keys()) - {name}
    return found


def _sources() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if path.stem != "__init__"]


def _circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan's algorithm, with a stack of its own)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    circles = []
    for start in imports:
        work = [(start, iter(sorted(imports[start])))] if start not in index else []
        while work:
            name, left = work[-1]
            if name not in index:
                index[name] = low[name] = len(index)
                path.append(name)
            following = next(left, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    at = path.index(name)
                    circle, path[at:] = path[at:], []
                    if len(circle) > 1:
                        circles.append(sorted(circle))
            elif following not in index:
                work.append((following, iter(sorted(imports[following]))))
            elif following in path:
                low[name] = min(low[name], index[following])
    return circles


def test_the_search_for_circles_finds_them() -> None:
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}) == [
        ["d", "e"],
        ["a", "b", "c"],
    ]


def test_no_circle_of_imports_has_more_than_three_files() -> None:
    assert [circle for circle in _circles(_imports()) if len(circle) > 3] == []


def test_only_handlers_and_what_starts_them_know_the_whole_node() -> None:
    """The import contract says the same of run-time imports; this holds it for type-only imports, too."""
    node = "mainstem.broker.node"
    may = re.compile(r"mainstem\.broker\.(handlers\.\w+|dispatch|api|server|network\.request_server)")
    assert [name for name, asked in _imports().items() if node in asked and not may.fullmatch(name)] == []
