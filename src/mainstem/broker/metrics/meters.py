"""Counters and histograms updated while requests are served; all other metrics are computed on each scrape.

Built for the hot path: an observation is one bisection and two additions, a count is one addition. No locks: the event
loop only. Numbers begin at zero with the process, as Prometheus expects.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

# From a tenth of a millisecond to a long poll.
_SECONDS: Final = tuple(digits * scale for scale in (0.0001, 0.001, 0.01, 0.1, 1.0) for digits in (1, 2.5, 5))


class Histogram:
    """Counts of values between bounds: ``counts`` has one entry more than ``bounds``, for values above all of them."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = _SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Meters:
    """The counts of one node. ``request_seconds`` are by API key, topics' counts by name."""

    def __init__(self) -> None:
        self.request_seconds: dict[int, Histogram] = {}
        self.flush_seconds = Histogram()
        self.flush_failures = 0
        self.connections_accepted = 0
        self.connections_refused = 0
        self.chore_failures: Counter[str] = Counter()
        self.appended_bytes: Counter[str] = Counter()
        self.fetched_bytes: Counter[str] = Counter()

    def answered(self, api_key: int, seconds: float) -> None:
        """Record an answered request and the time since it was begun."""
        histogram = self.request_seconds.get(api_key)
        if histogram is None:
            histogram = self.request_seconds[api_key] = Histogram()
        histogram.observe(seconds)

    def forget(self, topic: str) -> None:
        """Drop the counts of a deleted topic; a new topic of that name begins at zero."""
        del self.appended_bytes[topic], self.fetched_bytes[topic]

    def flushed(self, seconds: float, *, failed: bool) -> None:
        """Record a finished flush of one partition."""
        self.flush_seconds.observe(seconds)
        self.flush_failures += failed
