"""What goes wrong on purpose: the log is killed and started again, stopped and let go on, and clients are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.broker.harness import LogProcess, child_environment
from tests.history.client import HUNG

_GRACE_S = 200.0
_DRAINS_MAX = 4
KINDS = ("kill log", "stop log", "kill client")


@dataclass(frozen=True)
class Plan:
    """Which clients of which kind run against which topic, for so many seconds."""

    topic: str
    target: str
    partitions: int
    seconds: float
    seed: int
    kinds: tuple[str, ...]


class Clients:
    """The clients of a history, each with a file of its own. A killed one is followed by another with a new name."""

    def __init__(self, plan: Plan, log: LogProcess, directory: Path, first: int = 0) -> None:
        """``first``: the number before that of the first client, so that two lots have different names."""
        self._plan = plan
        self._log = log
        self._directory = directory
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._started = first
        self._end_s = time.monotonic() + plan.seconds
        for kind in plan.kinds:
            self._start(kind)

    def _start(self, kind: str, *more: str) -> None:
        self._started += 1
        plan, name = self._plan, f"{kind}{self._started}"
        argv = [sys.executable, "-m", "tests.history.client", "--kind", kind, "--name", name]
        argv += ["--bootstrap", self._log.bootstrap, "--topic", plan.topic, "--target", plan.target]
        argv += ["--partitions", str(plan.partitions), "--seed", str(plan.seed * 1000 + self._started)]
        argv += ["--seconds", str(max(0.0, self._end_s - time.monotonic()))]
        argv += ["--out", str(self._directory / f"{name}.jsonl")]
        argv += more
        self._running.append((kind, subprocess.Popen(argv, env=child_environment(), stdin=subprocess.DEVNULL)))

    def kill_one(self, choice: random.Random) -> None:
        """SIGKILL a client, and start another in its place."""
        kind, process = self._running.pop(choice.randrange(len(self._running)))
        process.kill()
        process.wait(_GRACE_S)
        self._start(kind)

    def replace_hung(self) -> int:
        """Start another for each client that its own library has let hang; how many there were."""
        hung = [item for item in self._running if item[1].poll() == HUNG]
        for item in hung:
            self._running.remove(item)
            self._start(item[0])
        return len(hung)

    def wait(self) -> list[int]:
        """Wait until all have ended by themselves; their exit codes."""
        codes = [process.wait(_GRACE_S) for _, process in self._running]
        self._running.clear()
        return codes

    def drain(self) -> list[int]:
        """A last mover moves what is left; if its library lets it hang, another does."""
        codes = [HUNG]
        while codes[-1] == HUNG and len(codes) < _DRAINS_MAX:
            self._start("mover", "--drain")
            codes += self.wait()
        return codes[1:]

    def stop(self) -> None:
        for _, process in self._running:
            if process.poll() is None:
                process.kill()
                process.wait(_GRACE_S)


def disturb(log: LogProcess, clients: Clients, plan: Plan) -> dict[str, int]:
    """Until the time is over: something every few seconds, by the seed's choice; how often each was done."""
    choice = random.Random(plan.seed)
    done = {"kill log": 0, "stop log": 0, "kill client": 0, "hung": 0}
    end_s = time.monotonic() + plan.seconds - 5
    while time.monotonic() < end_s:
        time.sleep(choice.uniform(1.0, 4.0))  # the load's own time, in which it is left alone
        kind = choice.choices(KINDS, weights=(4, 2, 2))[0]
        done[kind] += 1
        done["hung"] += clients.replace_hung()
        if kind == "kill log":
            log.kill()
            log.start()
        elif kind == "stop log":
            os.kill(log.pid, signal.SIGSTOP)
            time.sleep(choice.uniform(0.2, 3.0))  # how long it stands still
            os.kill(log.pid, signal.SIGCONT)
        else:
            clients.kill_one(choice)
    return done
