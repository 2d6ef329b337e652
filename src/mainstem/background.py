"""Background work that must not die in silence: what failed is logged, counted, and tried again by whoever runs it.

``failed`` is called by a task or thread that goes on after an error that nobody foresaw. Thread-safe.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter

_LOGGER = logging.getLogger("mainstem.background")
_LOCK = threading.Lock()
_FAILURES: Counter[str] = Counter()


def failed(task: str, error: BaseException) -> None:
    """Note that ``task`` failed with ``error``: its traceback goes to the log of the process."""
    with _LOCK:
        _FAILURES[task] += 1
    _LOGGER.error("background task %r failed and is tried again: %s", task, error, exc_info=error)


def failures() -> dict[str, int]:
    """How often each task of this process has failed."""
    with _LOCK:
        return dict(_FAILURES)
