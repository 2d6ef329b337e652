"""Orders to kill: files in a directory, by which any process of Spark learns at which step it, or another, is to die.

Orders are executed one after the other, each once: who executes one makes a marker beside it first. ``KillingSteps``
is a ``StepObserver`` of the product; the directory comes by the environment, as Spark starts its processes
and not the test. Who is told to kill another process kills itself as well, so that the step is the last that was done,
unless the order is ``alone``: then it lives on and notices later what has happened, as after a kill from outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

DIRECTORY = "MAINSTEM_TORTURE_DIRECTORY"
STEPS = "steps"
"""The file in the directory that has a line for each step that was done."""
Target = Literal["self", "jvm", "driver", "log", "stop"]
_NEVER_S = 600.0


@dataclass(frozen=True)
class Order:
    """At the ``after``-th time (from 0) that ``step`` is done: kill ``target``, or ``stop`` oneself for ever."""

    step: str
    target: Target
    after: int = 0
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.target} at {self.step}"


class Orders:
    """The directory, as the test sees it. One batch of orders at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._count = 0

    def give(self, orders: Iterable[Order]) -> None:
        """Behind those that were given before."""
        for order in orders:
            path = self.directory / f"order-{self._count:04}"
            path.with_suffix(".new").write_text(json.dumps(asdict(order)))
            path.with_suffix(".new").rename(path)
            self._count += 1

    def name_process(self, name: str, pid: int) -> None:
        """Say who ``jvm``, ``driver`` or ``log`` is from now on."""
        path = self.directory / f"pid-{name}"
        path.with_suffix(".new").write_text(str(pid))
        path.with_suffix(".new").rename(path)

    @property
    def executed(self) -> list[Order]:
        return [_read(self.directory / f"order-{number:04}") for number in range(self._count) if self._is_done(number)]

    @property
    def left(self) -> list[Order]:
        """Those that nobody has executed yet."""
        numbers = [number for number in range(self._count) if not self._is_done(number)]
        return [_read(self.directory / f"order-{number:04}") for number in numbers]

    @property
    def steps(self) -> list[str]:
        """The names of all steps that any process has done."""
        path = self.directory / STEPS
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def _is_done(self, number: int) -> bool:
        return (self.directory / f"done-{number:04}").exists()


class KillingSteps:
    """A ``StepObserver``: executes the next order if it is for the step that has just been done."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory

    def done(self, step: str) -> None:
        where = os.environ.get(DIRECTORY)
        directory = self._directory or (Path(where) if where else None)
        if directory is None:
            return
        with (directory / STEPS).open("a") as steps:
            steps.write(f"{step} {os.getpid()}\n")
        number = _next(directory)
        order = None if number is None else _read(directory / f"order-{number:04}")
        if order is None or order.step != step:
            return
        for turn in range(order.after):
            if _make(directory / f"turn-{number:04}-{turn}"):
                return
        if _make(directory / f"done-{number:04}"):
            _execute(order, directory)

    __call__ = done


def _next(directory: Path) -> int | None:
    """The number of the first order that nobody has executed."""
    numbers = sorted(int(path.name.removeprefix("order-")) for path in directory.glob("order-????"))
    return next((number for number in numbers if not (directory / f"done-{number:04}").exists()), None)


def _execute(order: Order, directory: Path) -> None:
    if order.target == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    if order.target != "self":
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((directory / f"pid-{order.target}").read_text()), signal.SIGKILL)
        if order.alone or order.target == "log":
            return
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(_NEVER_S)  # the signal is on its way


def _make(path: Path) -> bool:
    """Whether this process is the one that made the file."""
    try:
        path.open("x").close()
    except FileExistsError:
        return False
    return True


def _read(path: Path) -> Order:
    return Order(**json.loads(path.read_text()))
