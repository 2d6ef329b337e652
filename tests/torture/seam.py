"""Micro-batches without Spark: drivers, committers and workers are forked, killed and stopped at the steps of the sink.

``python -m tests.torture.seam --directory DIR --seed N --histories N`` starts a log, runs histories against it one
after the other, and writes a line of JSON for each. ``--bootstrap HOST:PORT`` names a log that runs already, such as
Apache Kafka; that one is not killed. A history is a query of a few micro-batches: its driver begins a
run, has tasks done by workers that it keeps from one micro-batch to the next, decides, and writes down that the
micro-batch is committed, as Spark does. Who dies is replaced: a worker by the driver, a driver by the history, with
another number of tasks. Who is stopped counts as dead and is replaced, too, and goes on later, when nobody waits for it
any more: a zombie. In histories that are ``per_decision``, other processes make the decisions, as for a plain DataFrame
stream: most often one that has made an earlier one, sometimes a new one. In other histories the driver decides.

The process has one thread, so that it may fork. What workers load when they first append is loaded before the forks.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import pickle
import random
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

import mainstem.record.arrow_encode
import mainstem.record.arrow_partition  # noqa: F401
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.topics import create_topic
from mainstem.errors import InvalidProducerEpochError, MainstemError, ProducerFencedError, TransactionTimeoutError
from mainstem.spark.options.options import LogOptions, WriteOptions
from mainstem.spark.sink.sink_run import Prepared, SinkRun
from mainstem.spark.sink.task_appender import Rows
from mainstem.spark.sink.transactions import begin_run, decide_and_finish, end_open_transactions, prepare
from tests.broker.harness import LogProcess
from tests.support.descriptors import is_readable
from tests.torture.mutants import build_in
from tests.torture.orders import KillingSteps, Order, Orders, Target
from tests.torture.readers import by_kafka_python, open_partitions
from tests.torture.truth import Fault, Given, check, to_value

TASK_STEPS = ("task:asked", "task:initialized", "task:half", "task:appended", "task:prepared", "task:told")
DRIVER_STEPS = ("driver:asked", "driver:begun", "driver:decided", "driver:ended-first", "driver:ended-all")
_ATTEMPTS_MAX = 6
_RUNS_MAX = 30
_LOOK_S = 0.005
_KEPT_COMMITTERS = 0.8
_LOST = 3
_STEP_S = 120.0
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class History:
    """What is to be done, all of it drawn from the seed."""

    seed: int
    bootstrap: str
    directory: Path
    batches: int
    rows: int
    per_decision: bool
    orders: tuple[Order, ...]

    @classmethod
    def drawn(cls, seed: int, bootstrap: str, directory: Path) -> History:
        choice = random.Random(seed)
        orders = tuple(_drawn_order(choice) for _ in range(choice.randint(1, 6)))
        return cls(seed, bootstrap, directory, choice.randint(3, 6), 12, choice.random() < 0.5, orders)

    @property
    def topic(self) -> str:
        return f"seam-{self.seed}"

    @property
    def log(self) -> LogOptions:
        return LogOptions(self.bootstrap, timeout_s=60.0)

    @property
    def write(self) -> WriteOptions:
        return WriteOptions(self.log, self.topic, None, None, "none", None)

    @property
    def given(self) -> list[Given]:
        places = [(batch, row) for batch in range(self.batches) for row in range(self.rows)]
        return [Given(f"b{batch}", row, batch, row) for batch, row in places]


def _drawn_order(choice: random.Random) -> Order:
    step = choice.choice(TASK_STEPS + DRIVER_STEPS)
    target: Target = choice.choices(("self", "stop", "log"), weights=(6, 2, 1))[0]  # type: ignore[assignment]
    return Order(step, target, after=choice.randint(0, 3))


class Fork:
    """A forked process that answers requests until its connection ends."""

    _connections: ClassVar[list[socket.socket]] = []

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        ours, theirs = socket.socketpair()
        self._connections.append(ours)
        self.pid = os.fork()
        if self.pid == 0:
            for connection in self._connections:  # else another's end would not be seen as long as this one lives
                connection.close()
            code = 1
            try:
                _serve(theirs, answer)
                code = 0
            finally:
                os._exit(code)
        theirs.close()
        self._connection = ours

    def ask(self, request: Any) -> None:
        with contextlib.suppress(OSError):
            _send(self._connection, request)

    def answer(self) -> Any:
        """The answer; None when it has died or was stopped before it gave one."""
        deadline_s = time.monotonic() + _STEP_S
        while not is_readable(self._connection, _LOOK_S):
            assert time.monotonic() < deadline_s, f"{self.pid} does not answer"
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                return None
        return _receive(self._connection)

    def leave(self) -> None:
        """Want nothing more of it, dead or not."""
        self._connections.remove(self._connection)
        self._connection.close()


def _serve(connection: socket.socket, answer: Callable[[Any], Any]) -> None:
    while (request := _receive(connection)) is not None:
        _send(connection, answer(request))


def _send(connection: socket.socket, value: Any) -> None:
    data = pickle.dumps(value)
    connection.sendall(struct.pack(">I", len(data)) + data)


def _receive(connection: socket.socket) -> Any:
    """None at the end."""
    with contextlib.suppress(ConnectionError), connection.makefile("rb") as stream:
        head = stream.read(4)
        if len(head) == 4:
            return pickle.loads(stream.read(*struct.unpack(">I", head)))
    return None


# ---- what workers and committers do


def _task(history: History, steps: KillingSteps, request: tuple[SinkRun, int, int, int, int]) -> Prepared | None:
    run, batch_id, task, tasks, attempt = request
    steps("task:asked")
    rows = [row for row in range(history.rows) if row % tasks == task]
    try:
        with prepare(run, batch_id, task, history.write, steps, attempt=attempt) as preparing:
            for turn, part in enumerate((rows[::2], rows[1::2])):
                if part and not preparing.is_decided:
                    values = pa.array([to_value(f"b{batch_id}", row) for row in part], pa.binary())
                    preparing.out.append(history.topic, Rows(values, pa.array([str(row) for row in part])))
                if turn == 0:
                    steps("task:half")
    except MainstemError:
        return None
    steps("task:told")
    return preparing.prepared


def _decide(history: History, steps: KillingSteps, request: tuple[SinkRun, int, list[Prepared]]) -> bool:
    run, batch_id, prepared = request
    decide_and_finish(run, batch_id, prepared, on_step=steps)
    return True


# ---- what a driver does


class Driver:
    """One run of the query, in a process of its own."""

    def __init__(self, history: History, number: int) -> None:
        self._history = history
        self._random = random.Random(f"{history.seed}-{number}")
        self._steps = KillingSteps(history.directory)
        self._workers: list[Fork] = []
        self._committers: list[Fork | None] = [None, None]
        self._chosen = random.Random(f"{history.seed}-{number}-committers")
        self._query_run = str(number)

    def run(self) -> None:
        history = self._history
        tasks = self._random.randint(1, 4)
        run = SinkRun(history.log, history.topic, query_run=self._query_run)
        if not history.per_decision:
            run = begin_run(history.log, history.topic)
        for batch_id in range(history.batches):
            committed = history.directory / f"commit-{batch_id}"
            if not committed.exists():
                prepared = self._prepared(run, batch_id, tasks)
                self._steps("driver:asked")
                self._decide(run, batch_id, prepared)
                committed.open("x").close()  # fails for a zombie, as it does in Spark

    def _prepared(self, run: SinkRun, batch_id: int, tasks: int) -> list[Prepared]:
        """Two tasks at a time; one that fails is done again, by another worker when its own is lost."""
        prepared = []
        todo = [(task, 0) for task in range(tasks)]
        while todo:
            now, todo = todo[:2], todo[2:]
            while len(self._workers) < len(now):
                self._workers.append(Fork(lambda request: _task(self._history, self._steps, request)))
            workers = self._workers[: len(now)]
            for worker, (task, attempt) in zip(workers, now, strict=True):
                worker.ask((run, batch_id, task, tasks, attempt))
            for worker, (task, attempt) in zip(workers, now, strict=True):
                report = worker.answer()
                if report is None:
                    assert attempt < _ATTEMPTS_MAX, f"task {task} failed too often"
                    self._workers.remove(worker)
                    worker.leave()
                    todo.append((task, attempt + 1))
                else:
                    prepared.append(report)
        return prepared

    def _decide(self, run: SinkRun, batch_id: int, prepared: list[Prepared]) -> None:
        if not self._history.per_decision:
            _decide(self._history, self._steps, (run, batch_id, prepared))
            return
        place = self._chosen.randrange(
            len(self._committers)
        )  # as in Spark: most often the same process, or another one
        kept = self._committers[place]
        committer = kept or Fork(lambda request: _decide(self._history, self._steps, request))
        committer.ask((run, batch_id, prepared))
        is_done = committer.answer()
        self._committers[place] = committer if self._chosen.random() < _KEPT_COMMITTERS else None
        if self._committers[place] is None:
            committer.leave()
        if not is_done:
            raise SystemExit(_LOST)  # Spark's query fails with its commit


# ---- what a history does


class Query:
    """Drivers, one after the other, until the last micro-batch is committed; and those who are left behind."""

    def __init__(self, history: History, log: LogProcess | None) -> None:
        self._history = history
        self._log = log
        self._random = random.Random(f"{history.seed}-wake")
        self._groups: list[int] = []
        self.orders = Orders(history.directory)
        self.faults: list[Fault] = []

    @property
    def runs(self) -> int:
        return len(self._groups)

    def run(self) -> None:
        history = self._history
        if self._log is not None:
            self.orders.name_process("log", self._log.pid)
        self.orders.give(order for order in history.orders if self._log is not None or order.target != "log")
        last = history.directory / f"commit-{history.batches - 1}"
        while not last.exists():
            assert self.runs < _RUNS_MAX, "there is no end to it"
            self._run_driver()
        self._end_all()
        end_open_transactions(history.log, history.topic)
        self.faults += check(history.given, by_kafka_python(history.bootstrap, history.topic), is_ordered=False).faults
        opened = open_partitions(history.bootstrap, history.topic)
        self.faults += [Fault("open", f"partition {number}: {ends}") for number, ends in opened.items()]

    def _run_driver(self) -> None:
        """Until it ends or is stopped; those that were stopped before may go on in the middle of it."""
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os._exit(_driver_code(self._history, self.runs))
        self._groups.append(pid)
        done, deadline_s = 0, time.monotonic() + _STEP_S
        while True:
            assert time.monotonic() < deadline_s, "a driver does not come to an end"
            self._keep_log()
            ended, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if ended:
                break
            commits = len(list(self._history.directory.glob("commit-*")))
            if commits > done and self._random.random() < 0.5:
                self._wake()
            done = commits
            time.sleep(_LOOK_S)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) not in (0, _LOST):
            self.faults.append(Fault("crash", f"driver {self.runs}: exit code {os.WEXITSTATUS(status)}"))

    def _wake(self) -> None:
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGCONT)

    def _end_all(self) -> None:
        """Let all go on that were left behind, and wait until the last of them has found out and ended."""
        deadline_s = time.monotonic() + _STEP_S
        while self._live_groups():
            assert time.monotonic() < deadline_s, "a process lives on"
            self._wake()
            self._keep_log()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            time.sleep(_LOOK_S)

    def _live_groups(self) -> list[int]:
        live = []
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, 0)
                live.append(group)
        return live

    def _keep_log(self) -> None:
        if self._log is not None and not self._log.is_alive:
            self._log.kill()
            self._log.start()
            self.orders.name_process("log", self._log.pid)


def _driver_code(history: History, number: int) -> int:
    """In the fork: run a driver; its exit code."""
    try:
        Driver(history, number).run()
    except (FileExistsError, ProducerFencedError, InvalidProducerEpochError, TransactionTimeoutError):
        return _LOST  # another has taken over, or has aborted what is not decided: the query fails and is started again
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:  # noqa: BLE001 - a fork must not go on in its parent's code
        traceback.print_exc()
        return 1
    return 0


def main() -> int:
    arguments = _arguments()
    build_in(arguments.mutant)
    pa.array([b""])  # pyarrow loads pandas now, and not in each fork
    _adopt_orphans()
    deadline_s = time.monotonic() + arguments.seconds
    with LogProcess(arguments.directory / "data") if arguments.bootstrap is None else nullcontext() as log:
        bootstrap = arguments.bootstrap if log is None else log.bootstrap
        for seed in range(arguments.seed, arguments.seed + arguments.histories):
            if time.monotonic() > deadline_s:
                break
            history = History.drawn(seed, bootstrap, arguments.directory / f"history-{seed}")
            if arguments.kill:
                orders = tuple(Order(step, "self", after=1) for step in arguments.kill)
                history = replace(history, orders=orders, per_decision=False)
            history.directory.mkdir()
            with WireClient(bootstrap) as client:
                create_topic(client, history.topic, partitions=3)
            query = Query(history, log)
            query.run()
            executed = [str(order) for order in query.orders.executed]
            told = {"seed": seed, "runs": query.runs, "executed": executed, "faults": query.faults}
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()
    return 0


def _adopt_orphans() -> None:
    """Whoever loses its parent becomes a child of this process, which waits for its end."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a log that runs already")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--histories", type=int, default=10)
    parser.add_argument("--kill", action="append", metavar="STEP", help="in place of what is drawn; may be repeated")
    parser.add_argument("--mutant", default="", help="a fault of tests.torture.mutants to build in")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no history after that")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
