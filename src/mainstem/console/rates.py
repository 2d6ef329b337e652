"""``Rates``: how fast counters grow, from one look to the next. Used by one page."""

from __future__ import annotations

from collections.abc import Mapping

_OLD_WEIGHT = 0.4


class Rates:
    """The rates of counters. A counter that fell was reset; its rate is unknown until the next sample."""

    def __init__(self) -> None:
        self._at_s: float | None = None
        self._totals: dict[str, int] = {}
        self._rates: dict[str, float] = {}

    def look(self, totals: Mapping[str, int], now_s: float) -> Mapping[str, float | None]:
        """The rate of each counter, a second; None for one that is new. Smoothed over a few looks."""
        passed_s = 0.0 if self._at_s is None else now_s - self._at_s
        rates: dict[str, float] = {}
        for name, total in totals.items():
            before = self._totals.get(name)
            if before is None or total < before or passed_s <= 0:
                continue
            fresh = (total - before) / passed_s
            old = self._rates.get(name)
            smooth = fresh if old is None else _OLD_WEIGHT * old + (1 - _OLD_WEIGHT) * fresh
            rates[name] = 0.0 if smooth < 0.05 else smooth
        self._at_s, self._totals, self._rates = now_s, dict(totals), rates
        return {name: rates.get(name) for name in totals}
