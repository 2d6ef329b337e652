"""The page of settings has every environment variable that the source reads, and every key of ``mainstem.toml``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from scripts.environment import INTERNAL, known_variables, tables_of_settings_file
from scripts.reference import FOLDER

from mainstem.cli.main import options_of_commands
from mainstem.cli.settings import SHARED, defaults
from mainstem.client.security import OPTIONS
from mainstem.errors import ConfigError
from tests.house.pages import ROOT

_OURS = re.compile(r"MAINSTEM_[A-Z_]+[A-Z]")
_READS = ("os.environ.get", "os.getenv", "os.environ.setdefault", "environment.get")
_BY_NAME = {
    "broker/security/certificates.py": "found[2]",  # ${env:NAME}, any name that a setting gives
    "client/security.py": "variable_of(name)",  # of each of OPTIONS, which known_variables has
    "cli/settings.py": "variable_of(name)",
}
"""Reads whose name is not in the source: the file, and the name's expression."""


def _sources() -> Iterator[tuple[str, ast.Module]]:
    root = ROOT / "src" / "mainstem"
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "os.environ" in text or "os.getenv" in text or "MAINSTEM_" in text:
            yield path.relative_to(root).as_posix(), ast.parse(text)


def _read_names(tree: ast.Module) -> Iterator[ast.expr]:
    """The expressions that name a variable: ``os.environ[X]``, ``os.environ.get(X)``, ``X in os.environ``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
            yield node.slice
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in _READS and node.args:
            yield node.args[0]
        elif isinstance(node, ast.Compare | ast.BinOp):
            other = node.right if isinstance(node, ast.BinOp) else node.comparators[0]
            if ast.unparse(other) in ("os.environ", "os.environ.keys()"):
                yield node.left


def _values(name: ast.expr, tree: ast.Module) -> list[str] | None:
    """The text of a name: itself, a constant of the module, or one of a constant's texts in a loop; None: unknown."""
    if isinstance(name, ast.Name):
        loops = [n for n in ast.walk(tree) if isinstance(n, ast.comprehension) and ast.unparse(n.target) == name.id]
        places = {ast.unparse(n.iter) for n in loops} or {name.id}
        assigned = [n for n in tree.body if isinstance(n, ast.Assign | ast.AnnAssign) and places & _targets(n)]
        return [text for statement in assigned for text in _texts(statement)] or None
    return _texts(name) or None


def _targets(statement: ast.Assign | ast.AnnAssign) -> set[str]:
    return {ast.unparse(n) for n in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])}


def _texts(node: ast.AST) -> list[str]:
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


@cache
def _read_variables() -> tuple[dict[str, str], list[str]]:
    """The variables that the source reads, each with a file that does; and the reads whose name is not known."""
    found, unknown = {}, []
    for path, tree in _sources():
        for text in _texts(tree):
            if _OURS.fullmatch(text):
                found[text] = path
        for name in _read_names(tree):
            values = _values(name, tree)
            if values is None and _BY_NAME.get(path) != ast.unparse(name):
                unknown.append(f"{path}: {ast.unparse(name)}")
            found |= dict.fromkeys(values or (), path)
    return found, unknown


def test_every_variable_that_the_source_reads_is_on_the_page() -> None:
    found, unknown = _read_variables()
    assert unknown == [], "read a variable by a constant of the module, so that this test finds it"
    assert {name: path for name, path in found.items() if name not in known_variables()} == {}, (
        "add it to scripts/environment.py"
    )


def test_every_variable_of_the_page_is_read() -> None:
    found, _ = _read_variables()
    of_security = {f"MAINSTEM_{name.upper().replace('.', '_')}" for name in OPTIONS}
    assert known_variables() - set(found) - of_security == set()
    page = (FOLDER / "settings.md").read_text(encoding="utf-8")
    assert [name for name in known_variables() if f"`{name}`" not in page] == []
    assert set(found) >= INTERNAL


def test_the_settings_file_takes_the_keys_of_the_page_and_no_other(tmp_path: Path) -> None:
    path, tables = tmp_path / "mainstem.toml", tables_of_settings_file()
    commands = options_of_commands()
    lines = [f'{name} = "a"' for name in (*SHARED, *OPTIONS) if not name.startswith("sasl.mechanism")]
    for table, keys in tables.items():
        lines += [f"[{table}]", *(f"{key} = 1" for key in keys)]
    path.write_text("\n".join(lines), encoding="utf-8")
    defaults(commands, path)
    for text in ("sets = 1", *(f"[{table}]\nno-such = 1" for table in tables)):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError):
            defaults(commands, path)
    of_tables = {name: tables[name.partition(".")[0]] for name in commands}
    assert [name for name, options in commands.items() if set(options) - set(of_tables[name])] == []
    page = (FOLDER / "settings.md").read_text(encoding="utf-8")
    assert [name for name in (*SHARED, *OPTIONS, *tables) if not re.search(rf"^\| `\[?{name}\]?`", page, re.M)] == []
