"""Figures of several rounds, and their ratios against the goals, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


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

    def __init__(self, goals: Sequence[Goal], peer: str) -> None:
        self._goals = goals
        self._peer = peer
        self._values: dict[tuple[str, str], list[float]] = {}

    def add(self, who: str, prefix: str, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._values.setdefault((who, f"{prefix}{name}"), []).append(value)

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
                    "met": goal.is_met(ratio),
                    "rounds": min(len(ours), len(theirs)),
                }
            )
        return rows

    def to_json(self) -> str:
        return json.dumps({"peer": self._peer, "rows": self.rows()}, ensure_ascii=False)

    def to_text(self) -> str:
        """A table: medians, with the least and the greatest of the rounds in brackets."""
        lines = [f"| what | Mainstem | {self._peer} | ratio | goal | met |", "|---|---|---|---|---|---|"]
        for row in self.rows():
            met = {True: "yes", False: "no", None: ""}[row["met"]]
            ours, theirs = _text(row["mainstem"]), _text(row["peer"])
            lines.append(f"| {row['figure']} | {ours} | {theirs} | {row['ratio']:.2f} | {row['goal'] or ''} | {met} |")
        return "\n".join(lines)


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "least": min(values), "greatest": max(values)}


def _text(spread: Mapping[str, float]) -> str:
    return f"{spread['median']:.4g} ({spread['least']:.3g}–{spread['greatest']:.3g})"
