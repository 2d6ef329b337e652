"""Exactly-once writes from Spark: tasks prepare transactions, the driver decides on them and ends them.

A Kafka transaction cannot span tasks, so each task with rows has its own. One more, the driver's, makes them atomic.
A micro-batch, step by step (the numbers are in the code and in docs/decisions; in brackets the calls of ``Steps``):

1. *Begin*, once for a run of a query: the driver takes over ``<group>-driver``, which fences the previous run. It reads
   the group's decision, ends the transactions that it names, and aborts every other open transaction of the group.
2. *Prepare*, in tasks: records are appended in a transaction of the task's own (``task_producers``)
   [task:initialized, task:appended]. The task waits until they are durable, does **not** end the transaction, and
   reports its producer's identity [task:prepared]. If the micro-batch is already decided, tasks read it but write
   nothing.
3. *Decide*: in the driver's transaction, the group's offset becomes the micro-batch + 1, and its metadata lists the
   prepared transactions [driver:begun]. When that transaction commits, the micro-batch counts [driver:decided]. A
   fenced driver cannot commit it.
4. *End*: each of the prepared transactions is committed [driver:ended-first, driver:ended-all].
5. The caller writes the progress record [driver:progress], and Spark its commit.

After a crash before the decision, step 1 aborts the prepared transactions and Spark runs the micro-batch again. After a
later crash, step 1 repeats step 4, and the tasks of the repeated micro-batch write nothing. A decided transaction
is never aborted: a driver aborts only after it has taken over the driver's id (1), which stops older decisions, and has
then read the decision. First it lists the open transactions; then it sends a request that fails if this driver was
fenced. If the request succeeds, this driver is still the newest, and it aborts transactions of that list only
(``_Driver.resolve``).

Without ``driver`` in its ``SinkRun`` each decision begins a run: for a writer with a separate process for each commit.

A prepared transaction waits for its end without limit on a Mainstem log (two-phase, KIP-939), elsewhere for at most the
log's ``transaction.max.timeout.ms``. If a decided transaction was aborted meanwhile, an error says what was lost;
``transaction_outcome`` finds this out for certain.

Functions may be called from one thread at a time for each sink.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from mainstem.client.wire.admin.groups import committed_entries
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.coordinated import TRANSACTION, coordinators
from mainstem.client.wire.cluster.topics import create_topic
from mainstem.client.wire.produce.prepared import (
    Instance,
    Terms,
    commit_offsets,
    describe,
    end_all,
    init_producer,
    open_transactions,
)
from mainstem.client.wire.produce.producers import ProducerIdentity
from mainstem.errors import (
    AuthorizationError,
    ConfigError,
    InvalidProducerEpochError,
    MainstemError,
    PipelineFailedError,
    ProducerFencedError,
    TopicExistsError,
    TransactionTimeoutError,
)
from mainstem.model import Position
from mainstem.spark.checkpoints.offsets import StreamOffsets
from mainstem.spark.clients import borrowed
from mainstem.spark.options.options import LogOptions, WriteOptions
from mainstem.spark.sink.producing import Producing
from mainstem.spark.sink.sink_commits import (
    SINKS_PARTITIONS,
    SINKS_TOPIC,
    DecidedTransaction,
    MicroBatchCommit,
    decision_in,
    digest,
    entries_of,
)
from mainstem.spark.sink.task_producers import TaskProducer, is_task_of, terms_of
from mainstem.spark.sink.transaction_outcome import is_aborted

NOT_DECIDED: Final = -1
LONGEST_TIMEOUT: Final = 0
KILLED_AFTER_S: Final = 3.0
"""How long tasks may go on that have not reported: Spark leaves them two seconds when it kills them."""
_DRIVER_TIMEOUT_MS: Final = 60_000
_SWEEP_EVERY_S: Final = 60.0
_LINGER_PAUSE_S: Final = 0.5


class Steps(Protocol):
    """A callback with the name of each finished step. A test's may raise, or kill the process. Must be picklable."""

    def __call__(self, step: str, /) -> None: ...


def no_steps(step: str) -> None:
    """Ignore the step."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class SinkRun:
    """One run of a query's sink. ``driver`` is who its decisions are made by; None: each decision begins a run.

    The caller that began the run keeps this object while it makes decisions: when the object is freed, what is known
    of its driver is freed, too.

    ``decided`` is the last micro-batch that was decided when the run began. ``timeout_ms`` is how long a transaction of
    a task may be open; None: until it is ended, where the log has that, and LONGEST_TIMEOUT for what it allows else.
    """

    log: LogOptions
    sink_id: str
    driver: ProducerIdentity | None = None
    decided: int = NOT_DECIDED
    timeout_ms: int | None = None

    @property
    def group(self) -> str:
        return f"mainstem-sink-{self.sink_id}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task's report: its open transaction. If ``records`` is 0, it has none, and the other fields do not count."""

    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    position: Position = field(default_factory=Position)
    records: int = 0
    begun_ms: int = 0
    attempt: int = 0

    @property
    def instance(self) -> Instance:
        return Instance(self.transactional_id, self.producer_id, self.producer_epoch)


@dataclass(frozen=True, slots=True)
class Decided:
    """A micro-batch that counts: where what it wrote ends. ``is_repeat``: it had been decided before."""

    position: Position
    records: int
    is_repeat: bool = False


class Preparing:
    """A task's part: append to ``out`` unless ``is_decided``; ``prepared`` is there when the block is over."""

    def __init__(self, out: Producing, *, is_decided: bool) -> None:
        self.out = out
        self.is_decided = is_decided
        self.prepared = Prepared()


# ---- step 2, in tasks


@contextmanager
def prepare(
    run: SinkRun, batch_id: int, task: int, write: WriteOptions, steps: Steps = no_steps, *, attempt: int = 0
) -> Iterator[Preparing]:
    """Step 2: what a task appends with. An exception in the block aborts, as far as the log can be reached.

    ``task`` is the number of the task's partition, ``attempt`` how often it was run before.
    """
    with borrowed(run.log) as client:
        terms = terms_of(client, run.log, run.timeout_ms)
        producer = TaskProducer(run.log, run.group, batch_id, terms, lambda: steps("task:initialized"))
        begun_ms = time.time_ns() // 1_000_000
        preparing = Preparing(Producing(client, write, producer, task), is_decided=batch_id <= run.decided)
        try:
            yield preparing
            preparing.out.finish()
            if producer.has_begun:
                out = preparing.out
                steps("task:appended")
                preparing.prepared = Prepared(*producer.instance, out.position, out.records, begun_ms, attempt)
                steps("task:prepared")
        except BaseException:
            preparing.out.abandon()
            producer.failed(client)
            raise
        producer.prepared()


# ---- steps 1, 3 and 4, on the driver


def begin_run(log: LogOptions, sink_id: str, *, timeout_ms: int | None = None) -> SinkRun:
    """Step 1. Once for a run of a query, on its driver, before any of its tasks.

    Raises AuthorizationError, PipelineFailedError when a decided transaction was lost, LogUnavailableError.
    """
    run = SinkRun(log, sink_id, timeout_ms=timeout_ms)
    with borrowed(log) as client:
        driver = _Driver.begun(client, run)
    decided = NOT_DECIDED if driver.decision is None else driver.decision.batch_id
    run = SinkRun(log, sink_id, driver.identity, decided, timeout_ms)
    _DRIVERS[run] = os.getpid(), driver
    return run


def decide_and_finish(
    run: SinkRun,
    batch_id: int,
    prepared: Collection[Prepared],
    source: StreamOffsets | None = None,
    steps: Steps = no_steps,
) -> Decided:
    """Steps 3 and 4, when all tasks are done. Idempotent: what was decided stays as it was decided.

    ``source`` is where the sources of the micro-batch end: what is decided belongs to them. Raises ProducerFencedError
    when another run has taken over, TransactionTimeoutError when the micro-batch took too long (nothing of it counts),
    PipelineFailedError when a decided transaction was lost, ConfigError for a checkpoint that is not this sink's.
    """
    chosen = sorted((each for each in prepared if each.records), key=lambda each: each.instance)
    with borrowed(run.log) as client:
        pid, driver = _DRIVERS.get(run, (None, None))
        if run.driver is None:
            driver = _Driver.begun_to_decide(client, run, chosen)
        elif driver is None or pid != os.getpid():
            driver = _Driver.resumed(client, run)
        return driver.decide(client, batch_id, chosen, digest(source), steps)


def decided_batch(log: LogOptions, sink_id: str) -> int:
    """The micro-batch that a sink has decided last, as it is now; NOT_DECIDED when there is none."""
    group = SinkRun(log, sink_id).group
    with borrowed(log) as client:
        decision = decision_in(committed_entries(client, group, require_stable=True), group)
    return NOT_DECIDED if decision is None else decision.batch_id


def resolve_abandoned(log: LogOptions, sink_id: str, *, linger_s: float = 0.0) -> int:
    """End what a sink has left open for good: what is decided is committed, the rest aborted, and how many is returned.

    For a pipeline that is dropped or begun afresh: an open transaction would hold its topics' last stable offsets, on a
    Mainstem log for ever. A run of the same sink that is still going is fenced. With ``linger_s`` it looks again for so
    long, for what tasks that are being killed have begun meanwhile.
    """
    run = SinkRun(log, sink_id)
    until_s = time.monotonic() + linger_s
    with borrowed(log) as client:
        driver = _Driver.begun(client, run)
        while (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(_LINGER_PAUSE_S, left_s))
            driver.resolve(client)
        return driver.resolved


class _Driver:
    """The driver's side of one run."""

    def __init__(
        self, run: SinkRun, terms: Terms, identity: ProducerIdentity, decision: MicroBatchCommit | None
    ) -> None:
        self.identity = identity
        self.decision = decision
        self.resolved = 0
        self._kept: set[Instance] = set()
        self._run = run
        self._terms = terms
        timeout_ms = min(terms.timeout_ms, _DRIVER_TIMEOUT_MS)
        self._own_terms = terms._replace(is_two_phase=False, timeout_ms=timeout_ms, is_chosen=False)
        self._name = _driver_name(run)
        self._sweep_at_s = 0.0
        self._is_late = False
        """Whether tasks may have prepared before this run began, so that another one may have aborted that."""
        self._seen_open: frozenset[Instance] = frozenset()
        """Transactions that were open when this run began. A later driver aborts one only after it has fenced this run;
        if this run decided first, that driver finds the decision.
        """

    @classmethod
    def begun(cls, client: WireClient, run: SinkRun) -> _Driver:
        """Step 1."""
        _ensure_topic(client)
        driver = cls._take_over(client, run, terms_of(client, run.log, run.timeout_ms))
        if driver.decision is not None:
            driver._end_decided(client, driver.decision, no_steps)
        driver.resolve(client)
        return driver

    @classmethod
    def begun_to_decide(cls, client: WireClient, run: SinkRun, chosen: Sequence[Prepared]) -> _Driver:
        """Step 1 of a run that begins with its decision: the transactions ``chosen`` are left as they are.

        What was decided is not ended once more: a micro-batch begins when the one before is committed, and so ended; if
        it is the same one, ``decide`` ends it. Should one of them be open for all that, it is seen and ended.
        """
        _ensure_topic(client)
        terms = terms_of(client, run.log, run.timeout_ms)
        coordinators(client, [_driver_name(run), *(each.transactional_id for each in chosen)], TRANSACTION)  # at once
        driver = cls._take_over(client, run, terms)
        driver._kept |= {each.instance for each in chosen}
        driver._seen_open = frozenset(driver.resolve(client, has_asked=True))
        if driver.decision is not None and driver._seen_open.intersection(_instances(driver.decision)):
            driver._end_decided(client, driver.decision, no_steps)
        driver._is_late, driver._sweep_at_s = True, time.monotonic() + _SWEEP_EVERY_S
        return driver

    @classmethod
    def _take_over(cls, client: WireClient, run: SinkRun, terms: Terms) -> _Driver:
        """The driver's id is ours, which fences the run before; then what that has decided is read."""
        driver = cls(run, terms, ProducerIdentity(-1, -1), None)
        driver.identity = init_producer(client, driver._name, driver._own_terms)
        driver.decision = decision_in(committed_entries(client, run.group, require_stable=True), run.group)
        driver._kept = set() if driver.decision is None else _instances(driver.decision)
        return driver

    @classmethod
    def resumed(cls, client: WireClient, run: SinkRun) -> _Driver:
        """A run that began in another process, in which nothing has been decided since."""
        assert run.driver is not None
        terms = terms_of(client, run.log, run.timeout_ms)
        decision = decision_in(committed_entries(client, run.group, require_stable=True), run.group)
        return cls(run, terms, run.driver, decision)

    def decide(
        self, client: WireClient, batch_id: int, chosen: Sequence[Prepared], source: str, steps: Steps
    ) -> Decided:
        if self.decision is not None and batch_id <= self.decision.batch_id:
            return self._repeated(client, self.decision, batch_id, chosen, source)
        if not chosen:
            return Decided(Position(), 0)
        self._check_time(client, chosen)
        strays = self._strays(client, chosen)
        decision = MicroBatchCommit(
            batch_id, source, Position.join(each.position for each in chosen), _witnessed(chosen)
        )
        self._commit_decision(client, decision, steps)  # 3
        self.decision = decision
        self._end_decided(client, decision, steps)  # 4
        if strays:
            end_all(client, strays, self._terms, commit=False)
        return Decided(decision.position, sum(each.records for each in chosen))

    def _repeated(
        self, client: WireClient, decision: MicroBatchCommit, batch_id: int, chosen: Sequence[Prepared], source: str
    ) -> Decided:
        """The decision stands; what was prepared again, by tasks that did not know of it, is aborted."""
        decided = {each.instance for each in decision.transactions}
        again = [each.instance for each in chosen if each.instance not in decided]
        if again:
            end_all(client, again, self._terms, commit=False)
        self._end_decided(client, decision, no_steps)
        is_same = not source or not decision.source or source == decision.source
        if batch_id < decision.batch_id or not is_same:
            raise ConfigError(
                f"sink {self._run.sink_id} has written micro-batch {decision.batch_id} already, and this is "
                f"{batch_id}{'' if is_same else ' with other source offsets'}: the checkpoint is an older copy. Going "
                "on would write records twice or skip some; take the newest checkpoint, or begin with a new one"
            )
        return Decided(decision.position, 0, is_repeat=True)

    def _commit_decision(self, client: WireClient, decision: MicroBatchCommit, steps: Steps) -> None:
        instance = Instance(self._name, *self.identity)
        try:
            commit_offsets(client, instance, self._run.group, entries_of(decision, self._run.group), self._own_terms)
            steps("driver:begun")
            ended, refused = end_all(client, [instance], self._own_terms, commit=True)
        except (ProducerFencedError, InvalidProducerEpochError) as error:
            raise self._explain_fencing(error) from error
        for refusal in refused.values():
            raise self._explain_fencing(refusal) from refusal
        self.identity = ended[instance]
        steps("driver:decided")

    def _explain_fencing(self, error: MainstemError) -> MainstemError:
        if not isinstance(error, ProducerFencedError | InvalidProducerEpochError):
            return error
        return ProducerFencedError(
            f"another run of this query has taken over sink {self._run.sink_id}, so this run has stopped; nothing that "
            "it wrote in its current micro-batch counts. Run one query at a time from a checkpoint"
        )

    def _end_decided(self, client: WireClient, decision: MicroBatchCommit, steps: Steps) -> None:
        """Step 4. Ends the first transaction separately if ``steps`` is observed."""
        instances = [each.instance for each in decision.transactions]
        first = [] if steps is no_steps else instances[:1]
        refused: dict[Instance, MainstemError] = {}
        for part in (first, instances[len(first) :]):
            refused |= end_all(client, part, self._terms, commit=True)[1]
            if part is first and first:
                steps("driver:ended-first")
        for refusal in refused.values():
            if isinstance(refusal, AuthorizationError):  # the transaction is still open
                raise refusal
        lost = [each for each in decision.transactions if each.instance in refused and is_aborted(client, each)]
        if lost:
            raise PipelineFailedError(_loss(self._run, decision, lost))
        steps("driver:ended-all")

    def _check_time(self, client: WireClient, chosen: Sequence[Prepared]) -> None:
        """A transaction may be over before it is decided: ask, unless that cannot be."""
        oldest_ms = min(each.begun_ms for each in chosen)
        is_late = self._is_late and not self._seen_open.issuperset(each.instance for each in chosen)
        if is_late or time.time_ns() // 1_000_000 - oldest_ms > self._terms.timeout_ms // 2:
            self._check_open(client, chosen)

    def _check_open(self, client: WireClient, chosen: Sequence[Prepared]) -> None:
        found = describe(client, [each.transactional_id for each in chosen])
        for each in chosen:
            now = found.get(each.transactional_id)
            if now is None or now.instance != each.instance or now.state != "Ongoing":
                raise TransactionTimeoutError(
                    f"a transaction of this micro-batch was aborted before the decision: it took longer than "
                    f"{self._terms.timeout_ms / 1000:g} s, or another run of the query began. Nothing of it counts; "
                    "raise the log's transaction.max.timeout.ms, or read less at once (maxOffsetsPerTrigger)"
                )

    def _strays(self, client: WireClient, chosen: Sequence[Prepared]) -> list[Instance]:
        """The open transactions that were not chosen. Searched after a task was run again, and from time to time.

        They may be aborted only after the decision has proved that no newer run has begun, which could own them.
        """
        now_s = time.monotonic()
        if now_s < self._sweep_at_s and not any(each.attempt for each in chosen):
            return []
        self._sweep_at_s = now_s + _SWEEP_EVERY_S
        kept = {each.instance for each in chosen}
        return [each for each in self._open(client) if each not in kept]

    def resolve(self, client: WireClient, *, has_asked: bool = False) -> list[Instance]:
        """Abort what is open, but for what this run began with; what was found.

        ``has_asked``: the client has just asked which brokers there are.
        """
        found = self._open(client, has_asked=has_asked)
        strays = [each for each in found if each not in self._kept]
        if not strays:
            return found
        # The proof that no newer run has begun, whose transactions these might be.
        try:
            self.identity = init_producer(client, self._name, self._own_terms, expected=self.identity)
        except (ProducerFencedError, InvalidProducerEpochError) as error:
            raise self._explain_fencing(error) from error
        end_all(client, strays, self._terms, commit=False)
        self.resolved += len(strays)
        return found

    def _open(self, client: WireClient, *, has_asked: bool = False) -> list[Instance]:
        """The open transactions of this sink's tasks; another sink's name may begin with this one's."""
        found = open_transactions(client, f"{self._run.group}-", has_asked=has_asked)
        return [each for each in found if is_task_of(self._run.group, each.transactional_id)]


_DRIVERS: WeakKeyDictionary[SinkRun, tuple[int, _Driver]] = WeakKeyDictionary()
"""The driver of each run that is still referenced, with the id of its process."""


def _driver_name(run: SinkRun) -> str:
    return f"{run.group}-driver"


def _instances(decision: MicroBatchCommit) -> set[Instance]:
    return {each.instance for each in decision.transactions}


def _ensure_topic(client: WireClient) -> None:
    """Create the topic under whose name decisions are committed; it never holds a record."""
    if SINKS_TOPIC in client.metadata([SINKS_TOPIC]):
        return
    try:
        create_topic(client, SINKS_TOPIC, partitions=SINKS_PARTITIONS, configs={"cleanup.policy": "compact"})
    except TopicExistsError:
        client.metadata([SINKS_TOPIC], wait=True)


def _witnessed(chosen: Sequence[Prepared]) -> tuple[DecidedTransaction, ...]:
    return tuple(
        DecidedTransaction(each.instance, tp, each.position[tp] - 1) for each in chosen for tp in [min(each.position)]
    )


def _loss(run: SinkRun, decision: MicroBatchCommit, lost: Sequence[DecidedTransaction]) -> str:
    named = ", ".join(
        f"{each.instance.transactional_id} (up to {each.witness_offset} in {each.witness})" for each in lost
    )
    return (
        f"{len(lost)} of {len(decision.transactions)} transactions of micro-batch {decision.batch_id} of sink "
        f"{run.sink_id} were aborted after the decision, and their records are lost: {named}. The log ends a "
        "transaction that is open for longer than its time-out; the query was away for longer than that. Raise "
        "transaction.max.timeout.ms; to write these records again, run the query's input through a new checkpoint"
    )
