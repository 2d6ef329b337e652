"""What is killed step by step and takes too long for the tests: ``python -m tests.torture.scenes``, a part of
``make torture``.

=========== ===========================================================================================================
rebuild     a changed pipeline is rebuilt, and its driver killed after each step of that, each in a rebuild of its own
outputs     a pipeline with two outputs, its driver and its workers killed after each step of a micro-batch
kafka       the same on Apache Kafka, if its jars are there
behind      a plain stream, killed after each step of a micro-batch while another writer's transaction is open before it
            in all partitions that it writes; then, with transactions that time out before it starts again, its JVM
table       ``ms.spark.table`` of a topic: the process that archives in its lake is killed before each read, or goes on
            beside it; Spark's JVM, its Python, its planner, a task and the log are killed in the middle of the read
outage      a log that stays away for longer than a minute, in the middle of a plain stream: its query waits and goes on
=========== ===========================================================================================================

Each ends with a run that nobody disturbs, and with the verdict on what kafka-python saw. A scene's result is a line of
standard output; the exit code is 1 when one has found a fault.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.produce.transaction_requests import open_transactions
from mainstem.lake.reading import read_lake
from tests.broker.harness import LogProcess
from tests.support.apache_kafka import ApacheKafka, has_kafka
from tests.support.eventually import eventually
from tests.torture.lake_process import archiving
from tests.torture.orders import Order, Target
from tests.torture.readers import by_kafka_python, open_partitions
from tests.torture.torture import Input, Torture, create_topics
from tests.torture.truth import Fault, Verdict, check, check_rebuilt, to_value
from tests.torture.work import Kind, Work

REBUILD_STEPS: Final = tuple(
    f"rebuild:{step}"
    for step in ("begun", "derived", "compared", "appended", "marked", "removed", "swapped", "said", "cleared")
)
TASK_STEPS: Final = ("task:initialized", "task:appended", "task:prepared")
DRIVER_STEPS: Final = ("driver:begun", "driver:decided", "driver:ended-first", "driver:ended-all", "driver:progress")
TABLE_KILLS: Final = tuple(
    [Order(step, target)]
    for step, targets in (("read:planned", ("self", "jvm", "log")), ("read:begun", ("self", "jvm", "driver", "log")))
    for target in targets
)
AWAY_S: Final = 70.0
LOST_AFTER: Final = ("driver:decided", "driver:ended-first")
"""After these a time-out aborts what is decided: that has to be said. Else nothing is lost."""
TIMEOUT_MS: Final = 10_000
_SINKS: Final = "mainstem-sink-"
_NUMBERS = itertools.count(1)
_RECORDS = 300
_BATCHES = 15
"""Record batches of a table's input, at least: its lake commits one at a time."""
_WORK_S: Final = 180.0
PARTITIONS: Final = 2
ON_KAFKA: Final = "kafka"


class Stage:
    """A query from one topic to others, on a log with a driver; what all scenes stand on."""

    def __init__(self, torture: Torture, bootstrap: str, directory: Path, kind: Kind) -> None:
        name = f"{kind}-{next(_NUMBERS)}"
        self.torture = torture
        self.bootstrap = bootstrap
        self.work = Work(kind, str(directory / f"checkpoint-{name}"), f"{name}-in", f"{name}-out", offsets_max=150)
        self.directory = directory
        create_topics(bootstrap, **{self.work.source: 2}, **dict.fromkeys(self.work.sinks, PARTITIONS))
        self.input = Input(bootstrap, self.work.source)

    def run(self, work: Work | None = None, kill: Sequence[Order] = (), records: int = _RECORDS) -> None:
        """Derive what is new, killed by these orders on the way."""
        self.torture.orders.give(kill)
        self.input.feed(records)
        self.torture.do(work or self.work)
        for order in kill:
            self.torture.counts[f"killed {order.target} at {order.step}"] += 1
        assert self.torture.orders.left == [], "nobody came to a step"

    def judged(self, verdict: Verdict) -> Verdict:
        """With the faults that any scene may have."""
        opened = {sink: open_partitions(self.bootstrap, sink) for sink in self.work.sinks}
        return verdict.with_faults(Fault("open", f"{sink}: {ends}") for sink, ends in opened.items() if ends)


def rebuild(stage: Stage, steps: Sequence[str] = REBUILD_STEPS) -> Verdict:
    """See the module. Between two rebuilds the query goes on for a while."""
    stage.run()
    version = 1
    for version, step in enumerate(steps, start=2):
        stage.run(replace(stage.work, version=version), [Order(step, "self")])
    stage.run(replace(stage.work, version=version))
    return stage.judged(check_rebuilt(stage.input.given, by_kafka_python(stage.bootstrap, stage.work.sink), version))


def outputs(
    stage: Stage, task_steps: Sequence[str] = TASK_STEPS, driver_steps: Sequence[str] = DRIVER_STEPS
) -> Verdict:
    """See the module."""
    stage.run()
    targets: list[tuple[str, Target]] = [(step, "self") for step in (*task_steps, *driver_steps)]
    for step, target in targets:
        stage.run(kill=[Order(step, target)])
    stage.run()
    seen = [record for sink in stage.work.sinks for record in by_kafka_python(stage.bootstrap, sink)]
    return stage.judged(check(stage.input.given, seen, is_ordered=False))


def behind(
    stage: Stage,
    task_steps: Sequence[str] = TASK_STEPS,
    driver_steps: Sequence[str] = DRIVER_STEPS,
    timed_out: Sequence[str] = ("task:prepared", *DRIVER_STEPS),
) -> Verdict:
    """See the module."""
    with _another_open(stage):
        stage.run()
        for step in (*task_steps, *driver_steps):
            stage.run(kill=[Order(step, "self")])
        stage.run()
    verdict = stage.judged(check(stage.input.given, by_kafka_python(stage.bootstrap, stage.work.sink)))
    for step in timed_out:
        verdict = verdict.with_faults(_timed_out(Stage(stage.torture, stage.bootstrap, stage.directory, "plain"), step))
    return verdict


def _timed_out(stage: Stage, step: str) -> Iterator[Fault]:
    """The JVM is killed after ``step`` and comes back when its transactions are over, behind another open one."""
    torture, work = stage.torture, replace(stage.work, timeout_ms=TIMEOUT_MS)
    with _another_open(stage):
        stage.input.feed(_RECORDS)
        torture.orders.give([Order(step, "jvm")])
        driver = torture.driver
        driver.do(work)
        eventually(lambda: not driver.is_alive, f"the end of the driver at {step}", within_s=_WORK_S)
        torture.counts[f"killed jvm at {step}"] += 1
        torture.replace_driver()
        with WireClient(stage.bootstrap) as client:
            eventually(lambda: not open_transactions(client, _SINKS), "the time-out", within_s=_WORK_S)
        driver = torture.driver
        driver.do(work)
        said = eventually(lambda: driver.said(1.0), f"the end of the query after {step}", within_s=_WORK_S)
    seen = by_kafka_python(stage.bootstrap, work.sink)
    if step in LOST_AFTER:
        if "are lost" not in said.get("failed", ""):
            yield Fault(
                "silent", f"after {step} the query said {said}, and {len(seen)} of {_RECORDS} records are there"
            )
    else:
        if "done" not in said:
            yield Fault("failed", f"after {step}: {said}")
        yield from check(stage.input.given, seen).faults


@contextmanager
def _another_open(stage: Stage) -> Iterator[None]:
    """Another writer's transaction, open in every partition of the output; aborted at the end of the block."""
    name = {"transactional.id": f"other-{next(_NUMBERS)}", "transaction.timeout.ms": 900_000, "log_level": 0}
    other = Producer({"bootstrap.servers": stage.bootstrap, **name})
    other.init_transactions(_WORK_S)
    other.begin_transaction()
    for partition in range(PARTITIONS):
        other.produce(stage.work.sink, to_value("another", partition), partition=partition)
    assert other.flush(_WORK_S) == 0
    try:
        yield
    finally:
        other.abort_transaction(_WORK_S)


def table(stage: Stage, kills: Sequence[Sequence[Order]] = TABLE_KILLS) -> Verdict:
    """See the module. Each read is written to a topic of its own, by one write that has a name."""
    verdict, lake = Verdict(0, 0, 0), Path(stage.work.checkpoint)
    for number, orders in enumerate(kills):
        work = replace(stage.work, sink=f"{stage.work.sink}-{number}")
        create_topics(stage.bootstrap, **{work.sink: PARTITIONS})
        for _ in range(_BATCHES):
            stage.input.feed(_RECORDS // _BATCHES)
        with ExitStack() as until_read:
            with archiving(stage.bootstrap, stage.work.source, lake, commits=3):
                pass
            archived = sum(read_lake(lake).position.values())
            if number % 2:
                until_read.enter_context(archiving(stage.bootstrap, stage.work.source, lake, commits=1))
            stage.run(work, orders, records=0)
        found = check(stage.input.given, by_kafka_python(stage.bootstrap, work.sink), is_ordered=False)
        verdict = found.with_faults(verdict.faults)
        if not 0 < archived < len(stage.input.given):
            verdict = verdict.with_faults([Fault("unhurt", f"the lake has {archived} records, so one half is empty")])
    return verdict


def outage(stage: Stage) -> Verdict:
    """See the module."""
    stage.run()
    stage.torture.log_is_away_s = AWAY_S
    begin_s = time.monotonic()
    stage.run(kill=[Order("driver:decided", "log", after=1)], records=4 * _RECORDS)
    stage.torture.log_is_away_s = 0.0
    stage.run()
    verdict = check(stage.input.given, by_kafka_python(stage.bootstrap, stage.work.sink))
    if time.monotonic() - begin_s < AWAY_S:
        verdict = verdict.with_faults([Fault("unhurt", "the log was not away")])
    failed = stage.torture.counts["queries failed"]
    return stage.judged(verdict.with_faults([Fault("failed", f"the query failed {failed} times")] if failed else ()))


SCENES: Final[dict[str, tuple[Kind, Callable[[Stage], Verdict]]]] = {
    "rebuild": ("totals", rebuild),
    "outputs": ("split", outputs),
    ON_KAFKA: ("split", outputs),
    "behind": ("plain", behind),
    "table": ("table", table),
    "outage": ("plain", outage),
}


def main() -> int:
    arguments = _arguments()
    directory = Path(arguments.directory or tempfile.mkdtemp(prefix="mainstem-scenes-"))
    faults = 0
    for name in arguments.scene or SCENES:
        kind, scene = SCENES[name]
        place, begin_s = directory / f"{name}-{time.time_ns()}", time.monotonic()
        if name == ON_KAFKA and not has_kafka():
            _say(f"{name}: left out, because Apache Kafka's jars cannot be had")
            continue
        log = ApacheKafka() if name == ON_KAFKA else LogProcess(place / "data")
        with log, Torture(place, log) as torture:
            create_topics(log.bootstrap, __mainstem_progress=1)
            verdict = scene(Stage(torture, log.bootstrap, place, kind))
        kills = sum(count for what, count in torture.counts.items() if what.startswith("killed "))
        faults += len(verdict.faults)
        _say(f"{name}: {kills} kills, {verdict} ({time.monotonic() - begin_s:.0f} s)")
        for fault in verdict.faults[:10]:
            _say(f"  {fault.kind}: {fault.what}")
    return 1 if faults else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.torture.scenes", description=__doc__.splitlines()[0])
    parser.add_argument("scene", nargs="*", choices=[*SCENES, []], help="which; default: all")
    parser.add_argument("--directory", help="where logs and checkpoints are kept; default: a temporary one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
