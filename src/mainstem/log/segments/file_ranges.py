"""A set of byte ranges of one file that grows by union. Which part of a segment has been checked is kept in one.

Invariant: the ranges are sorted, do not overlap and do not touch. Pure data; one owner.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class FileRanges:
    """Half-open ranges [start, end)."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Union with [start, end)."""
        if start >= end:
            return
        if self._ends and start == self._ends[-1]:  # the common case: appended at the end, or read on
            self._ends[-1] = end
            return
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def covers(self, start: int, end: int) -> bool:
        """Whether all of [start, end) is in the set."""
        slot = bisect_right(self._starts, start) - 1
        return slot >= 0 and end <= self._ends[slot]

    def cut(self, end: int) -> None:
        """Take away everything from ``end`` on."""
        keep = bisect_left(self._starts, end)
        del self._starts[keep:], self._ends[keep:]
        if self._ends:
            self._ends[-1] = min(self._ends[-1], end)
