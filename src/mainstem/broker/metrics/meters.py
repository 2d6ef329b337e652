"""What is counted and measured while requests are served; everything else is looked up when somebody asks.

Made for the hot path: an observation is one bisection and two additions, a count one addition. No locks: the event loop
only. Numbers begin at zero with the process, as Prometheus expects.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

# From a tenth of a millisecond to a long poll.
_SECONDS: Final = tuple(digits * scale for scale in (0.0001, 0.001, 0.01, 0.1, 1.0) for digits in (1, 2.5, 5))


class Histogram:
    """How often values fell between bounds: ``counts`` has one more than ``bounds``, for what is above all of them."""

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
        """A request's answer is ready, so long after the request was begun."""
        histogram = self.request_seconds.get(api_key)
        if histogram is None:
            histogram = self.request_seconds[api_key] = Histogram()
        histogram.observe(seconds)

    def forget(self, topic: str) -> None:
        """The topic is deleted; a new one of that name begins anew."""
        del self.appended_bytes[topic], self.fetched_bytes[topic]

    def flushed(self, seconds: float, *, failed: bool) -> None:
        """A flush of one partition is over."""
        self.flush_seconds.observe(seconds)
        self.flush_failures += failed
