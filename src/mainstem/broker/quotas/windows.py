"""Recent use: a rate over sliding windows, and a bucket of tokens. Kafka's arithmetic; the caller gives the time.

``WindowedRate`` looks back over ``count`` windows; at the beginning, when there is less to look back on, it counts as
if all but the first had passed without anything. ``TokenBucket`` fills with the limit's rate, holds as much as all
windows bring, and may be emptied below nothing once.
"""

from __future__ import annotations

from collections import deque


class WindowedRate:
    """An amount by second."""

    __slots__ = ("_count", "_samples", "_size_s")

    def __init__(self, count: int, size_s: float) -> None:
        self._count = count
        self._size_s = size_s
        self._samples: deque[list[float]] = deque()  # [begin in seconds, amount]

    def record(self, amount: float, now_s: float) -> None:
        """Add to what there was."""
        if not self._samples or now_s - self._samples[-1][0] >= self._size_s:
            self._samples.append([now_s, 0.0])
        self._samples[-1][1] += amount

    def wait_s(self, limit: float, now_s: float) -> float:
        """How long nothing may be added until the rate is back at ``limit``; 0 while it is below."""
        horizon_s = now_s - self._count * self._size_s
        while self._samples and self._samples[0][0] <= horizon_s:
            self._samples.popleft()
        if not self._samples:
            return 0.0
        elapsed_s = now_s - self._samples[0][0]
        whole = int(elapsed_s / self._size_s)
        elapsed_s += max(0, self._count - 1 - whole) * self._size_s
        rate = sum(amount for _, amount in self._samples) / elapsed_s if elapsed_s else float("inf")
        return (rate - limit) / limit * elapsed_s if rate > limit else 0.0

    def is_idle(self, now_s: float) -> bool:
        """Whether there is nothing left to look back on."""
        return not self._samples or self._samples[-1][0] <= now_s - self._count * self._size_s


class TokenBucket:
    """Tokens that accrue with time and are spent by use."""

    __slots__ = ("_filled_s", "_tokens", "_windows_s")

    def __init__(self, count: int, size_s: float, limit: float, now_s: float) -> None:
        self._windows_s = count * size_s
        self._tokens = self._windows_s * limit
        self._filled_s = now_s

    def wait_s(self, limit: float, now_s: float) -> float:
        """How long until there is a token again; 0 while there are."""
        self._tokens = min(self._windows_s * limit, self._tokens + (now_s - self._filled_s) * limit)
        self._filled_s = now_s
        return -self._tokens / limit if self._tokens < 0 else 0.0

    def take(self, amount: float) -> None:
        """Use tokens up, also those that are not there yet."""
        self._tokens -= amount
