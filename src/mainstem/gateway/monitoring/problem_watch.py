"""``ProblemWatch``: the problems of this moment, each with the time since when it lasts.

It gets every snapshot. A lag rises when its least value in each of five minutes in a row is above the one of the minute
before. Dead letters are new for an hour. What it remembers is bounded by the series that it sees. Used by one thread;
``current`` may be called from any.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from mainstem.gateway.monitoring.problem_rules import Symptom, symptoms
from mainstem.gateway.monitoring.snapshots import Snapshot

PROBLEMS_MAX: Final = 200
_MINUTES: Final = 5
_HOUR_MS: Final = 3_600_000
_STEPS_MAX: Final = 720

Before = Callable[[str], float | None]
"""The oldest value of a series in the last hour, as far as the history has it."""


@dataclass(frozen=True, slots=True)
class CurrentProblem:
    """A symptom that lasts since ``since_ms``."""

    symptom: Symptom
    since_ms: int


class ProblemWatch:
    """The problems of one node."""

    def __init__(self, before: Before) -> None:
        self._before = before
        self._since_ms: dict[tuple[str, str], int] = {}
        self._lags: dict[str, _Minutes] = {}
        self._letters: dict[str, deque[tuple[int, float]]] = {}
        self._current: tuple[CurrentProblem, ...] = ()

    @property
    def current(self) -> tuple[CurrentProblem, ...]:
        """Those of the last snapshot; the longest-lasting first."""
        return self._current

    def look(self, snapshot: Snapshot, values: Mapping[str, float]) -> None:
        """Judge a snapshot and the values of its series."""
        found = list(symptoms(snapshot, self._rising(snapshot.at_ms, values), self._new_letters(snapshot, values)))
        before = self._since_ms
        self._since_ms = {
            (each.rule, each.subject): before.get((each.rule, each.subject), snapshot.at_ms) for each in found
        }
        problems = [CurrentProblem(each, self._since_ms[each.rule, each.subject]) for each in found]
        lasting = [each for each in problems if snapshot.at_ms - each.since_ms >= each.symptom.grace_s * 1000]
        self._current = tuple(sorted(lasting, key=lambda each: each.since_ms))

    def _rising(self, at_ms: int, values: Mapping[str, float]) -> dict[str, float]:
        lags = {name: value for name, value in values.items() if name.endswith("/lag")}
        self._lags = {name: self._lags.get(name) or _Minutes() for name in lags}
        return {name: lag for name, lag in lags.items() if self._lags[name].rises(at_ms, lag)}

    def _new_letters(self, snapshot: Snapshot, values: Mapping[str, float]) -> dict[str, float]:
        counts = {name: value for name, value in values.items() if name.endswith("/dead_letters")}
        new: dict[str, float] = {}
        for name in self._letters.keys() - counts.keys():
            if snapshot.views is not None and snapshot.pipelines is not None:
                del self._letters[name]
        for name, count in counts.items():
            seen = self._letters.get(name)
            if seen is None:
                earlier = self._before(name) if count else None
                first = count if earlier is None else min(earlier, count)
                seen = self._letters[name] = deque([(snapshot.at_ms, first)])
            if count < seen[-1][1]:  # the view was rebuilt, or the topic deleted
                seen.clear()
            if not seen or count > seen[-1][1]:
                seen.append((snapshot.at_ms, count))
            while len(seen) > 1 and (seen[1][0] <= snapshot.at_ms - _HOUR_MS or len(seen) > _STEPS_MAX):
                seen.popleft()
            if seen[-1][1] > seen[0][1]:
                new[name] = seen[-1][1] - seen[0][1]
        return new


class _Minutes:
    """The least value of each of the last minutes."""

    __slots__ = ("_least", "_minute")

    def __init__(self) -> None:
        self._minute = -1
        self._least: deque[float] = deque(maxlen=_MINUTES + 1)

    def rises(self, at_ms: int, value: float) -> bool:
        """Note a value; whether each of five minutes ended above the one before it."""
        minute = at_ms // 60_000
        if minute != self._minute:
            if minute != self._minute + 1:
                self._least.clear()
            self._minute = minute
            self._least.append(value)
        else:
            self._least[-1] = min(self._least[-1], value)
        least = list(self._least)
        return len(least) > _MINUTES and all(a < b for a, b in pairwise(least))
