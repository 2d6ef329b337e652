"""One supervised process: its ready line, its last words, its output and its end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainstem.errors import InputError, UnavailableError
from mainstem.node.child import Child, ChildFailedError
from tests.node.fake_roles import UNTIL_PARENT_IS_GONE, role
from tests.support.descriptors import is_readable


def test_a_child_says_when_it_is_ready(tmp_path: Path) -> None:
    child = Child(role(UNTIL_PARENT_IS_GONE), tmp_path)
    assert child.wait_ready() == str(child.pid)
    child.kill()
    assert child.wait_ended(60) == -9


@pytest.mark.parametrize(("code", "kind"), [(1, InputError), (3, UnavailableError), (4, ChildFailedError)])
def test_the_error_line_of_a_child_that_fails_to_start_is_the_error(
    tmp_path: Path, code: int, kind: type[Exception]
) -> None:
    child = Child(role(f"import sys; print('starting'); print('error: it is taken'); sys.exit({code})"), tmp_path)
    with pytest.raises(kind, match=r"^it is taken$"):
        child.wait_ready()


def test_a_child_without_an_error_line_is_described_by_its_end_and_its_last_line(tmp_path: Path) -> None:
    child = Child(role("import os; print('so far', flush=True); os.kill(os.getpid(), 9)"), tmp_path)
    with pytest.raises(ChildFailedError, match=r"the fake process ended at start with SIGKILL: so far; .*fake\.log"):
        child.wait_ready()


def test_the_last_line_of_a_traceback_does_not_pass_for_an_error_line(tmp_path: Path) -> None:
    child = Child(role("raise ValueError('oops')"), tmp_path)
    with pytest.raises(ChildFailedError, match=r"ended at start with exit code 1: ValueError: oops; "):
        child.wait_ready()


def test_a_child_that_is_not_ready_in_time_is_an_error(tmp_path: Path) -> None:
    child = Child(role("import sys; sys.stdin.read()", ready_timeout_s=0.05), tmp_path)
    with pytest.raises(ChildFailedError, match=r"was not ready within 0\.05 s"):
        child.wait_ready()
    child.kill()
    child.wait_ended(60)


def test_a_child_goes_on_when_the_disk_takes_none_of_its_output(tmp_path: Path) -> None:
    (tmp_path / "fake.log").symlink_to("/dev/full")
    program = "[print('x' * 1000, flush=True) for _ in range(500)]; print('ready: fake'); print('last')"
    child = Child(role(program), tmp_path)
    child.wait_ready()
    assert child.wait_ended(60) == 0


def test_both_outputs_of_a_child_land_in_its_log_file(tmp_path: Path) -> None:
    program = "import sys; sys.stderr.write('to stderr\\n'); print('to stdout'); print('ready: fake')"
    child = Child(role(program), tmp_path)
    child.wait_ready()
    child.wait_ended(60)
    child._pump.join(60)
    assert (tmp_path / "fake.log").read_text().splitlines() == ["to stderr", "to stdout", "ready: fake"]


def test_what_a_child_started_does_not_outlive_it(tmp_path: Path) -> None:
    program = """
    import signal, subprocess, sys
    grandchild = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
    print("ready: fake", grandchild.pid, flush=True)
    signal.pause()
    """
    child = Child(role(program), tmp_path)
    grandchild_end = os.pidfd_open(int(child.wait_ready()))
    child.terminate()
    assert child.wait_ended(60) == -15
    assert is_readable(grandchild_end, 60), "the grandchild still runs"
    os.close(grandchild_end)


def test_an_error_line_stands_though_others_print_a_traceback_after_it(tmp_path: Path) -> None:
    program = "import sys; print('error: it failed'); print('Traceback (most recent…'); print('Oops'); sys.exit(3)"
    child = Child(role(program), tmp_path)
    with pytest.raises(UnavailableError, match=r"^it failed$"):
        child.finish()


def test_a_child_that_ends_by_itself_with_success_is_no_error(tmp_path: Path) -> None:
    Child(role("print('done')"), tmp_path).finish()
