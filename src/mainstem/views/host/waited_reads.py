"""The reads that had to wait for a view: whose, for what, for how long. The newest of all views of a host, in memory.

A read waited for a record when it asked for a position past the record, and the view did not cover the record when the
read came. Thread-safe: one lock, held for pure work only.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from mainstem.clock import Clock
from mainstem.model import Position
from mainstem.views.status import Waited

_READS_MAX: Final = 1_024
_READERS_SHOWN: Final = 10


@dataclass(slots=True)
class _Read:
    """One read. ``covered``: what its view covered when it came; ``waited_s`` is None while it waits."""

    view: str
    reader: str
    at_least: Position
    covered: Position
    came_s: float
    waited_s: float | None = None

    def is_for(self, view: str, record: Position) -> bool:
        """Whether it waited for the record that lies just before ``record``."""
        return view == self.view and any(
            self.at_least.get(tp, 0) >= offset > self.covered.get(tp, 0) for tp, offset in record.items()
        )


class WaitedReads:
    """The newest reads that waited, and those that wait now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._reads: deque[_Read] = deque(maxlen=_READS_MAX)

    @contextmanager
    def waiting(self, view: str, reader: str, at_least: Position, covered: Position) -> Iterator[None]:
        """A read waits as long as the block runs."""
        read = _Read(view, reader, at_least, covered, self._clock.monotonic_s())
        with self._lock:
            self._reads.append(read)
        try:
            yield
        finally:
            read.waited_s = self._clock.monotonic_s() - read.came_s

    def of(self, view: str, record: Position) -> Waited:
        """The reads that waited for ``view`` to cover the record that lies just before ``record``."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            found = [each for each in self._reads if each.is_for(view, record)]
        longest_s = max((now_s - each.came_s if each.waited_s is None else each.waited_s for each in found), default=0)
        readers = dict.fromkeys(each.reader for each in reversed(found) if each.reader)
        waiting = sum(each.waited_s is None for each in found)
        return Waited(view, len(found), waiting, round(longest_s * 1_000), tuple(readers)[:_READERS_SHOWN])
