"""Publishes pipelines' states and the entries of their logs, from its own thread.

A slow or unreachable log does not block callers.

It keeps only the newest state of each pipeline. It appends a state when it has changed, at most once in ``every_s``,
and again as a heartbeat. It retries failed appends. ``notes`` are the entries; they go out after the states.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import replace

from mainstem.client.log import Log
from mainstem.clock import Clock, SystemClock
from mainstem.errors import MainstemError
from mainstem.pipelines.control.run_notes import RunNotes
from mainstem.pipelines.state import HEARTBEAT_MS, STATES_TOPIC, PipelineState

_LOG = logging.getLogger("mainstem.spark")
_TIMEOUT_S = 5.0


class StatePublisher:
    """Call ``put`` from any thread. At the end of the ``with`` block it tries once to append what is left."""

    def __init__(self, bootstrap: str, *, every_s: float = 1.0, clock: Clock | None = None) -> None:
        self._log = Log(bootstrap, timeout_s=_TIMEOUT_S)
        self._every_s = every_s
        self._clock = clock or SystemClock()
        self.notes = RunNotes(self._clock)
        self._changed = threading.Condition()
        self._states: dict[str, PipelineState] = {}
        self._published: dict[str, PipelineState] = {}
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="pipeline-states", daemon=True)

    def put(self, states: Iterable[PipelineState]) -> None:
        """Store the newest states for publishing; returns at once."""
        with self._changed:
            self._states.update((state.pipeline, state) for state in states)
            self._changed.notify()

    def __enter__(self) -> StatePublisher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(2 * _TIMEOUT_S)

    def _run(self) -> None:
        with self._log:
            is_closing = False
            while not is_closing:
                with self._changed:
                    if not self._is_closing and not self._due():
                        self._changed.wait(self._every_s)
                    is_closing, due = self._is_closing, self._due()
                self._publish(due)
                self.notes.flush(self._log)
                with self._changed:  # collect more states for the next append
                    if not self._is_closing:
                        self._changed.wait_for(lambda: self._is_closing, self._every_s)

    def _due(self) -> list[PipelineState]:
        """The states to append now: changed ones, and those whose last heartbeat is too old."""
        now_ms = self._clock.time_ms()
        due = []
        for name, state in self._states.items():
            last = self._published.get(name)
            is_new = last is None or replace(last, seen_ms=state.seen_ms) != state
            if is_new or (not state.status.is_over and last is not None and now_ms - last.seen_ms >= HEARTBEAT_MS):
                due.append(replace(state, seen_ms=now_ms))
        return due

    def _publish(self, due: list[PipelineState]) -> None:
        if not due:
            return
        try:
            self._log.append_many(STATES_TOPIC, [state.to_record() for state in due])
        except MainstemError as error:
            _LOG.debug("the states of pipelines cannot be published: %s", error)
            return
        self._published.update((state.pipeline, state) for state in due)
