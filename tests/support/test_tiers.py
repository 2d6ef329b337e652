"""The markers of the tiers name tests that exist, and a test that ends its process is not run again."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest

from tests.support import sharing, tiers
from tests.support.own_environment import own_environment

_CHECKOUT = Path(__file__).resolve().parents[2]
_ENDS_ITS_PROCESS = """
import os
from pathlib import Path

def test_before(): pass

def test_that_ends_its_process():
    with Path("runs").open("a") as runs:
        runs.write("run\\n")
    os._exit(3)

def test_after(): pass
"""


@pytest.mark.parametrize(
    "place", sorted({*tiers._BY_PLACE, *sharing._TOGETHER, *sharing._LONGEST_FIRST, *sharing._STARTS_SPARK})
)
def test_each_place_is_there(place: str) -> None:
    assert (_CHECKOUT / "tests" / place).exists(), f"{place} was moved: correct its name in tests/support"


@pytest.mark.slow
def test_a_test_that_ends_its_process_fails_once_and_the_others_are_run(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_one.py").write_text(_ENDS_ITS_PROCESS)
    (tmp_path / "test_two.py").write_text("def test_other(): pass\n")
    argv = [sys.executable, "-m", "pytest", "-n", "2", "-p", "tests.support.sharing", "-p", "no:cacheprovider"]
    environment = own_environment({"PYTHONPATH": str(_CHECKOUT)})
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert "1 failed, 3 passed" in done.stdout.splitlines()[-1], done.stdout + done.stderr
    assert (tmp_path / "runs").read_text() == "run\n"


def test_two_processes_of_three_start_spark() -> None:
    starts, plain = ("spark/test_a.py", "torture/test_b.py", "endtoend/test_c.py"), ("log/test_d.py", "log/test_e.py")
    shared = sharing.Sharing.__new__(sharing.Sharing)
    nodes = [_Process() for _ in range(3)]
    shared.assigned_work = {node: {} for node in nodes}
    shared.registered_collections = {node: [f"tests/{path}::test" for path in (*starts, *plain)] for node in nodes}
    shared.workqueue = OrderedDict((path, {f"tests/{path}::test": False}) for path in (*starts, *plain))
    for node in nodes:
        shared._assign_work_unit(node)
    assert [list(shared.assigned_work[node]) for node in nodes] == [[starts[0]], [starts[1]], [plain[0]]]
    shared.assigned_work[nodes[0]][starts[0]][f"tests/{starts[0]}::test"] = True
    shared._assign_work_unit(nodes[2])
    assert list(shared.assigned_work[nodes[2]]) == [plain[0], starts[2]]


class _Process:
    """What the sharing needs of a process of ``-n``."""

    def send_runtest_some(self, indices: list[int]) -> None:
        assert len(indices) == 1
