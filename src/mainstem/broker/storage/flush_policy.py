"""Where the next sync runs: on the event loop while the disk is quick, in a thread of its own when it was slow.

Handing a sync to a thread and its end back to the loop takes longer than many a disk takes to sync a few kilobytes. So
a small sync runs where it is asked for, and everyone who comes meanwhile waits no longer than for the thread; until one
of them takes longer than ``SLOW_S``. Then syncs go to the threads for twice as long as that one took, and twice that
each time when it happens again soon: a disk that is always slow holds the loop up for a moment in ten seconds.

Pure; owned by the event loop.
"""

from __future__ import annotations

from typing import Final

SLOW_S: Final = 0.001
_PAUSE_FACTOR: Final = 2
_PAUSE_S_MAX: Final = 10.0
_QUICK_IN_A_ROW: Final = 16
"""After so many quick ones a slow one is an accident, and the next pause is short again."""


class FlushExecutorPolicy:
    """``is_quick`` before a sync, ``ran`` after one that ran on the loop. Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self._not_before_s = 0.0
        self._pause_s = 0.0
        self._quick_in_a_row = 0

    def is_quick(self, now_s: float) -> bool:
        """Whether a small sync may run on the loop now."""
        return now_s >= self._not_before_s

    def ran(self, duration_s: float, now_s: float) -> None:
        """A sync on the loop took so long, and has just ended."""
        if duration_s <= SLOW_S:
            self._quick_in_a_row += 1
            return
        repeated_s = 2 * self._pause_s if self._quick_in_a_row < _QUICK_IN_A_ROW else 0.0
        self._pause_s = min(_PAUSE_S_MAX, max(_PAUSE_FACTOR * duration_s, repeated_s))
        self._not_before_s = now_s + self._pause_s
        self._quick_in_a_row = 0
