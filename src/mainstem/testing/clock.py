"""A clock that moves only when a test advances it, so that tests neither wait nor depend on the day.

Owned by the test's thread; reading it from others is safe.
"""

from __future__ import annotations


class ManualClock:
    """Wall time and monotonic time, moved together by ``advance``; ``set_time_ms`` makes the wall clock jump."""

    def __init__(self, time_ms: int = 1_700_000_000_000) -> None:
        self._time_ms = time_ms
        self._monotonic_s = 0.0

    def time_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._time_ms

    def monotonic_s(self) -> float:
        """Seconds since the clock was made."""
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        """Let time pass on both hands."""
        if seconds < 0:
            raise ValueError("time does not pass backwards; set_time_ms makes the wall clock jump")
        self._time_ms += round(seconds * 1000)
        self._monotonic_s += seconds

    def set_time_ms(self, time_ms: int) -> None:
        """Let the wall clock jump, either way, as an operator or NTP would. Monotonic time does not move."""
        self._time_ms = time_ms
