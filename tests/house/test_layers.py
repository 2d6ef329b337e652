"""The layering is executable: the import contracts of pyproject.toml hold, and light commands load no heavy library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"pyspark", "numba", "pyarrow", "pandas", "numpy", "duckdb", "tantivy", "fastapi", "uvicorn", "pydantic"}


def test_the_import_contracts_hold() -> None:
    checked = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout[-4000:] + checked.stderr[-2000:]


@pytest.mark.parametrize(
    "module",
    [
        "mainstem",
        "mainstem.cli.main",
        "mainstem.broker.process",
        "mainstem.log.node.node_log",
        "mainstem.pipelines.app",
    ],
)
def test_a_light_module_loads_no_heavy_library(module: str) -> None:
    assert _loaded(module) & HEAVY == set()


def test_a_gateway_and_a_console_start_without_arrow_and_kernels() -> None:
    loaded = _loaded("mainstem.gateway.server.app", "mainstem.gateway.monitoring.monitor", "mainstem.console.process")
    assert loaded & HEAVY == {"fastapi", "pydantic", "uvicorn"}


def _loaded(*modules: str) -> set[str]:
    """The packages in a process that has imported these modules."""
    program = f"import json, sys, {', '.join(modules)}; print(json.dumps([name.split('.')[0] for name in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    )
    return set(json.loads(done.stdout))
