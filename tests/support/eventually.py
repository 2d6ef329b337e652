"""Waiting in a test for what another thread or process does: one helper, with one message when it does not happen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
_PAUSE_S = 0.02


def eventually(condition: Callable[[], _T], what: str, within_s: float = 60, pause_s: float = _PAUSE_S) -> _T:
    """Call ``condition`` until it returns something true, and return that.

    ``within_s`` is generous on purpose: it bounds a test that hangs, and says nothing about speed. ``pause_s`` is the
    time between two calls: longer where each call starts a program, which would slow down what it waits for. Raises
    AssertionError, which names ``what`` and the last value, when the time is up.
    """
    pause = threading.Event()
    end = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < end, f"{what}: not within {within_s:g} s; the last value was {found!r}"
        pause.wait(pause_s)
    return found
