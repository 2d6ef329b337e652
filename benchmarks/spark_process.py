"""A Spark program as a process of its own, ordered about from here; and the processor time of all that it started."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.spark_kafka import ensure_spark_kafka

_ANSWER_S_MAX = 600.0
_START_S_MAX = 600.0
_STOP_S_MAX = 60.0
_OWN = {"mainstem": "mainstem", "kafka": "bare"}
_TICKS = os.sysconf("SC_CLK_TCK")


class Used(NamedTuple):
    """Processor time in seconds, user and system together."""

    java: float
    python: float


class SparkProgram:
    """``benchmarks.spark_program`` in a session of this kind; a context manager that ends it."""

    def __init__(self, kind: str) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark_program", kind],
            env=ensure_spark_kafka().environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        started = self._answer(_START_S_MAX)
        self.version = str(started["version"])
        self.start_s = float(started["seconds"])
        self._java = int(started["java"])

    def __enter__(self) -> SparkProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def order(self, do: str, **what: Any) -> dict[str, Any]:
        """Have it done. The answer has ``seconds``, and ``java_s`` and ``python_s`` of processor time."""
        before = self.used()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **what}).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._answer(_ANSWER_S_MAX)
        after = self.used()
        return {**answer, "java_s": after.java - before.java, "python_s": after.python - before.python}

    def used(self) -> Used:
        """What the JVM has used, and what Python has: the driver's, the planners' and the workers', ended ones too."""
        parents = _parents()
        family = {self._process.pid}
        for pid in sorted(parents):
            _join_family(pid, parents, family)
        java = python = 0.0
        for pid in family:
            own, children = _times(pid)
            if pid == self._java:
                java += own
                python += children  # planners that have ended
            else:
                python += own + children
        return Used(java, python)

    def close(self) -> None:
        end_process(self._process)
        self._selector.close()
        self._said.close()

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline() if self._selector.select(timeout_s) else b""
        if not line:
            self._process.kill()
            self._said.seek(0)
            raise RuntimeError(f"the Spark program failed: {self._said.read()[-3000:].decode(errors='replace')}")
        answer: dict[str, Any] = json.loads(line)
        return answer


class SparkPrograms:
    """The program of each connector: one for both in a session of this ``kind``, or with ``own`` one for each.

    With ``own``, Mainstem runs in ``mainstem.spark.session``, and spark-sql-kafka in a session with Spark's settings.
    """

    def __init__(self, kind: str, connectors: Iterable[str] = ("mainstem", "kafka")) -> None:
        self._kinds = {name: _OWN[name] if kind == "own" else kind for name in connectors}
        self._programs: dict[str, SparkProgram] = {}
        self._stack = ExitStack()

    def __enter__(self) -> SparkPrograms:
        with ExitStack() as stack:
            self._programs = {kind: stack.enter_context(SparkProgram(kind)) for kind in set(self._kinds.values())}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def order(self, do: str, *, format: str = "mainstem", **what: Any) -> dict[str, Any]:
        """Have it done by the program of the connector ``format``; the answer is that of ``SparkProgram.order``."""
        return self._programs[self._kinds[format]].order(do, format=format, **what)


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Close the standard input of a process that then ends, and kill it where it does not."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)
    if process.stdout is not None:
        process.stdout.close()


def _parents() -> dict[int, int]:
    """Process → its parent, of all there are."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(path.parent.name)] = int(fields[1])
    return parents


def _join_family(pid: int, parents: dict[int, int], family: set[int]) -> None:
    """Put the process into the family if any of its ancestors is in it."""
    line = []
    while pid in parents and pid not in family:
        line.append(pid)
        pid = parents[pid]
    if pid in family:
        family.update(line)


def _times(pid: int) -> tuple[float, float]:
    """The processor time of a process, and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0
    own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return own / _TICKS, children / _TICKS
