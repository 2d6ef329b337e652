"""Background work: its failures are logged and counted, and ``StopEvent`` stops it.

A task or thread that goes on after an unexpected error calls ``failed``. Thread-safe.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from queue import Empty, SimpleQueue

_LOG = logging.getLogger("mainstem.background")
_LOCK = threading.Lock()
_FAILURES: Counter[str] = Counter()
_LOOK_S = 0.5
"""A signal that comes just before a thread blocks does not wake it: its handler runs at the next look."""


def failed(task: str, error: BaseException) -> None:
    """Note that ``task`` failed with ``error``: its traceback goes to the log of the process."""
    with _LOCK:
        _FAILURES[task] += 1
    _LOG.error("background task %r failed and is tried again: %s", task, error, exc_info=error)


def failures() -> dict[str, int]:
    """How often each task of this process has failed."""
    with _LOCK:
        return dict(_FAILURES)


class StopEvent:
    """An event that a signal handler may set, and whose wait a signal handler may leave by an exception.

    ``threading.Event`` allows neither. Its wait holds a lock for a moment: a handler that sets the event in that moment
    waits for a lock of its own thread for ever, and one that raises there can leave the lock held.

    Set once, never cleared. Safe from any thread and any signal handler.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: SimpleQueue[None] = SimpleQueue()  # its operations may be interrupted anywhere

    def set(self) -> None:
        """Wake all who wait, now and later."""
        self._is_set = True
        self._wakes.put(None)

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until it is set, or for ``timeout_s``; return whether it is set."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_set:
            left_s = _LOOK_S if end_s is None else min(_LOOK_S, end_s - time.monotonic())
            if left_s <= 0:
                break
            try:
                self._wakes.get(timeout=left_s)
            except Empty:
                continue
            self._wakes.put(None)  # for the next who waits
        return self._is_set
