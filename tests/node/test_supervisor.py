"""The supervisor: start, restart, ordered stop, and no orphans."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from mainstem.errors import InputError
from mainstem.node.supervisor import METRICS_FILE, Supervisor
from tests.node.fake_roles import UNTIL_PARENT_IS_GONE, role
from tests.support.descriptors import is_readable

ROOT = Path(__file__).resolve().parents[2]
RESTARTS = 'mainstem_process_restarts_total{process="fake"}'


class Reports:
    """What the supervisor said; ``wait_for`` blocks until a line with the words came."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, line: str) -> None:
        with self._changed:
            self.lines.append(line)
            self._changed.notify_all()

    def wait_for(self, words: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: any(words in line for line in self.lines), 20), self.lines


def test_a_start_that_fails_is_raised_and_not_retried(tmp_path: Path) -> None:
    reports = Reports()
    with Supervisor(tmp_path, reports) as supervisor, pytest.raises(InputError, match="no luck"):
        supervisor.start(role("print('error: no luck'); raise SystemExit(1)"))
    assert reports.lines == []


def test_a_process_that_dies_later_is_started_again(tmp_path: Path) -> None:
    reports = Reports()
    with Supervisor(tmp_path, reports) as supervisor:
        first = int(supervisor.start(role(UNTIL_PARENT_IS_GONE)))
        os.kill(first, signal.SIGKILL)
        reports.wait_for("fake is ready again")
        assert supervisor.pid("fake") != first
        page = (tmp_path / METRICS_FILE).read_text()
    assert f"{RESTARTS} 1\n" in page
    assert 'mainstem_process_last_end_seconds{process="fake",end="SIGKILL"} ' in page
    assert "fake ended with SIGKILL; it starts again in 0.2 s" in reports.lines[0]


def test_a_process_that_cannot_be_started_just_now_is_tried_again(tmp_path: Path) -> None:
    program, away, reports = tmp_path / "program", tmp_path / "away", Reports()
    program.write_text(f"#!{sys.executable} -S\n{UNTIL_PARENT_IS_GONE}")
    program.chmod(0o700)
    with Supervisor(tmp_path, reports) as supervisor:
        first = int(supervisor.start(replace(role(""), argv=(str(program),))))
        program.rename(away)
        os.kill(first, signal.SIGKILL)
        reports.wait_for("fake cannot be started: ")
        away.rename(program)
        reports.wait_for("fake is ready again")


def test_a_process_that_says_it_cannot_work_is_not_started_again(tmp_path: Path) -> None:
    program = """
    import sys
    print("ready: fake", flush=True)
    print("error: no such setting", file=sys.stderr, flush=True)
    raise SystemExit({code})
    """
    reports = Reports()
    with Supervisor(tmp_path, reports) as supervisor:
        supervisor.start(role(program.format(code=1)))
        with pytest.raises(InputError, match="no such setting"):
            supervisor.wait()
        assert f"{RESTARTS} 0\n" in (tmp_path / METRICS_FILE).read_text()
    assert "is not started again: no such setting" in reports.lines[0]


@pytest.mark.parametrize("end", ["raise SystemExit(4)", "raise ValueError('a defect')"])
def test_a_process_that_this_machine_or_a_defect_ended_is_started_again(tmp_path: Path, end: str) -> None:
    program = f"""
    import os, sys
    again = os.path.exists({str(tmp_path / "again")!r})
    open({str(tmp_path / "again")!r}, "w").close()
    print("ready: fake", flush=True)
    if not again:
        print("error: no room", file=sys.stderr, flush=True)
        {end}
    sys.stdin.read()
    """
    reports = Reports()
    with Supervisor(tmp_path, reports) as supervisor:
        supervisor.start(role(program))
        reports.wait_for("fake is ready again")


def test_processes_stop_in_the_order_of_their_ranks(tmp_path: Path) -> None:
    program = """
    import signal, sys
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    print("ready: fake", flush=True)
    signal.sigwait([signal.SIGTERM])
    with open({path!r}, "a") as file:
        file.write(sys.argv[1])
    """.format(path=str(tmp_path / "order"))
    with Supervisor(tmp_path, Reports()) as supervisor:
        for name, rank in (("log", 2), ("views", 1), ("gateway", 0)):
            one = role(program.replace("sys.argv[1]", repr(name + " ")), name, stop_rank=rank)
            supervisor.start(one)
    assert (tmp_path / "order").read_text().split() == ["gateway", "views", "log"]


def test_a_process_that_does_not_stop_is_killed_after_its_grace_time(tmp_path: Path) -> None:
    program = "import signal, sys; signal.signal(15, signal.SIG_IGN); print('ready: fake', flush=True); signal.pause()"
    reports = Reports()
    with Supervisor(tmp_path, reports) as supervisor:
        supervisor.start(role(program, grace_s=0.1))
    assert reports.lines == ["fake did not stop within 0.1 s; it is killed"]


def test_a_killed_supervisor_leaves_no_orphans(tmp_path: Path) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from mainstem.node.supervisor import Supervisor
from tests.node.fake_roles import UNTIL_PARENT_IS_GONE, role
from tests.support.descriptors import is_readable
supervisor = Supervisor(Path({str(tmp_path)!r}), print)
print(supervisor.start(role(UNTIL_PARENT_IS_GONE)), flush=True)
supervisor.wait()
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child_pid = int(parent.stdout.readline())
    child_end = os.pidfd_open(child_pid)
    parent.kill()
    parent.communicate(timeout=10)
    assert is_readable(child_end, 10), "the child still runs"
    os.close(child_end)
