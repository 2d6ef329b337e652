"""``TimeAxis``: the time from the oldest moment of a view to now, as places of a slider. Pure.

The oldest moment is the first record's time. Where the log has removed records, it is the oldest snapshot's, if there
is one: older states are refused.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mainstem.console.formats import moment

STEPS = 1_000
"""How many places the slider has; the last one is now."""
_WORDS = {"built": "Built", "snapshot": "Snapshot"}


@dataclass(frozen=True)
class TimeMark:
    """A moment on the axis: ``asks`` is what *As of* gets; ``share`` is its place from 0 to 1."""

    label: str
    asks: str
    share: float


@dataclass(frozen=True)
class TimeAxis:
    """From ``oldest_ms`` to ``now_ms``."""

    oldest_ms: int
    now_ms: int
    marks: tuple[TimeMark, ...]

    @classmethod
    def of(cls, past: Mapping[str, Any], first_record_ms: int | None, now_ms: int) -> TimeAxis:
        """The axis for the answer of ``/views/{view}/past``."""
        moments: Sequence[Mapping[str, Any]] = past["moments"]
        snapshots = [each["time_ms"] for each in moments if each["what"] == "snapshot"]
        oldest_ms = now_ms if first_record_ms is None or first_record_ms <= 0 else first_record_ms
        if not past["whole"] and snapshots:
            oldest_ms = max(oldest_ms, min(snapshots))
        oldest_ms = min(oldest_ms, now_ms)
        length_ms = max(1, now_ms - oldest_ms)
        marks = [
            TimeMark(
                f"{_WORDS.get(each['what'], each['what'])} {moment(each['time_ms'])}",
                each["position"] if each["what"] == "snapshot" else as_text(each["time_ms"]),
                min(1.0, max(0.0, (each["time_ms"] - oldest_ms) / length_ms)),
            )
            for each in moments
            if each["time_ms"] >= oldest_ms
        ]
        return cls(oldest_ms, now_ms, tuple(marks))

    def at(self, place: float) -> str:
        """The text for *As of* at a place of the slider; empty at its end, which is now."""
        if place >= STEPS:
            return ""
        return as_text(self.oldest_ms + round((self.now_ms - self.oldest_ms) * max(0.0, place) / STEPS))


def as_text(time_ms: int) -> str:
    """A time as the gateway takes it."""
    at = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"
