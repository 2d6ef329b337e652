"""Runs the JavaScript of a page in Node, with the module that a gateway serves: no browser is needed for it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

_PROGRAM: Final = Path(__file__).with_name("page_modules.mjs")
_SCRIPT: Final = re.compile(r'<script type="module">\n(.*?)</script>', re.DOTALL)
_TIMEOUT_S: Final = 60


def module_of(language: str, text: str) -> tuple[str, list[str]]:
    """The module in a block, and the ids of the elements that it writes to as global names, as in a browser."""
    if language == "html":
        return "\n".join(_SCRIPT.findall(text)), re.findall(r'\bid="(\w+)"', text)
    return text, []


def wrong_syntax(modules: Mapping[str, str]) -> dict[str, str]:
    """What Node's parser says of modules by name; those without an error are left out."""
    return {name: str(said) for name, said in _run({"check": dict(modules)}).items()}


def run_module(text: str, gateway: str, elements: Sequence[str] = ()) -> dict[str, str]:
    """Run a module to its end, and until it has written a text to each element; the texts.

    An import of ``http://…/client.js`` gives the module of ``gateway``.
    """
    return _run({"run": text, "gateway": gateway, "elements": list(elements)})


def _run(question: Mapping[str, object]) -> dict[str, str]:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    argv = ["node", "--no-warnings", "--experimental-vm-modules", str(_PROGRAM)]
    done = subprocess.run(
        argv, input=json.dumps(question), capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer
