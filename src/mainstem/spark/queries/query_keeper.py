"""Keeps one pipeline's query running: starts it, reports its failures, and restarts it after a pause.

The pause doubles with each failure, up to ``_PAUSE_S_MAX``. It is short again after a finished micro-batch, or when the
query has run for longer than the longest pause. A failed start counts as a failure of the query. A query that runs once
is restarted only when a Python process of Spark was too slow: Spark waits ten seconds for the process that plans a
stream to connect, and no setting changes that. An operator's commands pause, resume and restart the query. Owned by the
runner's thread, which calls ``look`` from time to time. Each call costs a few calls to the JVM.
"""

from __future__ import annotations

import sys

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from mainstem.clock import Clock
from mainstem.errors import MainstemError, PipelineFailedError
from mainstem.pipelines.control.commands import Action, Command
from mainstem.pipelines.control.run_log import RunEvent
from mainstem.pipelines.control.run_notes import RunNotes
from mainstem.pipelines.state import PipelineState, Status
from mainstem.spark.queries.failures import cause
from mainstem.spark.queries.query import Query
from mainstem.spark.queries.query_plan import first_lines, plan_of
from mainstem.spark.queries.query_watch import ProgressWatch

_PAUSE_S_FIRST = 1.0
_PAUSE_S_MAX = 60.0
_SLOW_STARTS_MAX = 5
_NOTED = {Action.PAUSE: RunEvent.PAUSED, Action.RESUME: RunEvent.RESUMED, Action.RESTART: RunEvent.RESTARTED}
_TOO_SLOW = "Python worker failed to connect back"


class QueryKeeper:
    """Starts and restarts one query. ``state`` is the query's state for publishing; ``notes`` go to its log."""

    def __init__(self, query: Query, watch: ProgressWatch, clock: Clock, notes: RunNotes | None = None) -> None:
        self._query = query
        self._watch = watch
        self._clock = clock
        self._notes = notes or RunNotes(clock)
        self._has_plan = self._has_noted = False
        self._handle: StreamingQuery | None = None
        self._pause_s = _PAUSE_S_FIRST
        self._next_try_s = 0.0
        self._started_s = 0.0
        self._slow_starts = 0
        self._is_paused = False
        self._awaited: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self._query.pipeline.name

    @property
    def state(self) -> PipelineState:
        return self._watch.state

    def start(self, *, once: bool) -> None:
        """Start the query for the first time. Raises what the start of the query raises, and LogUnavailableError."""
        self._watch.started(again=False)
        self._start(once=once)
        self._note(RunEvent.STARTED, "to derive what the log has now" if once else "")

    def recall(self, command: Command | None) -> bool:
        """Before the start: what the newest command from before it means. Returns whether the query is to start."""
        if command is not None:
            self._watch.obeyed(command.offset)
            self._is_paused = command.action is Action.PAUSE
        if self._is_paused:
            self._watch.ended(Status.PAUSED)
            self._note(RunEvent.PAUSED, "its App started, and it stays paused")
            say(f"pipeline {self.name} is paused; resume it with: mainstem pipelines resume {self.name}")
        return not self._is_paused

    def carry_out(self, command: Command | None) -> None:
        """Do what a command asks, unless it was done before."""
        done = self.state.command
        if command is None or (done is not None and command.offset <= done):
            return
        if command.action is Action.PAUSE and self._is_in_batch(command):
            return  # tried again at the next look
        say(f"pipeline {self.name}: {command.action}, as an operator asked")
        self._is_paused = command.action is Action.PAUSE
        if command.action is not Action.RESUME:
            try:
                self._end_query()
            except (PySparkException, Py4JJavaError) as error:  # it took longer than spark.sql.streaming.stopTimeout
                say(f"pipeline {self.name} did not end in time: {self._cause(f'{type(error).__name__}: {error}')}")
                return  # tried again at the next look
        if command.action is not Action.RESUME or self._handle is None:
            self._note(_NOTED[command.action], "as an operator asked")
        if self._is_paused:
            self._watch.ended(Status.PAUSED)
        elif self._handle is None:
            self._pause_s = _PAUSE_S_FIRST
            self._start_again(after_failure=False)
        self._watch.obeyed(command.offset)

    def look(self) -> None:
        """Update ``state``. Restart a failed query when its pause is over."""
        if self._is_paused:
            return
        if self._handle is None:
            if self._clock.monotonic_s() >= self._next_try_s:
                self._start_again()
            return
        is_alive = self._handle.isActive  # read first, so that the last progress of an ended query is not missed
        progressed = self._watch.look(self._handle, self._query)
        error = None if is_alive else self._handle.exception()
        if progressed or error is not None:
            self._take_plan(progressed=progressed)
        if is_alive:
            if progressed or self._clock.monotonic_s() - self._started_s > _PAUSE_S_MAX:
                self._pause_s = _PAUSE_S_FIRST
            return
        self._handle = None
        if error is not None:
            self._pause(self._cause(str(error)), str(error))
        else:
            self._pause("it was stopped")

    def look_once(self) -> bool:
        """``look`` for a query that was started with ``once``. Returns whether it is still running.

        Raises PipelineFailedError when it failed.
        """
        assert self._handle is not None
        is_alive = bool(self._handle.isActive)
        progressed = self._watch.look(self._handle, self._query)
        error = None if is_alive else self._handle.exception()
        if progressed or error is not None:
            self._take_plan(progressed=progressed)
        if is_alive:
            return True
        if error is not None and _TOO_SLOW in str(error) and self._slow_starts < _SLOW_STARTS_MAX:
            self._slow_starts += 1
            say(f"pipeline {self.name}: a Python process took more than Spark's 10 s to start; started again")
            self._watch.started(again=True)
            self._note(RunEvent.RESTARTED, "a Python process took more than Spark's 10 s to start")
            self._start(once=True)
            return True
        if error is not None:
            raise PipelineFailedError(self.give_up(self._cause(str(error)), str(error)))
        self._watch.ended(Status.FINISHED)
        self._note(RunEvent.FINISHED)
        return False

    def give_up(self, why: str, error: str = "") -> str:
        """Record that the query failed and is not restarted. ``error`` is all of it. Returns the line for the user."""
        self._note(RunEvent.GIVEN_UP, f"{why}\n{first_lines(error)}")
        self._watch.failed(why, again_in_s=None)
        return f"pipeline {self.name} failed: {why}"

    def stop(self) -> None:
        """Stop the query if it runs, and close it."""
        try:
            self._end_query()
        finally:
            if not self.state.status.is_over:
                self._watch.ended(Status.STOPPED)
                if self._has_noted:
                    self._note(RunEvent.STOPPED)
            self._query.close()

    def _is_in_batch(self, command: Command) -> bool:
        """Whether the micro-batch still runs that ran when the command was first seen."""
        batch = self._query.current_batch
        if self._handle is None or not self._handle.isActive or batch is None:
            return False
        if self._awaited is None or self._awaited[0] != command.offset:
            self._awaited = command.offset, batch
        return self._awaited == (command.offset, batch)

    def _end_query(self) -> None:
        if self._handle is not None and self._handle.isActive:
            self._handle.stop()
            progressed = self._watch.look(self._handle, self._query)  # now: its last micro-batch may just have ended
            self._take_plan(progressed=progressed)
        self._handle = None

    def _cause(self, text: str) -> str:
        return cause(self._query.pipeline, self._query.checkpoint, text)

    def _note(self, event: RunEvent, text: str = "") -> None:
        self._has_noted = True
        self._notes.note(self.name, event, text.strip())

    def _take_plan(self, *, progressed: bool) -> None:
        """Take the plan of the first micro-batch since the last start, once Spark has it.

        Without progress it is the plan of a micro-batch that did not end, whose number is not known here.
        """
        if self._has_plan or self._handle is None:
            return
        text = plan_of(self._handle)
        self._has_plan = text is not None
        if text is not None:
            self._notes.plan(self.name, self.state.recent[-1].batch_id if progressed else None, text)

    def _start(self, *, once: bool) -> None:
        self._has_plan = False
        self._handle = self._query.start(once=once)
        self._started_s = self._clock.monotonic_s()

    def _start_again(self, *, after_failure: bool = True) -> None:
        self._watch.started(again=after_failure)
        if after_failure:
            self._note(RunEvent.RESTARTED, "after a failure")
        try:
            self._start(once=False)
        except (MainstemError, PySparkException, Py4JJavaError) as error:  # other Py4J errors mean that the JVM is gone
            text = f"{type(error).__name__}: {error}"
            self._pause(self._cause(text), text)

    def _pause(self, why: str, error: str = "") -> None:
        self._note(RunEvent.FAILED, f"{why}; again in {self._pause_s:g} s\n{first_lines(error)}")
        say(f"pipeline {self.name} failed: {why}; again in {self._pause_s:g} s")
        self._watch.failed(why, again_in_s=self._pause_s)
        self._next_try_s = self._clock.monotonic_s() + self._pause_s
        self._pause_s = min(self._pause_s * 2, _PAUSE_S_MAX)


def say(text: str) -> None:
    """Print a line to the process's log, standard error."""
    print(f"mainstem: {text}", file=sys.stderr, flush=True)  # noqa: T201 - the process's log
