"""Failures of background work: each is logged and counted, and the caller tries again.

A task or thread that goes on after an unexpected error calls ``failed``. Thread-safe.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter

_LOG = logging.getLogger("mainstem.background")
_LOCK = threading.Lock()
_FAILURES: Counter[str] = Counter()


def failed(task: str, error: BaseException) -> None:
    """Note that ``task`` failed with ``error``: its traceback goes to the log of the process."""
    with _LOCK:
        _FAILURES[task] += 1
    _LOG.error("background task %r failed and is tried again: %s", task, error, exc_info=error)


def failures() -> dict[str, int]:
    """How often each task of this process has failed."""
    with _LOCK:
        return dict(_FAILURES)
