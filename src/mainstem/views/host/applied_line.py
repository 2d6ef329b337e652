"""When a view had applied what: its positions over time, in memory, since its host started.

The line is thinned as it grows: of its older half every other entry goes. So a time is that of the first entry that
covers a position, and the truth may lie somewhat before it. Thread-safe: one lock, held for pure work only.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import Final

from mainstem.model import Position

_ENTRIES_MAX: Final = 1_024


class AppliedLine:
    """The line of one view. A position that goes back means another topic or store: the line starts afresh."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[tuple[int, Position]] = []

    def note(self, position: Position, time_ms: int) -> None:
        """The view has applied up to ``position``."""
        with self._lock:
            if self._entries and not position.covers(self._entries[-1][1]):
                self._entries.clear()
            self._entries.append((time_ms, position))
            if len(self._entries) > _ENTRIES_MAX:
                middle = len(self._entries) // 2
                self._entries[1:middle] = self._entries[1:middle:2]

    def when(self, wanted: Position) -> tuple[int, bool] | None:
        """By when the view had applied ``wanted``, and whether that is just the line's beginning; None: not yet."""
        with self._lock:
            index = bisect_left(self._entries, True, key=lambda entry: entry[1].covers(wanted))
            return None if index == len(self._entries) else (self._entries[index][0], index == 0)
