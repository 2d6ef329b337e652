"""``RunNotes``: what happens to the pipelines of a run, on its way into their logs (``pipelines.control.run_log``).

The runner's thread adds notes to a queue, which costs it no call to the log. The state publisher's thread appends them.
When the log is away they wait in the queue, up to ``_WAITING_MAX``; when the log refuses them they are left out. So a
failure to write them stops nothing.

``plan_of`` reads Spark's plan of a query's last micro-batch. It is one call to the JVM, from the runner's thread.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from dataclasses import replace
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from mainstem.client.log import Log
from mainstem.clock import Clock
from mainstem.errors import LogUnavailableError, MainstemError
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

_LOG = logging.getLogger("mainstem.spark")
_WAITING_MAX: Final = 500
_LINES_MAX: Final = 30
_NO_PLAN: Final = "No physical plan"
_SECTION: Final = re.compile(r"^(?=== )", re.MULTILINE)
_LEFT_OUT: Final = "== Parsed"  # the analysed plan says the same, with types
_SECRET: Final = re.compile(
    r"([\w.-]{0,80}(?:password|secret|token|jaas|credential)[\w.-]{0,80})=[^,\]\n]*", re.IGNORECASE
)


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
        except LogUnavailableError as error:
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


def plan_of(handle: StreamingQuery) -> str | None:
    """Spark's plans of the query's last micro-batch: analysed, optimized, physical; None before the first one.

    Each is cut by itself, so that a long one does not hide the others. Values of options that name a secret are hidden.
    """
    try:
        text = str(handle._jsq.explainInternal(True))
    except (Py4JError, PySparkException) as error:
        _LOG.debug("the plan of a query cannot be read: %s", error)
        return None
    sections = [each for each in _SECTION.split(text) if each.strip() and not each.startswith(_LEFT_OUT)]
    if not sections or text.startswith(_NO_PLAN):
        return None
    shown = "\n\n".join(cut(each.strip(), PLAN_BYTES_MAX // len(sections) - 2) for each in sections)
    return _SECRET.sub(r"\1=…", shown)


def first_lines(text: str) -> str:
    """The first lines of an error of Spark, which may have hundreds."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[:_LINES_MAX])
