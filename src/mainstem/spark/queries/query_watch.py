"""Turns Spark's progress reports of one streaming query into the pipeline's state.

Spark keeps its last hundred progress reports. Each ``look`` reads the new ones, by a few calls to the JVM from the
runner's thread. A listener would run in the query's own thread at each micro-batch and add latency. Owned by the
runner's thread.
"""

from __future__ import annotations

import datetime
import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from mainstem.clock import Clock, SystemClock
from mainstem.errors import PositionFormatError
from mainstem.model import Position
from mainstem.pipelines.state import ALWAYS, ONCE, RECENT_MAX, Failure, MicroBatch, PipelineState, Status
from mainstem.spark.checkpoints.offsets import StreamOffsets
from mainstem.spark.queries.query import Query

_NO_WATERMARK = "1970-01-01T00:00:00.000Z"
_RAN = "addBatch"


class ProgressWatch:
    """Keeps ``state``. It is as recent as the last ``look``."""

    def __init__(self, app: str, pipeline: str, *, once: bool, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        now_ms = self._clock.time_ms()
        self.state = PipelineState(pipeline, app, Status.STARTING, ONCE if once else ALWAYS, now_ms, now_ms)
        self._recent: deque[MicroBatch] = deque(maxlen=RECENT_MAX)
        self._last_seen: tuple[int, str] | None = None

    def started(self, *, again: bool) -> None:
        """The query was started; ``again``: after a failure."""
        self._last_seen = None
        counts = self.state.counts
        failure = self.state.failure
        self.state = replace(
            self.state,
            status=Status.STARTING,
            counts=replace(counts, restarts=counts.restarts + again),
            failure=None if failure is None else replace(failure, next_try_ms=None),
        )

    def failed(self, text: str, *, again_in_s: float | None) -> None:
        """The query failed. It is restarted in ``again_in_s`` seconds; None: never."""
        now_ms = self._clock.time_ms()
        again_ms = None if again_in_s is None else now_ms + round(again_in_s * 1_000)
        status = Status.FAILED if again_in_s is None else Status.RESTARTING
        self.state = replace(self.state, status=status, failure=Failure(text, now_ms, again_ms))

    def ended(self, status: Status) -> None:
        """The query ended without a failure, and is not started again by itself."""
        failure = self.state.failure
        ended = None if failure is None else replace(failure, next_try_ms=None)
        self.state = replace(self.state, status=status, failure=ended)

    def obeyed(self, offset: int) -> None:
        """The command at this offset was carried out."""
        self.state = replace(self.state, command=offset)

    def look(self, handle: StreamingQuery, query: Query) -> bool:
        """Read the new progress reports. Returns whether a micro-batch has finished since the last ``look``."""
        reports = self._new_reports(handle)
        done = [report for report in reports if _RAN in report["durationMs"]]
        self._recent.extend(_micro_batch(report) for report in done)
        counts = self.state.counts
        counts = replace(
            counts,
            micro_batches=counts.micro_batches + len(done),
            input_rows=counts.input_rows + sum(report["numInputRows"] for report in done),
            written_rows=query.written_rows,
            state_rows=_state_rows(reports[-1]) if reports else counts.state_rows,
        )
        self.state = replace(
            self.state,
            counts=counts,
            nulled_values=query.nulled_values,
            recent=tuple(self._recent),
            watermark_held_by=query.watermark_held_by,
        )
        if reports:
            self.state = replace(
                self.state,
                input_rows_per_second=float(reports[-1].get("inputRowsPerSecond") or 0.0),
                watermark=_watermark(reports[-1]) or self.state.watermark,
            )
        if handle.isActive:
            status = Status.RUNNING if done else _status(json.loads(handle._jsq.status().json()))
            self.state = replace(self.state, status=status)
        return bool(done)

    def _new_reports(self, handle: StreamingQuery) -> list[dict[str, Any]]:
        """Spark's progress reports since the last look, oldest first."""
        recent = handle._jsq.recentProgress()
        found = []
        for index in range(len(recent) - 1, -1, -1):
            entry = recent[index]
            seen = (entry.batchId(), entry.timestamp())
            if seen == self._last_seen:
                break
            found.append(((seen), json.loads(entry.json())))
        if found:
            self._last_seen = found[0][0]
        return [report for _, report in reversed(found)]


def _status(said: Mapping[str, Any]) -> Status:
    if said["message"].startswith("Initializing"):
        return Status.STARTING
    return Status.RUNNING if said["isDataAvailable"] else Status.WAITING


def _micro_batch(report: Mapping[str, Any]) -> MicroBatch:
    at = datetime.datetime.fromisoformat(report["timestamp"])
    durations = {name: int(duration) for name, duration in report["durationMs"].items()}
    return MicroBatch(
        report["batchId"], round(at.timestamp() * 1_000), report["numInputRows"], durations, _lag(report["sources"])
    )


def _lag(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """How many records the log held after the micro-batch's end; None when a source is not Mainstem's."""
    behind = 0
    for source in sources:
        latest, end = _position(source.get("latestOffset")), _position(source.get("endOffset"))
        if latest is None or end is None:
            return None
        behind += sum(max(0, offset - end.get(tp, 0)) for tp, offset in latest.items())
    return behind


def _position(offsets: Any) -> Position | None:
    try:
        return StreamOffsets.from_json(offsets).position
    except (ValueError, KeyError, TypeError, AttributeError, PositionFormatError):
        return None


def _state_rows(report: Mapping[str, Any]) -> int:
    return sum(operator["numRowsTotal"] for operator in report["stateOperators"])


def _watermark(report: Mapping[str, Any]) -> str | None:
    found = report.get("eventTime", {}).get("watermark")
    return None if found == _NO_WATERMARK else found
