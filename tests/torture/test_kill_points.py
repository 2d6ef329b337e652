"""Spark killed after each step of the sink: what a reader of another make sees is each record once, in its order.

The last test is a short round of the long proof: kills at random times. ``MAINSTEM_TORTURE_SEED`` chooses others, and
``MAINSTEM_TORTURE_KILLS`` says how many (3).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.harness import LogProcess
from tests.torture import scenes
from tests.torture.orders import Order, Target
from tests.torture.readers import by_kafka_python, open_partitions, progress_of
from tests.torture.run import Round
from tests.torture.torture import Input, Torture, create_topics
from tests.torture.truth import check, check_progress, check_totals
from tests.torture.work import Kind, Work

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]
TASK_STEPS = ("task:initialized", "task:appended", "task:prepared")
DRIVER_STEPS = ("driver:begun", "driver:decided", "driver:ended-first", "driver:ended-all", "driver:progress")
BEHIND = ("driver:decided", "driver:ended-first")
_FEEDS_MAX = 8
SEED = int(os.environ.get("MAINSTEM_TORTURE_SEED", "1"))
KILLS = int(os.environ.get("MAINSTEM_TORTURE_KILLS", "3"))


class Query:
    """A query from one topic to another, on the module's log."""

    def __init__(self, torture: Torture, log: LogProcess, directory: Path, kind: Kind) -> None:
        self.torture = torture
        self.source, self.sink = f"{kind}-in", f"{kind}-out"
        self.bootstrap = log.bootstrap
        create_topics(log.bootstrap, **{self.source: 2, self.sink: 3})
        self.input = Input(log.bootstrap, self.source)
        self.work = Work(kind, str(directory / "checkpoint"), self.source, self.sink, offsets_max=150)

    def run_with(self, orders: list[Order]) -> None:
        """Until all orders are executed, and all that was given is derived."""
        self.torture.orders.give(orders)
        for _ in range(_FEEDS_MAX):
            self.input.feed(1500)
            self.torture.do(self.work)
            if not self.torture.orders.left:
                return
        raise AssertionError(f"nobody came to {self.torture.orders.left}")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogProcess]:
    with LogProcess(tmp_path_factory.mktemp("log") / "data") as log:
        create_topics(log.bootstrap, __mainstem_progress=1)
        yield log


@pytest.fixture(scope="module")
def torture(log: LogProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Torture]:
    with Torture(tmp_path_factory.mktemp("torture"), log) as torture:
        yield torture


def at(target: Target, steps: tuple[str, ...], *, after: int = 1) -> list[Order]:
    return [Order(step, target, after) for step in steps]


# A plain stream commits in a process of its own, so there are three who may die: that, the JVM, and the workers.
# A JVM takes long to start again, so it dies behind the decision only.
PLAIN = [
    *at("self", TASK_STEPS + DRIVER_STEPS),
    *at("jvm", ("driver:decided",)),
]
# An App's driver dies behind the decision in the test of an aggregation, behind the first end in that of outputs.
PIPELINE = [*at("self", TASK_STEPS), *at("driver", tuple(step for step in DRIVER_STEPS if step not in BEHIND))]


@pytest.mark.parametrize(("kind", "orders"), [("plain", PLAIN), ("pipeline", PIPELINE)])
def test_a_query_killed_after_each_step_derives_each_record_once(
    torture: Torture, log: LogProcess, tmp_path: Path, kind: Kind, orders: list[Order]
) -> None:
    query = Query(torture, log, tmp_path, kind)
    query.run_with(orders)
    seen = by_kafka_python(log.bootstrap, query.sink)
    assert check(query.input.given, seen).faults == ()
    assert list(check_progress(query.input.given, seen, progress_of(log.bootstrap, query.sink))) == []
    assert open_partitions(log.bootstrap, query.sink) == {}
    uncommitted = by_kafka_python(log.bootstrap, query.sink, isolation="read_uncommitted")
    assert "duplicate" in {fault.kind for fault in check(query.input.given, uncommitted).faults}  # the kills did hit


def test_an_aggregation_killed_in_the_middle_counts_each_record_once(
    torture: Torture, log: LogProcess, tmp_path: Path
) -> None:
    query = Query(torture, log, tmp_path, "totals")
    query.run_with([*at("self", ("task:prepared",)), *at("driver", ("driver:decided",))])
    assert check_totals(query.input.given, by_kafka_python(log.bootstrap, query.sink)).faults == ()
    assert open_partitions(log.bootstrap, query.sink) == {}


def test_a_batch_write_that_has_a_name_counts_once_however_often_its_driver_dies(
    torture: Torture, log: LogProcess, tmp_path: Path
) -> None:
    query = Query(torture, log, tmp_path, "batch")
    orders = [*at("self", TASK_STEPS, after=0), *at("jvm", ("driver:decided",), after=0)]
    torture.orders.give(orders)
    query.input.feed(1500)
    torture.do(query.work)
    assert torture.orders.left == []
    torture.do(query.work)
    assert check(query.input.given, by_kafka_python(log.bootstrap, query.sink)).faults == ()
    assert open_partitions(log.bootstrap, query.sink) == {}


def test_a_rebuild_whose_driver_dies_appends_what_differs_once(
    log: LogProcess, torture: Torture, tmp_path: Path
) -> None:
    stage = scenes.Stage(torture, log.bootstrap, tmp_path, "totals")
    assert scenes.rebuild(stage, ["rebuild:removed"]).faults == ()


def test_several_outputs_whose_driver_dies_count_together(log: LogProcess, torture: Torture, tmp_path: Path) -> None:
    stage = scenes.Stage(torture, log.bootstrap, tmp_path, "split")
    assert scenes.outputs(stage, [], ["driver:ended-first"]).faults == ()


def test_a_topic_as_a_table_of_its_lake_and_its_log_has_each_record_once(
    log: LogProcess, torture: Torture, tmp_path: Path
) -> None:
    stage = scenes.Stage(torture, log.bootstrap, tmp_path, "table")
    assert scenes.table(stage, [[Order("read:begun", "driver"), Order("read:begun", "log")]]).faults == ()


def test_a_stream_killed_behind_an_open_transaction_loses_nothing_or_says_so(
    log: LogProcess, torture: Torture, tmp_path: Path
) -> None:
    stage = scenes.Stage(torture, log.bootstrap, tmp_path, "plain")
    assert scenes.behind(stage, [], BEHIND, timed_out=BEHIND[:1]).faults == ()


def test_kills_at_random_times_lose_nothing_and_make_nothing_twice(
    torture: Torture, log: LogProcess, tmp_path: Path
) -> None:
    drawn = Round(SEED, 1, KILLS)
    before = torture.counts.copy()
    verdict = drawn.run(torture, log.bootstrap, tmp_path)
    counts = torture.counts - before
    print(f"seed {SEED}, {drawn.kind}, {dict(counts)}: {verdict}")  # noqa: T201 - for who looks into a failure
    assert verdict.faults == ()
    assert sum(count for name, count in counts.items() if name.startswith("killed ")) >= KILLS
