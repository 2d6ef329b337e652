"""Exactly-once writes from Spark: tasks prepare transactions, the driver decides on them and ends them.

A Kafka transaction cannot span tasks, so each task with rows has its own. One more, the driver's, makes them atomic.
A micro-batch, step by step (docs/decisions has the same numbers; in brackets the calls of ``StepObserver``):

1. *Begin* (``SinkDriver.begin``), once for a run of a query: the driver takes over ``<group>-driver``, which fences the
   previous run. It reads the group's decision, ends the transactions that it names, and aborts every other open
   transaction of the group.
2. *Prepare* (``prepare``), in tasks: records are appended in a transaction of the task's own (``task_producers``)
   [task:initialized, task:appended]. The task waits until they are durable, does **not** end the transaction, and
   reports its producer's identity [task:prepared]. If the micro-batch is already decided, tasks read it but write
   nothing.
3. *Decide* (``SinkDriver.decide``): in the driver's transaction, the group's offset becomes the micro-batch + 1, and
   its metadata lists the prepared transactions [driver:begun]. When that transaction commits, the micro-batch counts
   [driver:decided]. A fenced driver cannot commit it.
4. *End* (``SinkDriver.end``): each of the prepared transactions is committed [driver:ended-first, driver:ended-all].
5. The caller writes the progress record [driver:progress], and Spark its commit.

After a crash before the decision, step 1 aborts the prepared transactions and Spark runs the micro-batch again. After a
later crash, step 1 repeats step 4, and the tasks of the repeated micro-batch write nothing. A decided transaction is
never aborted: ``sink_driver`` says why.

Without ``driver`` in its ``SinkRun`` a decision begins a run, after the tasks: for a writer whose commits run in
processes that Spark chooses. Spark usually takes the same process again. It has kept its driver, and needs steps 3 and
4 only (``_commit_after_tasks``).

A prepared transaction waits for its end without limit on a Mainstem log (two-phase, KIP-939), elsewhere for at most the
log's ``transaction.max.timeout.ms``. If a decided transaction was aborted meanwhile, an error says what was lost;
``transaction_outcome`` finds this out for certain.

Functions may be called from one thread at a time for each sink.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import ProducerFencedError
from mainstem.spark.checkpoints.offsets import StreamOffsets
from mainstem.spark.clients import borrowed
from mainstem.spark.options.options import LogOptions, WriteOptions
from mainstem.spark.per_process import PerProcess
from mainstem.spark.sink.sink_commits import MicroBatchCommit, digest
from mainstem.spark.sink.sink_driver import RunStart, SinkDriver, read_decision
from mainstem.spark.sink.sink_run import NOT_DECIDED, Decided, Prepared, SinkRun, StepObserver, ignore_step
from mainstem.spark.sink.task_appender import TaskAppender
from mainstem.spark.sink.task_producers import TaskProducer, capabilities_of

KILLED_AFTER_S: Final = 3.0
"""How long tasks that have not reported may still run: Spark gives them two seconds when it kills them."""
_LINGER_PAUSE_S: Final = 0.5
_DRIVERS: PerProcess[WeakKeyDictionary[SinkRun, SinkDriver]] = PerProcess(WeakKeyDictionary)
"""The driver of each run of this process that is still referenced. It must not refer to that run itself."""
_KEPT: PerProcess[dict[SinkRun, SinkDriver]] = PerProcess(dict)
"""The drivers of this process that began a run after its tasks, by their query's run; the last used is the last."""
_KEPT_MAX: Final = 16


class Preparing:
    """A task's part: append to ``out`` unless ``is_decided``; ``prepared`` is set when the block is over."""

    def __init__(self, out: TaskAppender, *, is_decided: bool) -> None:
        self.out = out
        self.is_decided = is_decided
        self.prepared = Prepared()


def begin_run(log: LogOptions, sink_id: str, *, timeout_ms: int | None = None) -> SinkRun:
    """Step 1. Once for a run of a query, on its driver, before any of its tasks.

    Raises AuthorizationError, PipelineFailedError when a decided transaction was lost, LogUnavailableError.
    """
    run = SinkRun(log, sink_id, timeout_ms=timeout_ms)
    with borrowed(log) as client:
        driver = SinkDriver(client, run, RunStart.BEFORE_TASKS)
    run = replace(run, driver=driver.identity, decided=_batch_id(driver.decision))
    _DRIVERS.value[run] = driver
    return run


@contextmanager
def prepare(
    run: SinkRun,
    batch_id: int,
    task: int,
    write: WriteOptions,
    on_step: StepObserver = ignore_step,
    *,
    attempt: int = 0,
) -> Iterator[Preparing]:
    """Step 2: what a task appends with. An exception in the block aborts the transaction if the log can be reached.

    ``task`` is the number of the task's partition, ``attempt`` how often it was run before.
    """
    with borrowed(run.log) as client:
        capabilities = capabilities_of(client, run.log, run.timeout_ms)
        producer = TaskProducer(run.log, run.group, batch_id, capabilities, lambda: on_step("task:initialized"))
        begun_ms = time.time_ns() // 1_000_000
        preparing = Preparing(TaskAppender(client, write, producer, task), is_decided=batch_id <= run.decided)
        try:
            yield preparing
            preparing.out.finish()
            if producer.has_begun:
                out = preparing.out
                on_step("task:appended")
                preparing.prepared = Prepared(
                    *producer.instance, out.position, out.records, begun_ms, attempt, out.begin
                )
                on_step("task:prepared")
        except BaseException:
            preparing.out.abandon()
            producer.failed(client)
            raise
        producer.prepared()


def decide_and_finish(
    run: SinkRun,
    batch_id: int,
    prepared: Collection[Prepared],
    source: StreamOffsets | None = None,
    on_step: StepObserver = ignore_step,
) -> Decided:
    """Steps 3 and 4, when all tasks are done. Idempotent: a decision never changes.

    ``source`` is where the sources of the micro-batch end: the decision belongs to them. Raises ProducerFencedError
    when another run has taken over, TransactionTimeoutError when the micro-batch took too long (nothing of it counts),
    PipelineFailedError when a decided transaction was lost, ConfigError for a checkpoint that is not this sink's.
    """
    written = sorted((each for each in prepared if each.records), key=lambda each: each.instance)
    with borrowed(run.log) as client:
        if run.driver is None:
            return _commit_after_tasks(client, run, batch_id, written, digest(source), on_step)
        driver = _DRIVERS.value.get(run) or SinkDriver(client, run, RunStart.EARLIER)
        return driver.commit(client, batch_id, written, digest(source), on_step)


def _commit_after_tasks(
    client: WireClient, run: SinkRun, batch_id: int, prepared: list[Prepared], source: str, on_step: StepObserver
) -> Decided:
    """Go on with the driver that this process has kept for the query's run; without one, begin a run (step 1).

    A kept driver decides on new micro-batches only, and is fenced when any other process has begun a run since. Then
    this process begins one, too, which reads what the other has decided.
    """
    kept = _KEPT.value
    driver = kept.pop(run, None)
    decided: Decided | None = None
    if driver is not None and batch_id > _batch_id(driver.decision):
        with suppress(ProducerFencedError):
            decided = driver.commit(client, batch_id, prepared, source, on_step)
    if driver is None or decided is None:
        driver = SinkDriver(client, run, RunStart.AFTER_TASKS, prepared)
        decided = driver.commit(client, batch_id, prepared, source, on_step)
    if run.query_run is not None:
        kept[run] = driver
        while len(kept) > _KEPT_MAX:
            del kept[next(iter(kept))]
    return decided


def decided_batch(log: LogOptions, sink_id: str) -> int:
    """The last micro-batch that a sink has decided; NOT_DECIDED when there is none."""
    with borrowed(log) as client:
        return _batch_id(read_decision(client, SinkRun(log, sink_id).group))


def end_open_transactions(log: LogOptions, sink_id: str, *, linger_s: float = 0.0) -> int:
    """Leave no transaction of a sink open: commit the decided ones, abort the rest. Returns how many it aborted.

    For a pipeline that is dropped or rebuilt: an open transaction would hold its topics' last stable offsets, on a
    Mainstem log for ever. It fences a run of the same sink that still goes on. It looks again for ``linger_s``, because
    tasks that are being killed may begin transactions meanwhile.
    """
    until_s = time.monotonic() + linger_s
    with borrowed(log) as client:
        driver = SinkDriver(client, SinkRun(log, sink_id), RunStart.BEFORE_TASKS)
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(_LINGER_PAUSE_S, left_s))
            driver.abort_undecided(client)
        return driver.aborted


def _batch_id(decision: MicroBatchCommit | None) -> int:
    return NOT_DECIDED if decision is None else decision.batch_id
