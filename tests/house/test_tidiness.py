"""The repository's own rules, as tests that ratchet: what is over a limit may only shrink."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

from tests.house.sources import source_text, source_tree

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60
PARAMETERS_MAX = 8
PUBLIC_METHODS_MAX = 15

# Name → the number it has today. A line here may only shrink or go.
MANY_METHODS = {
    "src/mainstem/client/log.py:Log": 16,  # the one entrance of programs; what it does is in modules of its own
    "src/mainstem/log/segments/segment.py:Segment": 28,
    "src/mainstem/testing/disk.py:FaultyDisk": 20,  # one for each call of the Disk port, and its faults
}


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_source_files_and_functions_stay_small() -> None:
    sizes = {_name(path): (len(source_text(path).splitlines()), FILE_LINES_MAX) for path in SOURCES}
    for path in SOURCES:
        functions = _functions(source_tree(path))
        sizes |= {f"{_name(path)}:{each.name}": (_length(each), FUNCTION_LINES_MAX) for each in functions}
    assert {name: size for name, (size, limit) in sizes.items() if size > limit} == {}


def test_every_source_file_says_what_it_is() -> None:
    silent = [_name(path) for path in SOURCES if not ast.get_docstring(source_tree(path))]
    assert silent == [], "a module starts with a docstring: its contract, invariants and concurrency"


def _public_methods(node: ast.ClassDef) -> int:
    """Public methods, properties aside: those are attributes that are worked out."""
    functions = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    return sum(not part.name.startswith("_") and not part.decorator_list for part in functions)


def test_no_class_becomes_a_hub() -> None:
    hubs = {
        f"{_name(path)}:{node.name}": _public_methods(node)
        for path in SOURCES
        for node in ast.walk(source_tree(path))
        if isinstance(node, ast.ClassDef)
    }
    assert {name: n for name, n in hubs.items() if n > MANY_METHODS.get(name, PUBLIC_METHODS_MAX)} == {}


def test_no_unfinished_work_is_left_in_the_source() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|raise NotImplementedError|except[^:\n]*:\s*\n\s*pass\b")
    found = [_name(path) for path in SOURCES if pattern.search(source_text(path))]
    assert found == []


def test_no_test_sleeps_to_wait() -> None:
    sleeping = [
        _name(path)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path != Path(__file__) and re.search(r"\btime\.sleep\(|asyncio\.sleep\((?!0\))", path.read_text())
    ]
    assert sleeping == []


def test_the_log_touches_the_world_only_through_its_ports() -> None:
    offenders = [
        f"{path.name}: {name}"
        for path in sorted((ROOT / "src/mainstem/log").rglob("*.py"))
        if path.name not in {"disk.py", "key_store.py", "index_worker.py"}  # the ports' real sides
        for node in ast.walk(source_tree(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        if name.split(".")[0] in {"os", "time", "shutil", "tempfile", "io", "mmap", "random", "secrets"}
    ]
    assert offenders == []


def test_no_address_of_a_registry_and_no_path_of_a_machine_is_tracked() -> None:
    pattern = re.compile(r"https?://[^\s\"']*(pypi|pythonhosted|npmjs|repo\d?\.maven|crates\.io)|/root/|/home/[a-z]+/")
    texts = {path: path.read_text(errors="replace") for path in _tracked() if path != Path(__file__)}
    assert [_name(path) for path, text in texts.items() if pattern.search(text)] == []
