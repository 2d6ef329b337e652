"""The sources, each read and parsed once for all tests of this directory."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def source_text(path: Path) -> str:
    """What the file holds."""
    return path.read_text()


@cache
def source_tree(path: Path) -> ast.Module:
    """Its syntax tree."""
    return ast.parse(source_text(path))
