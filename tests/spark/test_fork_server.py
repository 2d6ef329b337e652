"""Forked processes behave like the Python that was asked for, and none outlives those who asked."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.spark.startup.fork_server import ForkServer
from tests.support.descriptors import is_readable

MODULE = """
import os, sys
if "--wait" in sys.argv:
    print(os.getpid(), flush=True)
    sys.stdin.read()
print(sys.argv[1:], os.environ["MARK"], os.getcwd(), sys.stdin.read(), "numba" in sys.modules)
sys.exit(7)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    made = ForkServer()
    yield made
    made.stop()


@pytest.fixture
def module(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "forked_module.py").write_text(MODULE)
    return {**os.environ, "PYTHONPATH": str(tmp_path), "MARK": "marked"}


def run(server: ForkServer, environment: dict[str, str], *arguments: str, cwd: Path) -> subprocess.Popen[str]:
    argv = [str(server.python), "-m", "forked_module", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(argv, env=environment, cwd=cwd, text=True, bufsize=1, **pipes)


def gone(pid: int) -> None:
    """Return when no process has this id any more."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert is_readable(handle, 20), f"process {pid} lives on"
    os.close(handle)


def test_a_fork_has_the_streams_environment_and_exit_code_of_its_own(
    server: ForkServer, module: dict[str, str], tmp_path: Path
) -> None:
    process = run(server, module, "a", "b c", cwd=tmp_path)
    output, _ = process.communicate("input", timeout=60)
    assert output == f"['a', 'b c'] marked {tmp_path} input True\n"
    assert process.returncode == 7


def test_what_is_killed_takes_its_fork_with_it(server: ForkServer, module: dict[str, str], tmp_path: Path) -> None:
    process = run(server, module, "--wait", cwd=tmp_path)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    process.wait(20)
    gone(pid)


def test_a_signal_reaches_the_fork(server: ForkServer, module: dict[str, str], tmp_path: Path) -> None:
    process = run(server, module, "--wait", cwd=tmp_path)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) != 0
    gone(pid)


def test_those_that_are_asked_for_at_once_are_each_its_own(
    server: ForkServer, module: dict[str, str], tmp_path: Path
) -> None:
    processes = [run(server, module, str(number), cwd=tmp_path) for number in range(4)]
    outputs = [process.communicate(f"input {number}", timeout=60)[0] for number, process in enumerate(processes)]
    assert outputs == [f"['{n}'] marked {tmp_path} input {n} True\n" for n in range(4)]


def test_a_fork_made_ahead_that_has_died_is_not_missed(module: dict[str, str], tmp_path: Path) -> None:
    server = ForkServer()
    run(server, module, cwd=tmp_path).communicate("", timeout=60)  # all is imported
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    deadline_s = time.monotonic() + 60
    while not (made_ahead := children.read_text().split()):
        assert time.monotonic() < deadline_s, "none is made ahead"
    for pid in made_ahead:
        os.kill(int(pid), signal.SIGKILL)
        gone(int(pid))
    output, _ = run(server, module, cwd=tmp_path).communicate("input", timeout=60)
    assert output.endswith("input True\n")
    ahead = [int(pid) for pid in children.read_text().split()]
    server.stop()
    for pid in ahead:
        gone(pid)


def test_a_question_to_python_itself_is_answered(server: ForkServer) -> None:
    asked = subprocess.run(
        [server.python, "-c", "print(6 * 7)"], capture_output=True, text=True, timeout=60, check=True
    )
    assert asked.stdout == "42\n"


def test_a_server_that_stops_takes_its_forks_with_it_and_prints_no_error(
    module: dict[str, str], tmp_path: Path
) -> None:
    server = ForkServer()
    process = run(server, module, "--wait", cwd=tmp_path)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    server.stop()
    gone(pid)
    _, error = process.communicate(timeout=20)
    assert (process.returncode, error) == (128 + signal.SIGKILL, "")


def test_what_outlives_a_killed_server_says_so_in_one_line(module: dict[str, str], tmp_path: Path) -> None:
    server = ForkServer()
    process = run(server, module, "--wait", cwd=tmp_path)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    os.kill(server.pid, signal.SIGKILL)
    assert process.wait(20) == 1
    os.kill(pid, signal.SIGKILL)  # no server is left to do it
    gone(pid)
    _, error = process.communicate(timeout=20)
    assert error == "mainstem: the fork server of Spark's Python processes was killed; start the program again\n"
    server.stop()


def test_without_a_server_python_itself_is_run(module: dict[str, str], tmp_path: Path) -> None:
    server = ForkServer()
    os.kill(server.pid, signal.SIGKILL)
    process = run(server, module, cwd=tmp_path)
    output, _ = process.communicate("", timeout=60)
    assert output.endswith("False\n")
    server.stop()
