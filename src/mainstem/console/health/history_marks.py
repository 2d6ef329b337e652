"""Which marks the charts over time show, and their labels. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

MARKS_MAX: Final = 50
_STEPS: Final = 120  # marks closer than this part of the span are one
_LABELS: Final = 24  # labels closer than this part of the span would cover each other on a phone
_LOG: Final = "log"


class ShownMarks(NamedTuple):
    """The lines as milliseconds, label, and whether it has room; oldest first. How many events are left out."""

    lines: list[tuple[float, str, bool]]
    left_out: int


def marks_of(marks: Sequence[Mapping[str, Any]], pipeline: str | None) -> list[Mapping[str, Any]]:
    """Those of the log and of one pipeline; all for None."""
    return [mark for mark in marks if pipeline is None or mark["name"] in ("", pipeline)]


def shown_marks(marks: Sequence[Mapping[str, Any]], span_ms: float) -> ShownMarks:
    """The marks as lines; events that happened together are one line.

    With more than ``MARKS_MAX`` lines, restarts are left out, and then all.
    """
    lines = _lines(marks, span_ms)
    if len(lines) <= MARKS_MAX:
        return ShownMarks(lines, 0)
    deployments = [mark for mark in marks if mark["event"] != "restarted"]
    lines = _lines(deployments, span_ms)
    if len(lines) <= MARKS_MAX:
        return ShownMarks(lines, len(marks) - len(deployments))
    return ShownMarks([], len(marks))


def _lines(marks: Sequence[Mapping[str, Any]], span_ms: float) -> list[tuple[float, str, bool]]:
    groups: list[list[Mapping[str, Any]]] = []
    for mark in marks:
        if groups and mark["at_ms"] - groups[-1][0]["at_ms"] <= span_ms / _STEPS:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    lines, free_ms = [], 0.0
    for group in groups:
        at_ms = group[0]["at_ms"]
        has_room = at_ms >= free_ms
        lines.append((at_ms, _label(group), has_room))
        free_ms = at_ms + span_ms / _LABELS if has_room else free_ms
    return lines


def _label(group: Sequence[Mapping[str, Any]]) -> str:
    """``carrier-delays started``; ``log, 3 pipelines started``; ``4 events`` when several things happened."""
    events = {mark["event"] for mark in group}
    names = list(dict.fromkeys(mark["name"] or _LOG for mark in group))
    if len(events) > 1:
        return f"{names[0]}: {len(group)} events" if len(names) == 1 else f"{len(group)} events"
    pipelines = [name for name in names if name != _LOG]
    words = [_LOG] * (_LOG in names) + (
        pipelines if len(pipelines) == 1 else [f"{len(pipelines)} pipelines"][: len(pipelines)]
    )
    return f"{', '.join(words)} {events.pop()}"
