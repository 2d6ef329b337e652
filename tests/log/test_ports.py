from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mainstem.log

SOURCES = sorted(Path(mainstem.log.__file__).parent.rglob("*.py"))
PORTS = {"disk.py", "key_store.py", "index_worker.py"}  # the real ones: files, RocksDB, the worker process
SIDE_EFFECTS = {"os", "time", "shutil", "mmap", "fcntl", "io", "tempfile", "random", "socket", "datetime"}


def imported(path: Path) -> set[str]:
    """The modules, and names of pathlib, that a source file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module.split(".")[0]}
            if node.module == "pathlib":
                found |= {f"pathlib.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", [path for path in SOURCES if path.name not in PORTS], ids=lambda path: path.stem)
def test_side_effects_go_through_the_ports(path: Path) -> None:
    assert not imported(path) & (SIDE_EFFECTS | {"pathlib.Path"})
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert not any(isinstance(call, ast.Name) and call.id == "open" for call in calls)
