"""Runs a capture, again after failures that may pass, and publishes its state and its log as pipelines do.

The database or the log may be away for as long as it likes: the connector tries again, after a second, then after
longer pauses. What would fail again (a setting, a lost slot, a table that cannot be captured) ends it, with one line.
A refused login ends it only before it has captured: in a failover a server may refuse for a moment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from mainstem.background import failed
from mainstem.client.log import Log
from mainstem.clock import SystemClock
from mainstem.errors import MainstemError, ProducerFencedError, RemoteError, TransactionTimeoutError, UnavailableError
from mainstem.model import lsn_text
from mainstem.pipelines.control.run_log import RunEvent
from mainstem.pipelines.control.run_notes import RunNotes
from mainstem.pipelines.definitions import CaptureSettings
from mainstem.pipelines.state import HEARTBEAT_MS, STATES_TOPIC, Counts, Failure, PipelineState, Status
from mainstem.postgres.capture import Capture, CaptureCounts
from mainstem.postgres.captured_state import read_state
from mainstem.postgres.server.catalog import LoginRefusedError, connect
from mainstem.postgres.server.slot import SlotState, find_slot
from mainstem.schema.topic_schemas import lookup_all

_PAUSE_MIN_S: Final = 1.0
_PAUSE_MAX_S: Final = 10.0
_STEADY_S: Final = 30.0
_LOOK_S: Final = 1.0
_LOOK_MAX_S: Final = 60.0
"""The longest pause after an unexpected error."""
_NOTED_MAX: Final = 1_000
"""Notes that are remembered, so that none comes twice. As requests of others make some, further ones are left out."""
_MAY_PASS: Final = (UnavailableError, RemoteError, TransactionTimeoutError)


class Connector:
    """One capture, from start to stop. ``run`` is called once, ``stop`` from any thread or a signal's handler."""

    def __init__(
        self, settings: CaptureSettings, log: Log, note: Callable[[str], None], *, app: str = "", again: bool = False
    ) -> None:
        """``note`` gets what a user should know, a line each. ``again``: with a new slot and new snapshots."""
        self._settings = settings
        self._log = log
        self._note = note
        self._again = again
        self._stopping = threading.Event()
        self._has_ended = threading.Event()
        self._has_captured = False
        self._noted: set[str] = set()
        self._counts = CaptureCounts()
        self._notes = RunNotes(SystemClock())
        self._states = _States(settings, log, app, self._counts)

    def stop(self) -> None:
        """End ``run``, in a moment."""
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopping.is_set()

    def run(self, on_ready: Callable[[], None]) -> None:
        """Capture until ``stop``. ``on_ready``: the topics and their columns are there.

        That is at once for a capture that began before with all its tables.

        Raises what does not pass by itself: ConfigError, DefinitionError, SlotLostError, ProducerFencedError. A start
        that is not ready at once raises UnavailableError, too.
        """
        ready = _Once(on_ready)
        self._event(RunEvent.STARTED, "with a new slot and new snapshots" if self._again else "")
        publisher = threading.Thread(target=self._publish, name="capture-state", daemon=True)
        try:
            if not self._again and self._began_before():
                ready()
            publisher.start()
            self._run(ready)
            self._states.status = Status.STOPPED
            self._event(RunEvent.STOPPED)
        except MainstemError as error:
            self._states.failed(error, None)
            self._event(RunEvent.GIVEN_UP, str(error))
            raise
        finally:
            self._has_ended.set()
            if publisher.is_alive():
                publisher.join()

    def _began_before(self) -> bool:
        settings, state = self._settings, read_state(self._log, self._settings.name)
        if state.lsn <= 0 or any(str(name) not in state.tables for name in settings.tables):
            return False
        # An older release registered a table's columns with its first row.
        schemas = lookup_all(self._log) if settings.envelope == "row" else None
        return schemas is None or all(settings.topic_of(name) in schemas for name in settings.tables)

    def _run(self, ready: _Once) -> None:
        pause_s = _PAUSE_MIN_S
        while not self._stopping.is_set():
            begun_s = time.monotonic()
            try:
                self._capture(ready)
            except ProducerFencedError:
                raise
            except (*_MAY_PASS, LoginRefusedError) as error:
                if not ready.is_done or (isinstance(error, LoginRefusedError) and not self._has_captured):
                    raise
                pause_s = _PAUSE_MIN_S if time.monotonic() - begun_s > _STEADY_S else pause_s
                self._states.failed(error, pause_s)
                self._note(f"{error}; trying again in {pause_s:g} s")
                self._event(RunEvent.FAILED, f"{error}; again in {pause_s:g} s")
                self._stopping.wait(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _capture(self, ready: _Once) -> None:
        def on_ready() -> None:
            self._again = False
            self._has_captured = True
            if self._states.status is Status.RESTARTING:
                self._event(RunEvent.RESTARTED, "after a failure")
            self._states.status = Status.RUNNING
            ready()

        capture = Capture(self._settings, self._log, self._counts, self._note_once)
        capture.run(self._stopping, again=self._again, on_ready=on_ready)

    def _note_once(self, warning: str) -> None:
        if warning not in self._noted and len(self._noted) < _NOTED_MAX:
            self._noted.add(warning)
            self._note(warning)

    def _event(self, event: RunEvent, text: str = "") -> None:
        self._notes.note(self._settings.name, event, text)

    def _publish(self) -> None:
        pause_s = _LOOK_S
        while not self._has_ended.wait(pause_s):
            try:
                self._states.publish()
                self._notes.flush(self._log)
                pause_s = _LOOK_S
            except Exception as error:  # noqa: BLE001 - the capture goes on, and so must its state
                failed("state of the capture", error)
                pause_s = min(2 * pause_s, _LOOK_MAX_S)
        self._states.publish(is_last=True)
        self._notes.flush(self._log)


class _Once:
    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self.is_done = False

    def __call__(self) -> None:
        if not self.is_done:
            self.is_done = True
            self._call()


class _States:
    """The state record of a capture. ``publish`` is for one thread."""

    def __init__(self, settings: CaptureSettings, log: Log, app: str, counts: CaptureCounts) -> None:
        self.status = Status.STARTING
        self._settings = settings
        self._log = log
        self._app = app
        self._counts = counts
        self._failure: Failure | None = None
        self._restarts = 0
        self._started_ms = _now_ms()
        self._published: PipelineState | None = None
        self._slot: Mapping[str, Any] = {}
        self._slot_s = 0.0

    def failed(self, error: MainstemError, pause_s: float | None) -> None:
        """Note a failure; ``pause_s`` until the next try, None when it does not try again."""
        next_try_ms = None if pause_s is None else _now_ms() + round(pause_s * 1000)
        self.status = Status.FAILED if pause_s is None else Status.RESTARTING
        self._failure = Failure(str(error), _now_ms(), next_try_ms)
        self._restarts += pause_s is not None

    def publish(self, *, is_last: bool = False) -> None:
        """Append the state, if it has changed or its heartbeat is due."""
        if not is_last:
            self._ask_for_slot()
        state = PipelineState(
            pipeline=self._settings.name,
            app=self._app,
            status=self.status,
            trigger="changes of PostgreSQL",
            started_ms=self._started_ms,
            seen_ms=_now_ms(),
            counts=Counts(
                micro_batches=self._counts.commits, written_rows=self._counts.records, restarts=self._restarts
            ),
            failure=self._failure,
            database=self._database(),
        )
        last = self._published
        if last is not None and not is_last and not _is_news(last, state):
            return
        try:
            self._log.append_many(STATES_TOPIC, [state.to_record()])
        except MainstemError:  # the log is away: the next time
            return
        self._published = state

    def _database(self) -> dict[str, Any]:
        tables = {
            name: {"topic": table.topic, "snapshot_rows": table.rows, "snapshot_done": table.is_done}
            for name, table in self._counts.tables.items()
        }
        return {
            "lsn": lsn_text(self._counts.lsn),
            "slot": self._settings.slot,
            **self._slot,
            "snapshots_pending": sum(not table.is_done for table in self._counts.tables.values()),
            "tables": tables,
        }

    def _ask_for_slot(self) -> None:
        """Where the slot is, by a connection for this look alone: the capture's own may wait."""
        if time.monotonic() - self._slot_s < HEARTBEAT_MS / 1000:
            return
        self._slot_s = time.monotonic()
        try:
            connection = connect(self._settings.dsn)
        except MainstemError:  # the capture says that the database is away
            self._slot = {}
            return
        try:
            found = find_slot(connection, self._settings.slot)
            self._slot = {} if found is None else _slot_json(found)
        except MainstemError:
            self._slot = {}
        finally:
            connection.close()


def _slot_json(slot: SlotState) -> dict[str, Any]:
    return {
        "slot_status": slot.status,
        "kept_bytes": slot.kept_bytes,
        "lag_bytes": slot.lag_bytes,
        "safe_bytes": slot.safe_bytes,
    }


def _is_news(last: PipelineState, state: PipelineState) -> bool:
    same = (last.status, last.counts, last.failure, last.database) == (
        state.status,
        state.counts,
        state.failure,
        state.database,
    )
    return not same or state.seen_ms - last.seen_ms >= HEARTBEAT_MS


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
