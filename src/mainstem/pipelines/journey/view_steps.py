"""The views on the way of a record: whether each has applied it. Pure, over the views' statuses as documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mainstem.model import Position
from mainstem.pipelines.journey.steps import Arrival
from mainstem.pipelines.journey.waits import transactions_wait, view_wait

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ViewStep:
    """A view over a topic on the way. ``applied_ms``: by when it had applied all before ``until``.

    ``is_before``: it was some time before ``applied_ms``, which is as far back as the view host remembers.
    """

    view: str
    kind: str
    topic: str
    depth: int
    start: Position
    until: Position
    is_applied: bool
    applied_ms: int | None = None
    is_before: bool = False
    waits_for: str = ""
    note: str = ""
    letters: str = ""
    """The topic of the view's dead letters, where it has some."""
    waited: Document | None = None
    """The reads that waited for it (``Waited``); None when there were none."""

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        return {
            "view": self.view,
            "kind": self.kind,
            "topic": self.topic,
            "depth": self.depth,
            "until": str(self.until),
            "state": "applied" if self.is_applied else "waiting",
            "applied_ms": self.applied_ms,
            "before": self.is_before,
            "waited": self.waited,
            "waits_for": self.waits_for or None,
            "note": self.note or None,
        }


def view_steps(arrivals: Iterable[Arrival], statuses: Iterable[Document]) -> list[ViewStep]:
    """A step for each view over each topic that the record, or what came of it, is in or should come to."""
    by_topic: dict[str, list[Document]] = {}
    for status in statuses:
        by_topic.setdefault(str(status["topic"]), []).append(status)
    return [_step(arrival, status) for arrival in arrivals for status in by_topic.get(arrival.topic, ())]


def _step(arrival: Arrival, status: Document) -> ViewStep:
    until = arrival.until or Position()
    step = ViewStep(str(status["name"]), str(status["kind"]), arrival.topic, arrival.depth, arrival.start, until, False)
    if arrival.until is None:
        own = view_wait(status, until) if status["state"] not in ("live", "catching up") else ""
        return replace(step, waits_for="; ".join(filter(None, (arrival.waits_for, own))))
    if Position.parse(status["position"]).covers(until):
        well = status["state"] in ("live", "catching up")
        note = "" if well else f"it does not answer now: {view_wait(status, until)}"
        letters = str(status["dead_letter_topic"]) if status.get("dead_letters") else ""
        return replace(step, is_applied=True, note=note, letters=letters)
    held = transactions_wait(arrival.transactions)
    own = view_wait(status, until)
    return replace(step, waits_for=f"{held}; {own}" if held else own)
