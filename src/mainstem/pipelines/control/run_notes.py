"""``RunNotes``: what happens to the pipelines and captures of a run, on its way into their logs (``run_log``).

A note goes into a queue, which costs no call to the log. One thread appends them: that of the state records. When the
log is away they wait in the queue, up to ``_WAITING_MAX``; when the log refuses them they are left out. So a failure to
write them stops nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import replace
from typing import Final

from mainstem.client.log import Log
from mainstem.clock import Clock
from mainstem.errors import LogUnavailableError, MainstemError, UnknownTopicError
from mainstem.pipelines.control.run_log import (
    ENTRY_BYTES_MAX,
    PLAN_BYTES_MAX,
    RUN_LOG_TOPIC,
    RunEvent,
    RunLogEntry,
    RunLogs,
    RunPlan,
    cut,
)

_LOG = logging.getLogger("mainstem.pipelines")
_WAITING_MAX: Final = 500


class RunNotes:
    """The notes of one run. ``note`` and ``plan`` may be called from any thread, ``flush`` from one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[RunLogEntry | RunPlan] = deque(maxlen=_WAITING_MAX)
        self._next: dict[str, int] | None = None

    def note(self, pipeline: str, event: RunEvent, text: str = "") -> None:
        """Add an entry to a pipeline's log; returns at once."""
        entry = RunLogEntry(pipeline, -1, self._clock.time_ms(), event, cut(text, ENTRY_BYTES_MAX))
        with self._lock:
            self._waiting.append(entry)

    def plan(self, pipeline: str, batch_id: int | None, text: str) -> None:
        """Replace a pipeline's plan; returns at once."""
        plan = RunPlan(pipeline, self._clock.time_ms(), batch_id, cut(text, PLAN_BYTES_MAX))
        with self._lock:
            self._waiting.append(plan)

    def flush(self, log: Log) -> None:
        """Append what waits. It raises nothing: without the log they wait on, and refused ones are left out."""
        with self._lock:
            waiting = list(self._waiting)
        if not waiting:
            return
        try:
            if self._next is None:
                self._next = _next_numbers(log)
            numbers = dict(self._next)
            log.append_many(RUN_LOG_TOPIC, [_numbered(each, numbers).to_record() for each in waiting])
            self._next = numbers
        except (LogUnavailableError, UnknownTopicError) as error:  # or a first start has not made the topic
            _LOG.debug("the logs of pipelines wait for the log: %s", error)
            return
        except MainstemError as error:
            _LOG.warning("%d entries of the logs of pipelines are left out: %s", len(waiting), error)
        with self._lock:
            while self._waiting and any(self._waiting[0] is each for each in waiting):
                self._waiting.popleft()


def _next_numbers(log: Log) -> dict[str, int]:
    """The number of each pipeline's next entry."""
    found: dict[str, int] = {}
    for entry in RunLogs(log).entries():
        found[entry.pipeline] = max(found.get(entry.pipeline, 0), entry.number + 1)
    return found


def _numbered(note: RunLogEntry | RunPlan, numbers: dict[str, int]) -> RunLogEntry | RunPlan:
    if isinstance(note, RunPlan):
        return note
    number = numbers.get(note.pipeline, 0)
    numbers[note.pipeline] = number + 1
    return replace(note, number=number)
