"""Background work: failures are logged and counted, and signal handlers may set and leave the event that stops it."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from mainstem.background import StopEvent, failed, failures

ROUNDS = 1500
PROGRAM = """
import random, signal, sys
from mainstem import background
background._LOOK_S = 0.01
randomness = random.Random(1)

class Stopped(Exception):
    pass

def leave(*_):
    raise Stopped

for number in range(int(sys.argv[1])):
    event = background.StopEvent()
    is_left = number % 2
    signal.signal(signal.SIGALRM, leave if is_left else lambda *_, event=event: event.set())
    try:
        signal.setitimer(signal.ITIMER_REAL, randomness.uniform(1e-6, 2e-5))
        assert event.wait() and not is_left
    except Stopped:
        assert is_left and not event.is_set()
    event.set()
    assert event.wait()
print("done")
"""


def test_a_failure_is_logged_with_its_traceback_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    before = failures().get("a test", 0)
    failed("a test", ValueError("unforeseen"))
    assert failures()["a test"] == before + 1
    assert "unforeseen" in caplog.text
    assert caplog.records[-1].exc_info is not None


def test_a_signal_at_any_moment_of_the_wait_leaves_it_whole() -> None:
    """A handler that sets it, and one that raises, each at random moments; with ``threading.Event`` this hangs."""
    argv = [sys.executable, "-c", PROGRAM, str(ROUNDS)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_it_wakes_all_who_wait_and_who_come_later() -> None:
    event = StopEvent()
    found: list[bool] = []
    waiting = [threading.Thread(target=lambda: found.append(event.wait(60))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    event.set()
    for thread in waiting:
        thread.join(60)
    assert (found, event.wait(), event.is_set()) == ([True] * 3, True, True)


def test_a_wait_that_is_over_says_that_nothing_was_set() -> None:
    event = StopEvent()
    assert (event.wait(0.01), event.wait(0), event.is_set()) == (False, False, False)
