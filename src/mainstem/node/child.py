"""One running process of a role: its pipes, its ready line, its log file and its end.

The child's standard input is a pipe without data: when its parent dies, by any signal, the pipe closes and the child
stops (``--stop-with-parent``). Its output goes through a pump thread into ``<run directory>/<role>.log``; the last
lines are kept for the error message. The child leads its own session. So ctrl-C in a terminal reaches only the parent,
and no process that the child started outlives it: once it has ended, its process group is killed.

Thread-safe: one thread may wait while another stops.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mainstem.background import StopEvent
from mainstem.errors import InputError, MachineError, MainstemError, UnavailableError
from mainstem.exit_codes import DONE, NOT_NOW, REFUSED
from mainstem.node import early_log
from mainstem.node.roles import Role

_LOG = logging.getLogger("mainstem.node")
_TAIL_LINES = 20
_LOG_BYTES_MAX = 8 << 20
_ERROR = "error: "
_PREFIX = re.compile(r"^(mainstem: |error: )+")


class ChildFailedError(MachineError):
    """A process ended, or did not get ready, at its start. ``exit_code`` is None when it was still running."""

    def __init__(self, message: str, *, exit_code: int | None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Child:
    """A process from its start to its end."""

    def __init__(self, role: Role, run_directory: Path) -> None:
        self.role = role
        self.log_path = run_directory / f"{role.name}.log"
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._ready_line: str | None = None
        self._error_line: str | None = None
        self._drops_lines = False
        self._settled = StopEvent()  # it is ready, or has ended
        self._process = early_log.take(role.argv) or early_log.started(role.argv, role.environment)
        self._pump = threading.Thread(target=self._copy_output, name=f"output of {role.name}", daemon=True)
        self._pump.start()
        self._reaper = threading.Thread(target=self._reap, name=f"end of {role.name}", daemon=True)
        self._reaper.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    def wait_ready(self) -> str:
        """Wait for the child's ready line; returns its text after ``ready_prefix``.

        If the child ends before, its own error line is raised: as InputError or UnavailableError by its exit code, else
        as ChildFailedError. ChildFailedError is also raised when it takes too long.
        """
        if not self._settled.wait(self.role.ready_timeout_s):
            raise ChildFailedError(
                f"the {self.role.name} process was not ready within {self.role.ready_timeout_s:g} s; "
                f"its output is in {self.log_path}",
                exit_code=None,
            )
        if not self.running:
            self._pump.join(5)  # what it said last may still be in the pipe
        if self._ready_line is not None:
            return self._ready_line
        raise self._failure()

    def wait_ended(self, timeout_s: float | None = None) -> int | None:
        """Its exit code once it has ended and its process group is gone; None when the time is over before."""
        self._reaper.join(timeout_s)
        return None if self._reaper.is_alive() else self._process.returncode

    def finish(self) -> None:
        """Wait until it has ended by itself. Raises what ``wait_ready`` raises, unless it ended with code 0."""
        if self.wait_ended() != DONE:
            self._pump.join(5)  # what it said last may still be in the pipe
            raise self._failure()

    def refusal(self) -> InputError | None:
        """Why it ended, if it refused its arguments: a restart does not help. None if it may be started again."""
        self._pump.join(5)  # what it said last may still be in the pipe
        if self._process.returncode not in self.role.refusal_codes or not self._said_why:
            return None
        return InputError(self._last_words()) if _PREFIX.match(self._tail[-1]) else None

    def terminate(self) -> None:
        """Ask it to stop; returns at once."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    def kill(self) -> None:
        """End it and all that it started, now."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _reap(self) -> None:
        # Look without reaping: while the process is a zombie, no other process group can carry its number.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self.kill()
        self._process.wait()
        self._settled.set()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _copy_output(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output, self._log_file() as log:
            for raw in output:
                line = raw.decode(errors="replace").rstrip()
                if self._ready_line is None and line.startswith(self.role.ready_prefix):
                    self._ready_line = line[len(self.role.ready_prefix) :].strip()
                    self._settled.set()
                if line:
                    self._tail.append(line)
                if line.startswith(_ERROR):
                    self._error_line = line
                self._keep(log, raw)

    def _keep(self, log: IO[bytes], raw: bytes) -> None:
        """Write a line to the log file, or drop it if the disk refuses: a child whose output is not read would stop."""
        try:
            if log.tell() + len(raw) > _LOG_BYTES_MAX:
                self._turn_over(log)
            log.write(raw)
        except OSError as error:
            self._say_dropped(error)
        else:
            self._drops_lines = False

    def _say_dropped(self, error: OSError) -> None:
        if not self._drops_lines:
            self._drops_lines = True
            _LOG.warning("%s: lines are dropped: %s", self.log_path, error.strerror or error)

    @contextlib.contextmanager
    def _log_file(self) -> Iterator[IO[bytes]]:
        try:
            log = self.log_path.open("ab", buffering=0)
        except OSError as error:
            self._say_dropped(error)
            log = Path(os.devnull).open("ab", buffering=0)  # noqa: SIM115 closed below
        with log:
            yield log

    def _turn_over(self, log: IO[bytes]) -> None:
        """Start the log file again when it is full; what was in it is kept beside it, once."""
        self.log_path.with_suffix(".log.1").write_bytes(self.log_path.read_bytes())
        log.truncate(0)

    def _failure(self) -> MainstemError:
        """The error for an end that is a failure, of the kind that the child's exit code tells."""
        code = self._process.returncode
        if self._said_why and code in self.role.refusal_codes:
            return InputError(self._last_words())
        if self._said_why and code == NOT_NOW:
            return UnavailableError(self._last_words())
        return ChildFailedError(self._last_words(), exit_code=code)

    @property
    def _said_why(self) -> bool:
        """Whether the child ended by itself and printed the reason. An uncaught exception also exits with 1."""
        if self._process.returncode <= 0 or not self._tail:
            return False
        is_own_code = self._process.returncode != REFUSED
        return (is_own_code and self._error_line is not None) or not any("Traceback" in line for line in self._tail)

    def _last_words(self) -> str:
        """The child's own error line, or else how it ended and what it printed last."""
        last = self._tail[-1] if self._tail else ""
        if self._said_why:
            return _PREFIX.sub("", last if _PREFIX.match(last) else self._error_line or last)
        said = f": {last}" if last else ""
        when = " at start" if self._ready_line is None else ""
        return (
            f"the {self.role.name} process ended{when} with {exit_text(self._process.returncode)}{said}; "
            f"its output is in {self.log_path}"
        )


def exit_text(code: int | None) -> str:
    """``exit code 3``, or the name of the signal that ended the process."""
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
