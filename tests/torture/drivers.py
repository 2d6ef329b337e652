"""Spark drivers as children: one that works, and one that stands by with its session started, for when it is killed."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from tests.broker.harness import child_environment
from tests.torture.orders import DIRECTORY
from tests.torture.processes import kill_all_with
from tests.torture.work import Work

_CHECKOUT = Path(__file__).resolve().parents[2]
_START_S = 300.0


class DriverDiedError(Exception):
    """The driver's Python has ended, or its JVM."""


class Driver:
    """A process of ``tests.torture.program``."""

    def __init__(self, directory: Path, bootstrap: str, *, mutant: str = "") -> None:
        paths = os.pathsep.join([str(_CHECKOUT / "src"), str(_CHECKOUT)])
        environment = {**child_environment(), "PYTHONPATH": paths, DIRECTORY: str(directory)}
        environment.pop("PYSPARK_PYTHON", None)
        self._mark = f"MAINSTEM_TORTURE_DRIVER={uuid.uuid4()}"
        environment.update([self._mark.split("=")])
        argv = [sys.executable, "-m", "tests.torture.program", "--bootstrap", bootstrap]
        argv += ["--directory", str(directory), "--mutant", mutant]
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with (directory / "drivers.log").open("ab") as errors:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
            )
        self._is_ready = False
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Raises DriverDiedError when it ends before it is."""
        deadline_s = time.monotonic() + _START_S
        while not self._is_ready and self.said(0.5) is None:
            if not self.is_alive:
                raise DriverDiedError(f"at its start, with {self._process.returncode}")
            assert time.monotonic() < deadline_s, "Spark did not start"
        self._is_ready = True

    def do(self, work: Work) -> None:
        """Begin; ``said`` tells when it is over."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(work.to_line() + "\n")
            self._process.stdin.flush()

    def said(self, timeout_s: float) -> dict[str, Any] | None:
        """What it said next; None when nothing came in time."""
        try:
            return self._said.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def end(self) -> None:
        """SIGKILL it and all that it ever started."""
        kill_all_with(self._mark)
        self._process.wait(30)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(json.loads(line))
        self._process.stdout.close()
