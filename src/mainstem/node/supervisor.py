"""Start, watch, restart and stop the processes of a node.

* A process that ends before it was ever ready is a start that failed: its own error line is raised, nothing is retried.
* A process that ends later is started again, after 0.2 s, then twice as long each time up to 10 s; having run for half
  a minute it starts with 0.2 s again; so is one that this machine cannot start just now (no memory, no file
  descriptors). One that says that it cannot work as it was started (a setting, an address) is
  not started again: ``wait`` raises what it said.
* ``stop`` asks in the order of the roles' ranks, waits for each one's grace time, and kills what is left with its whole
  process group. A second interrupt while stopping kills at once.
* When this process is killed, the children's standard input closes and they stop by themselves.
* The restarts of each process, and how it ended last, are in ``<run directory>/supervisor.prom``, in Prometheus' text
  format, from the launch on. The gateway puts the file into its page of metrics.

``launch``, ``wait_ready``, ``wait`` and ``stop`` belong to one thread; one keeper thread for each role restarts it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Final

from mainstem.background import StopEvent
from mainstem.broker.metrics.text_format import Sample, counter, gauge
from mainstem.clock import Clock, SystemClock
from mainstem.durable_files import LOCAL_FILES, replace_file
from mainstem.errors import InputError, MainstemError, StorageError
from mainstem.node.child import Child, exit_text
from mainstem.node.roles import Role

_BACK_OFF_MIN_S, _BACK_OFF_MAX_S = 0.2, 10.0
_STEADY_S = 30.0
METRICS_FILE: Final = "supervisor.prom"

Report = Callable[[str], None]


class Supervisor:
    """The processes of one node; a context manager that stops them."""

    def __init__(self, run_directory: Path, report: Report) -> None:
        self._run_directory = run_directory
        self._report = report
        self._clock = SystemClock()
        self._stopping = StopEvent()
        self._keepers: dict[str, _Keeper] = {}
        self._refusal: InputError | None = None
        self._publishing = threading.Lock()  # of the file of metrics
        run_directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def launch(self, role: Role) -> None:
        """Start a process and return at once; ``wait_ready`` waits for it."""
        self._keepers[role.name] = _Keeper(
            role, self._run_directory, self._report, self._clock, self._stopping, self._give_up, self._publish
        )
        self._publish()

    def wait_ready(self, name: str) -> str:
        """Wait for the process's ready line; returns its text. Raises its own error line, see ``Child``."""
        return self._keepers[name].wait_ready()

    def start(self, role: Role) -> str:
        """Launch, and wait until it is ready."""
        self.launch(role)
        return self.wait_ready(role.name)

    def finish(self, name: str) -> None:
        """Wait for a process that ends by itself (pipelines run once). It is not restarted.

        Raises its own error line, see ``Child``, unless it ends with code 0.
        """
        self._keepers[name].finish()

    def wait(self) -> None:
        """Block until another thread, or an exception out of a signal handler, stops the node.

        Raises InputError, what a process said that cannot be started again.
        """
        self._stopping.wait()
        if self._refusal is not None:
            raise self._refusal

    def _give_up(self, refusal: InputError) -> None:
        self._refusal = refusal
        self._stopping.set()

    def pid(self, name: str) -> int:
        """The process id of a role's current process."""
        return self._keepers[name].pid

    def _publish(self) -> None:
        """Write the metrics. When the disk refuses, that is reported, and the next event writes them again."""
        with self._publishing:
            keepers = list(self._keepers.values())
            restarts = [({"process": keeper.role.name}, keeper.restarts) for keeper in keepers]
            ends = [sample for keeper in keepers for sample in keeper.last_end]
            text = restart_metrics(restarts, ends)
            try:
                replace_file(LOCAL_FILES, self._run_directory / METRICS_FILE, text.encode(), sync=False)
            except StorageError as error:
                self._report(f"the metrics of restarts cannot be written: {error}")

    def stop(self) -> None:
        """Stop every process, in the order of their ranks. Safe to call twice."""
        self._stopping.set()
        keepers = sorted(self._keepers.values(), key=lambda keeper: keeper.role.stop_rank)
        try:
            for _, rank in groupby(keepers, key=lambda keeper: keeper.role.stop_rank):
                self._stop_together(list(rank))
        finally:
            for keeper in keepers:  # an interrupt came while we waited
                keeper.kill()
        self._keepers.clear()

    def _stop_together(self, keepers: Iterable[_Keeper]) -> None:
        for keeper in keepers:
            keeper.terminate()
        started_s = self._clock.monotonic_s()
        for keeper in keepers:
            left_s = keeper.role.grace_s - (self._clock.monotonic_s() - started_s)
            if not keeper.wait_stopped(max(left_s, 0.0)):
                self._report(f"{keeper.role.name} did not stop within {keeper.role.grace_s:g} s; it is killed")
                keeper.kill()

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def restart_metrics(restarts: Sequence[Sample], ends: Sequence[Sample]) -> str:
    """The families of the processes."""
    text = counter("mainstem_process_restarts_total", "Restarts of a process since the node started", restarts)
    return text + gauge("mainstem_process_last_end_seconds", "When a process ended by itself last, and how", ends)


class _Keeper:
    """Keeps one role running: the current child, and the thread that starts the next one."""

    def __init__(
        self,
        role: Role,
        run_directory: Path,
        report: Report,
        clock: Clock,
        stopping: StopEvent,
        give_up: Callable[[InputError], None],
        publish: Callable[[], None],
    ) -> None:
        self.role = role
        self._run_directory = run_directory
        self._report = report
        self._clock = clock
        self._stopping = stopping
        self._give_up = give_up
        self._publish = publish
        self._lock = threading.Lock()  # guards _child against a restart while it is being stopped
        self.restarts = 0
        self.last_end: tuple[Sample, ...] = ()
        self._started_s = clock.monotonic_s()
        self._child = Child(role, run_directory)
        self._thread: threading.Thread | None = None

    def wait_ready(self) -> str:
        """Wait for the first child; from then on it is restarted when it ends."""
        ready = self._child.wait_ready()
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep, name=f"keeper of {self.role.name}", daemon=True)
            self._thread.start()
        return ready

    def finish(self) -> None:
        self._child.finish()

    @property
    def pid(self) -> int:
        return self._child.pid

    def terminate(self) -> None:
        with self._lock:
            self._child.terminate()

    def kill(self) -> None:
        with self._lock:
            self._child.kill()

    def wait_stopped(self, timeout_s: float) -> bool:
        return self._child.wait_ended(timeout_s) is not None

    def _keep(self) -> None:
        back_off_s = _BACK_OFF_MIN_S
        while True:
            code = self._child.wait_ended()
            if self._stopping.is_set():
                return
            self.last_end = (({"process": self.role.name, "end": exit_text(code)}, self._clock.time_ms() / 1000),)
            self._publish()
            refusal = self._child.refusal()
            if refusal is not None:
                self._report(f"{self.role.name} cannot work as it was started, and is not started again: {refusal}")
                self._give_up(refusal)
                return
            if self._clock.monotonic_s() - self._started_s >= _STEADY_S:
                back_off_s = _BACK_OFF_MIN_S
            self._report(
                f"{self.role.name} ended with {exit_text(code)}; it starts again in {back_off_s:g} s "
                f"(its output: {self._child.log_path})"
            )
            if self._stopping.wait(back_off_s):
                return
            back_off_s = min(back_off_s * 2, _BACK_OFF_MAX_S)
            self._start_again()

    def _start_again(self) -> None:
        with self._lock:
            if self._stopping.is_set():
                return
            self._started_s = self._clock.monotonic_s()
            try:
                self._child = Child(self.role, self._run_directory)
            except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
                self._report(f"{self.role.name} cannot be started: {error}")
                return  # the former child has ended still: the next round starts another
            self.restarts += 1
        self._publish()
        try:
            self._child.wait_ready()
        except MainstemError as error:
            self._report(f"{self.role.name}: {error}")
            self._child.terminate()
        else:
            self._report(f"{self.role.name} is ready again")
