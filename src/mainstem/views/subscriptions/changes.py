"""A count of changes that threads can wait on: an applier moved, a pipeline made progress, a view's state changed."""

from __future__ import annotations

import threading


class Changes:
    """A counter of changes that only grows. To miss none: read ``count``, then the state, then wait for more."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    @property
    def count(self) -> int:
        """How many changes there have been."""
        return self._count

    def notify(self) -> None:
        """Something changed."""
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def wait(self, seen: int, timeout_s: float) -> None:
        """Return when there are more changes than ``seen``, or after ``timeout_s``."""
        with self._condition:
            self._condition.wait_for(lambda: self._count > seen, timeout_s)
