"""The package tells its types (``py.typed``): a user's program is checked by mypy, and what is wrong in it is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.apache_kafka import JARS

_CACHE: Final = JARS.parent / "mypy-of-users"
"""What mypy has found in the package and in what it imports stays for the next run."""
PROGRAM = """
import mainstem as ms

views = ms.views("localhost:8080", token="t")
answer = views["delays"].get("UA", at_least=ms.Position.of("flights", 0, 1), timeout=2.5)
reveal_type(answer.row)
reveal_type(answer.position)
reveal_type(ms.Log("localhost:9092").append("t", 1))
views["delays"].get(17)
views["delays"].get("UA", at_most=answer.position)
ms.views("localhost:8080", tokn="t")
"""


def test_a_users_program_is_typed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    argv = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(_CACHE), "program.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    found = [line.split(":", 2)[1] + line.split(":", 2)[2] for line in done.stdout.splitlines() if "program.py" in line]
    assert done.returncode == 1
    assert any('"dict[builtins.str, Any] | None"' in line or "dict[str, Any] | None" in line for line in found), found
    assert sum("mainstem.model.Position" in line for line in found) == 2, found
    assert [line.split(" ")[0] for line in found if " error: " in line] == ["9", "10", "11"], found
