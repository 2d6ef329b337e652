"""Chooses where the next sync runs: on the event loop while the disk is fast, in a thread after it was slow.

Passing a sync to a thread and back often takes longer than a disk needs to sync a few kilobytes. So a small sync runs
on the event loop, and other requests wait no longer than they would for the thread. If a sync takes longer than
``SLOW_S``, syncs run in threads for twice that time. The pause doubles each time this happens again soon: a disk that
is always slow blocks the loop for a moment in ten seconds.

Pure; owned by the event loop.
"""

from __future__ import annotations

from typing import Final

SLOW_S: Final = 0.001
_PAUSE_FACTOR: Final = 2
_PAUSE_S_MAX: Final = 10.0
_QUICK_IN_A_ROW: Final = 16
"""After so many fast syncs a slow one counts as an accident, and the next pause is short again."""


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
        """Record the duration of a sync on the loop that has just ended."""
        if duration_s <= SLOW_S:
            self._quick_in_a_row += 1
            return
        repeated_s = 2 * self._pause_s if self._quick_in_a_row < _QUICK_IN_A_ROW else 0.0
        self._pause_s = min(_PAUSE_S_MAX, max(_PAUSE_FACTOR * duration_s, repeated_s))
        self._not_before_s = now_s + self._pause_s
        self._quick_in_a_row = 0
