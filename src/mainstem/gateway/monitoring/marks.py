"""``Marks``: the starts of the log and the starts and changes of pipelines, for charts over time.

The history holds numbers only, so a mark comes from elsewhere: a start of the log process is where its uptime in the
history begins again, and the rest are entries of the pipelines' logs. Thread-safe.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mainstem.client.log import Log
from mainstem.gateway.monitoring.history import History, Point
from mainstem.pipelines.control.run_log import RunEvent, RunLogs

MARKS_MAX: Final = 500
_EVENTS: Final = frozenset({RunEvent.STARTED, RunEvent.RESTARTED, RunEvent.CHANGED, RunEvent.REBUILT})
_UPTIME: Final = "node/uptime_s"
_SAME_START_MS: Final = 120_000  # the mean of a minute with a restart in it lies between both uptimes


class Mark(NamedTuple):
    """Something that happened: to the pipeline ``name``, or to the log when it is empty."""

    at_ms: int
    name: str
    event: str
    text: str


class Marks:
    """The marks of one node."""

    def __init__(self, log: Log, history: History) -> None:
        self._history = history
        self._run_logs = RunLogs(log)

    def read(self, since_ms: int, now_ms: int) -> list[Mark]:
        """The marks since a time, oldest first. Raises LogUnavailableError."""
        found = self._history.read([_UPTIME], since_ms, now_ms, series_max=1, points_max=1_440)
        marks = [Mark(at_ms, "", "started", "") for at_ms in starts(found.series.get(_UPTIME, []), since_ms)]
        for entry in self._run_logs.entries():
            if entry.event in _EVENTS and since_ms <= entry.at_ms <= now_ms:
                marks.append(Mark(entry.at_ms, entry.pipeline, entry.event.value, entry.text.partition("\n")[0][:200]))
        return sorted(marks)


def starts(uptimes: list[Point], since_ms: int) -> list[int]:
    """When a process started, by its uptimes in seconds: where they begin again. Exact to half a minute or so."""
    found: list[int] = []
    before_ms, before_s = since_ms, float("inf")
    for at_ms, uptime_s in uptimes:
        started_ms = at_ms - round(uptime_s * 1_000)
        is_first = before_s == float("inf")
        if started_ms > before_ms or (uptime_s < before_s and not is_first):
            started_ms = max(started_ms, before_ms)
            if found and started_ms - found[-1] < _SAME_START_MS:
                found.pop()
            found.append(started_ms)
        before_ms, before_s = at_ms, uptime_s
    return found
