"""How long to go on trying: a moment in monotonic time, and the pauses between attempts.

Values; owned by one call.
"""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.clock import Clock

_PAUSE_FIRST_S = 0.02
_PAUSE_MAX_S = 1.0


class Deadline:
    """A moment that is ``timeout_s`` away when it is made."""

    __slots__ = ("_clock", "_end_s", "timeout_s")

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._clock = clock
        self._end_s = clock.monotonic_s() + timeout_s

    def left_s(self) -> float:
        """Seconds until the moment; 0.0 when it has passed."""
        return max(0.0, self._end_s - self._clock.monotonic_s())

    @property
    def is_over(self) -> bool:
        return self.left_s() <= 0.0


def pauses_s() -> Iterator[float]:
    """The pauses between attempts: 20 ms, doubling to one second."""
    pause_s = _PAUSE_FIRST_S
    while True:
        yield pause_s
        pause_s = min(_PAUSE_MAX_S, pause_s * 2)
