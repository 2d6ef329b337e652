"""Figures of several rounds, and their ratios against the goals, as a table or as JSON.

The load of the machine is noted before a benchmark begins. No goal is judged where other programs use more than half of
the processors: such a figure says more of the machine.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

LOAD_MAX: Final = 0.5
"""A benchmark that begins with more load is not judged."""


def machine_load() -> float:
    """The share of the processors that other programs use now, measured for a second; Linux's ``/proc/stat``."""
    begin = _processor_ticks()
    time.sleep(1)
    idle, total = (after - before for before, after in zip(begin, _processor_ticks(), strict=True))
    return 1 - idle / total


def _processor_ticks() -> tuple[int, int]:
    """Idle ones (waiting for the disk included), and all."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def judgement(*, is_met: bool, load: float) -> str:
    """What stands beside a goal: met, not met, or not judged."""
    if load > LOAD_MAX:
        return "not judged"
    return "met" if is_met else "not met"


def load_line(load: float) -> str:
    """The machine and its load before the benchmark."""
    text = f"{os.cpu_count()} cores, {load:.0%} used by other programs before"
    return text if load <= LOAD_MAX else f"{text}: over {LOAD_MAX:.0%}, so no goal is judged"


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio Mainstem : peer that is meant to be reached, ``at_most`` for times and memory. None: only shown."""

    figure: str
    unit: str
    ratio: float | None = None
    at_most: bool = False

    def is_met(self, ratio: float) -> bool | None:
        if self.ratio is None:
            return None
        return ratio <= self.ratio if self.at_most else ratio >= self.ratio


class Comparison:
    """Figures by name, each with one value a round, of Mainstem and of a peer. Rounds alternate."""

    def __init__(self, goals: Sequence[Goal], peer: str, load: float | None = None) -> None:
        """``load`` is ``machine_load()`` before the first round; by default it is looked up now."""
        self._goals = goals
        self._peer = peer
        self._load = machine_load() if load is None else load
        self._values: dict[tuple[str, str], list[float]] = {}

    def beside(self, goals: Sequence[Goal], peer: str) -> Comparison:
        """The same figures beside another peer."""
        other = Comparison(goals, peer, self._load)
        other._values = self._values
        return other

    def add(self, who: str, prefix: str, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._values.setdefault((who, f"{prefix}{name}"), []).append(value)

    def middle(self, who: str, figure: str) -> float:
        """The median of a figure's rounds."""
        return median(self._values[who, figure])

    def judgement(self, *, is_met: bool) -> str:
        """What stands beside a goal that has no row of its own."""
        return judgement(is_met=is_met, load=self._load)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each goal that has values of both."""
        rows = []
        for goal in self._goals:
            ours, theirs = (self._values.get((who, goal.figure), []) for who in ("Mainstem", self._peer))
            if not ours or not theirs:
                continue
            ratio = median(ours) / median(theirs)
            rows.append(
                {
                    "figure": f"{goal.figure}, {goal.unit}",
                    "mainstem": _spread(ours),
                    "peer": _spread(theirs),
                    "ratio": round(ratio, 2),
                    "goal": goal.ratio and f"{'≤' if goal.at_most else '≥'} {goal.ratio:g}",
                    "met": None if self._load > LOAD_MAX else goal.is_met(ratio),
                    "rounds": min(len(ours), len(theirs)),
                }
            )
        return rows

    def to_json(self) -> str:
        return json.dumps({"peer": self._peer, "load": round(self._load, 2), "rows": self.rows()}, ensure_ascii=False)

    def to_text(self) -> str:
        """The machine's load and a table: medians, with the least and the greatest of the rounds in brackets."""
        lines = [
            load_line(self._load),
            "",
            f"| what | Mainstem | {self._peer} | ratio | goal | met |",
            "|---|---|---|---|---|---|",
        ]
        for row in self.rows():
            met = {True: "met", False: "not met", None: "not judged" if row["goal"] else ""}[row["met"]]
            ours, theirs = _text(row["mainstem"]), _text(row["peer"])
            lines.append(f"| {row['figure']} | {ours} | {theirs} | {row['ratio']:.2f} | {row['goal'] or ''} | {met} |")
        return "\n".join(lines)


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "least": min(values), "greatest": max(values)}


def _text(spread: Mapping[str, float]) -> str:
    return f"{spread['median']:.4g} ({spread['least']:.3g}–{spread['greatest']:.3g})"
