"""The newest state record of each pipeline, so that a time-out can name the pipelines that hold a reader back.

Follows ``__mainstem_pipeline_states`` and keeps records as they are; they are parsed when they are asked for. Where the
log has no such topic, or does not allow to read it, nothing is known and nothing is named.

Thread-safe: the follower's thread replaces whole entries of one dictionary.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from mainstem.client.log import Log
from mainstem.client.topic_follower import TopicFollower
from mainstem.clock import Clock
from mainstem.errors import SchemaError
from mainstem.model import Record
from mainstem.pipelines.state import LOST_AFTER_MS, STATES_TOPIC, PipelineState, Status

_LOG = logging.getLogger("mainstem.views")


class PipelineStates(TopicFollower):
    """How each pipeline is, by its newest state record. ``start`` and ``stop`` once, from one thread."""

    def __init__(self, log: Log, clock: Clock) -> None:
        super().__init__(log, STATES_TOPIC)
        self._clock = clock
        self._newest: dict[str, Record] = {}

    def take(self, record: Record) -> None:
        name = (record.key or b"").decode(errors="replace")
        if record.value is None:
            self._newest.pop(name, None)
        else:
            self._newest[name] = record

    def failing(self, pipelines: Iterable[str], *, with_errors: bool = True) -> tuple[str, ...]:
        """Of the pipelines those that do not work at present, each with its status and last error in words.

        An error's text may quote records of any topic. Without ``with_errors`` it is left out.
        """
        found = (self._failing(name, _error_of if with_errors else _pointer_of) for name in sorted(pipelines))
        return tuple(text for text in found if text is not None)

    def _failing(self, name: str, error_of: Callable[[PipelineState], str]) -> str | None:
        record = self._newest.get(name)
        try:
            state = None if record is None else PipelineState.from_record(record)
        except SchemaError as error:
            _LOG.warning("%s", error)
            return None
        if state is None:
            return None
        now_ms = self._clock.time_ms()
        if state.is_lost(now_ms):
            silent_s = LOST_AFTER_MS // 1_000
            return f"{name} has been silent for over {silent_s} s, and was {state.status.value}{error_of(state)}"
        if state.status.is_over or state.status == Status.PAUSED or _has_failed_last(state):
            return f"{name} is {state.status.value}{error_of(state)}"
        return None


def _has_failed_last(state: PipelineState) -> bool:
    """Whether the query did no micro-batch since its last failure: it may be running the failing one again."""
    if state.failure is None:
        return False
    return state.status == Status.RESTARTING or not state.recent or state.recent[-1].at_ms <= state.failure.at_ms


def _error_of(state: PipelineState) -> str:
    return f": {state.failure.text}" if state.failure is not None and _has_failed_last(state) else ""


def _pointer_of(state: PipelineState) -> str:
    return " (mainstem pipelines list shows its error)" if _error_of(state) else ""
