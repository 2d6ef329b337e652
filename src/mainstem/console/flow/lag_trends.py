"""``LagTrends``: which lags rise from one look to the next. Used by one page."""

from __future__ import annotations

from collections.abc import Mapping

_RISES_MIN = 3


class LagTrends:
    """The lag of each node. It rises once it has grown in three looks after each other."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._rises: dict[str, int] = {}

    def look(self, lags: Mapping[str, int | None]) -> frozenset[str]:
        """The nodes whose lag rises."""
        known = {node: lag for node, lag in lags.items() if lag is not None}
        self._rises = {
            node: self._rises.get(node, 0) + 1
            for node, lag in known.items()
            if node in self._last and (lag > self._last[node] or (lag == self._last[node] > 0 and self._is_risen(node)))
        }
        self._last = known
        return frozenset(node for node in self._rises if self._is_risen(node))

    def _is_risen(self, node: str) -> bool:
        return self._rises.get(node, 0) >= _RISES_MIN
