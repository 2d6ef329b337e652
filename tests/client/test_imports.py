from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = "confluent_kafka numba numpy pandas pyarrow pydantic mcp pyspark fastapi duckdb kio asyncio"


@pytest.mark.parametrize(
    "module", ["mainstem", "mainstem.client.log", "mainstem.client.http.views", "mainstem.schema.infer"]
)
def test_what_every_program_imports_loads_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}; print([name for name in '{HEAVY}'.split() if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"
