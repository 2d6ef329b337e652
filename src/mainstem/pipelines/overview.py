"""``Overview``: the status of every pipeline of a log, from its progress, its state and the log's end offsets.

The commands, the HTTP gateway and the console show it. Each call reads on from where the last one stopped. Each call
computes the lag, from the pipeline's progress to the ends of its inputs, so it is right even if the driver is dead.
Thread-safe.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from mainstem.client.log import Log
from mainstem.clock import Clock, SystemClock
from mainstem.errors import UnknownPipelineError, UnknownTopicError
from mainstem.model import DATABASE_TOPIC_PREFIX, Position, Record, TopicPartition
from mainstem.pipelines.entries import EntryReader
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.pipelines.state import STATES_TOPIC, PipelineState

NOT_SEEN = "not seen"
"""The status of a pipeline whose driver sends no heartbeats any longer, or that has never published its state."""


class _Named(Protocol):
    @property
    def pipeline(self) -> str: ...


_Entry = TypeVar("_Entry", bound=_Named)


class Overview:
    """The status of every pipeline of one log."""

    def __init__(self, log: Log, clock: Clock | None = None) -> None:
        self._log = log
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._progress = _Latest(log, PROGRESS_TOPIC, Progress.from_record)
        self._states = _Latest(log, STATES_TOPIC, PipelineState.from_record)

    def latest(self) -> list[dict[str, Any]]:
        """One document for each pipeline, by name; none when no pipeline ever ran. Raises LogUnavailableError."""
        with self._lock:
            progress, states = self._progress.catch_up(), self._states.catch_up()
            ends = self._ends({topic for entry in progress.values() for topic in entry.inputs})
            by_topic = _by_topic(ends)
            now_ms = self._clock.time_ms()
            return [
                {
                    "name": name,
                    **_progress_json(progress.get(name)),
                    "lag": _lag(progress.get(name), by_topic),
                    **_state_json(states.get(name), now_ms),
                }
                for name in sorted(progress.keys() | states.keys())
            ]

    def require(self, pipeline: str) -> dict[str, Any]:
        """The document of one pipeline. Raises UnknownPipelineError, LogUnavailableError."""
        found = {state["name"]: state for state in self.latest()}
        if pipeline not in found:
            names = ", ".join(sorted(found)[:20]) or "none"
            raise UnknownPipelineError(f"there is no pipeline {pipeline[:200]!r}; there are: {names}")
        return found[pipeline]

    def _ends(self, topics: set[str]) -> Position:
        """The ends of those of the topics that are still there."""
        asked = {topic for topic in topics if not topic.startswith(DATABASE_TOPIC_PREFIX)}
        if not asked:
            return Position()
        try:
            return self._log.end(*sorted(asked))
        except UnknownTopicError:
            return self._log.end(*sorted(asked & self._log.topics().keys()))


class _Latest(Generic[_Entry]):
    """The latest record of each key of a small compacted topic."""

    def __init__(self, log: Log, topic: str, parse: Callable[[Record], _Entry | None]) -> None:
        self._log = log
        self._topic = topic
        self._parse = parse
        self._read_up_to: Position | None = None
        self._latest: dict[str, _Entry] = {}

    def catch_up(self) -> dict[str, _Entry]:
        try:
            reader = EntryReader(self._log, self._topic, self._parse, start=self._read_up_to)
        except UnknownTopicError:
            self._read_up_to = None
            self._latest.clear()
            return self._latest
        for key, entry in reader:
            if entry is None:
                self._latest.pop(key, None)
            else:
                self._latest[entry.pipeline] = entry
        self._read_up_to = reader.position
        return self._latest


def _by_topic(ends: Position) -> dict[str, dict[TopicPartition, int]]:
    found: dict[str, dict[TopicPartition, int]] = {}
    for tp, end in ends.items():
        found.setdefault(tp.topic, {})[tp] = end
    return found


def _lag(progress: Progress | None, ends: Mapping[str, Mapping[TopicPartition, int]]) -> int | None:
    """The number of input records that the pipeline has not read yet; None when unknown. ``ends``: by topic."""
    if progress is None or not all(topic in ends for topic in progress.inputs):
        return None
    inputs = (entry for topic in set(progress.inputs) for entry in ends[topic].items())
    return sum(max(0, end - progress.source.get(tp, 0)) for tp, end in inputs)


def _progress_json(progress: Progress | None) -> dict[str, Any]:
    if progress is None:
        return {"inputs": [], "outputs": [], "batch_id": None, "source": "", "sink": "", "tables": ""}
    return {
        "inputs": list(progress.inputs),
        "outputs": list(progress.outputs),
        "batch_id": progress.batch_id,
        "source": str(progress.source),
        "sink": str(progress.sink),
        "tables": str(progress.tables),
    }


def _state_json(state: PipelineState | None, now_ms: int) -> dict[str, Any]:
    if state is None:
        return {"status": NOT_SEEN, "seen_ms": None}
    last = state.recent[-1] if state.recent else None
    is_lost = state.is_lost(now_ms)
    return {
        "status": NOT_SEEN if is_lost else state.status.value,
        "last_status": state.status.value,
        "seen_ms": state.seen_ms,
        "app": state.app,
        "trigger": state.trigger,
        "started_ms": state.started_ms,
        "uptime_s": max(0, (state.seen_ms if is_lost or state.status.is_over else now_ms) - state.started_ms) // 1_000,
        **dataclasses.asdict(state.counts),
        "nulled_values": {topic: dict(columns) for topic, columns in state.nulled_values.items()},
        "input_rows_per_second": state.input_rows_per_second,
        "durations_ms": dict(last.durations_ms) if last is not None else {},
        "watermark": state.watermark,
        "watermark_held_by": state.watermark_held_by,
        "command": state.command,
        "failure": None if state.failure is None else dataclasses.asdict(state.failure),
        **({"database": dict(state.database)} if state.database else {}),
        "recent": [dataclasses.asdict(entry) for entry in state.recent],
    }
