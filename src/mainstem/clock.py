"""The clock port: all time comes through it, so that tests can set the time.

``SystemClock`` is the real clock. ``mainstem.testing.ManualClock`` moves only when a test advances it.
"""

from __future__ import annotations

import datetime
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time and monotonic time."""

    def time_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump either way."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment; never goes back. For time-outs and durations."""
        ...


class SystemClock:
    """The machine's own clock. Stateless; safe from any thread."""

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


def utc_time(time_ms: int) -> str:
    """A time as commands and requests take it: ``2026-01-31T12:00:00Z``; milliseconds where no calendar has it."""
    try:
        at = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):  # any client may give a record any time
        return f"{time_ms} ms"
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
