"""The driver's side of one run of a sink: steps 1, 3 and 4 of ``transactions``, as ``begin``, ``decide`` and ``end``.

A decided transaction is never aborted. Before a driver aborts anything it has taken over the driver's id (step 1),
which stops older decisions, and has then read the decision. Then it lists the open transactions, and after that sends a
request that fails if this driver was fenced. If the request succeeds, this driver is still the newest, and it aborts
transactions of that list only. The request is the decision itself (``commit``) or an InitProducerId with the expected
identity (``abort_undecided``).

A driver outlives the client that it is called with. Owned by one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Final

from mainstem.client.wire.admin.groups import committed_entries
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.coordinated import TRANSACTION, coordinators
from mainstem.client.wire.cluster.topics import create_topic
from mainstem.client.wire.produce.transaction_requests import (
    ONGOING,
    ProducerInstance,
    commit_offsets,
    describe,
    end_all,
    init_producer,
    open_transactions,
)
from mainstem.errors import (
    AuthorizationError,
    ConfigError,
    InvalidProducerEpochError,
    PipelineFailedError,
    ProducerFencedError,
    TopicExistsError,
    TransactionTimeoutError,
)
from mainstem.model import Position
from mainstem.spark.sink.sink_commits import SINKS_PARTITIONS, SINKS_TOPIC, MicroBatchCommit, decision_in, entries_of
from mainstem.spark.sink.sink_run import Decided, Prepared, SinkRun, StepObserver, ignore_step
from mainstem.spark.sink.task_producers import capabilities_of, is_task_of
from mainstem.spark.sink.transaction_outcome import is_aborted

_DRIVER_TIMEOUT_MS: Final = 60_000
_SEARCH_EVERY_S: Final = 60.0


class RunStart(Enum):
    """When and where a run began, and so what its driver knows about the open transactions."""

    BEFORE_TASKS = auto()
    """Here, before its tasks. What is open now belongs to an earlier run."""
    AFTER_TASKS = auto()
    """Here, to decide on what tasks have prepared already. Another run may have aborted that before."""
    EARLIER = auto()
    """In another process, which has decided nothing since. ``SinkRun.driver`` is the run's producer."""


class SinkDriver:
    """One run of a sink, as its driver. ``aborted``: how many undecided transactions it has aborted."""

    def __init__(self, client: WireClient, run: SinkRun, start: RunStart, prepared: Sequence[Prepared] = ()) -> None:
        """Begin the run (step 1), or continue one that began EARLIER. ``prepared``: see ``begin``."""
        if start is not RunStart.EARLIER:
            _ensure_topic(client)
        self.aborted = 0
        self._run = run
        self._start = start
        self._name = f"{run.group}-driver"
        self._capabilities = capabilities_of(client, run.log, run.timeout_ms)
        timeout_ms = min(self._capabilities.timeout_ms, _DRIVER_TIMEOUT_MS)
        self._own_capabilities = self._capabilities._replace(is_two_phase=False, timeout_ms=timeout_ms, is_chosen=False)
        self._next_search_s = 0.0
        self._seen_open: frozenset[ProducerInstance] = frozenset()
        """The transactions that were open when this run began. They need no check before the decision: a later driver
        fences this run before it aborts one of them, and if this run has decided, that driver finds the decision.
        """
        if start is RunStart.EARLIER:
            assert run.driver is not None
            self.identity, self.decision = run.driver, read_decision(client, run.group)
        else:
            self.begin(client, prepared)

    def begin(self, client: WireClient, prepared: Sequence[Prepared]) -> None:
        """Step 1. With AFTER_TASKS the transactions ``prepared`` are kept open, for the decision.

        With AFTER_TASKS decided transactions are ended again only if they are still open. Usually they are not: Spark
        begins a micro-batch when the one before is committed. If it repeats one, ``commit`` ends it.
        """
        if self._start is RunStart.AFTER_TASKS:  # looks up all coordinators in one request
            coordinators(client, [self._name, *(each.transactional_id for each in prepared)], TRANSACTION)
        self.identity = init_producer(client, self._name, self._own_capabilities)
        self.decision = read_decision(client, self._run.group)
        if self._start is RunStart.BEFORE_TASKS:
            if self.decision is not None:
                self.end(client, self.decision)
            self.abort_undecided(client)
            return
        self._seen_open = frozenset(self.abort_undecided(client, prepared, has_asked=True))
        if self.decision is not None and self._seen_open.intersection(self.decision.instances):
            self.end(client, self.decision)
        self._next_search_s = time.monotonic() + _SEARCH_EVERY_S

    def commit(
        self, client: WireClient, batch_id: int, prepared: Sequence[Prepared], source: str, on_step: StepObserver
    ) -> Decided:
        """Steps 3 and 4. Of a decided micro-batch step 4 is repeated; see ``transactions.decide_and_finish``."""
        if self.decision is not None and batch_id <= self.decision.batch_id:
            return self._commit_again(client, self.decision, batch_id, prepared, source)
        if not prepared:
            return Decided(Position(), 0)
        self._check_open(client, prepared)
        strays = self._find_strays(client, prepared)
        position = Position.join(each.position for each in prepared)
        decision = MicroBatchCommit(batch_id, source, position, tuple(each.transaction for each in prepared))
        self.decide(client, decision, on_step)
        self.end(client, decision, on_step)
        end_all(client, strays, self._capabilities, commit=False)
        return Decided(position, sum(each.records for each in prepared))

    def decide(self, client: WireClient, decision: MicroBatchCommit, on_step: StepObserver) -> None:
        """Step 3. Raises ProducerFencedError when another run has taken over."""
        instance = ProducerInstance(self._name, *self.identity)
        with self._explained_fencing():
            commit_offsets(
                client, instance, self._run.group, entries_of(decision, self._run.group), self._own_capabilities
            )
            on_step("driver:begun")
            ended, refused = end_all(client, [instance], self._own_capabilities, commit=True)
            if refused:
                raise refused[instance]
        self.identity = ended[instance]
        on_step("driver:decided")
        self.decision = decision
        if self._start is RunStart.AFTER_TASKS:
            self._start, self._seen_open = RunStart.BEFORE_TASKS, frozenset()  # the tasks of later micro-batches

    def end(self, client: WireClient, decision: MicroBatchCommit, on_step: StepObserver = ignore_step) -> None:
        """Step 4. With an observer the first transaction is ended in a request of its own.

        Raises PipelineFailedError when a transaction was aborted after the decision.
        """
        observed = 0 if on_step is ignore_step else 1
        refused = end_all(client, decision.instances[:observed], self._capabilities, commit=True)[1]
        if observed:
            on_step("driver:ended-first")
        refused |= end_all(client, decision.instances[observed:], self._capabilities, commit=True)[1]
        for refusal in refused.values():
            if isinstance(refusal, AuthorizationError):  # the transaction is still open
                raise refusal
        lost = [each for each in decision.transactions if each.instance in refused and is_aborted(client, each)]
        if lost:
            named = ", ".join(
                f"{each.instance.transactional_id} (up to {each.witness_offset} in {each.witness})" for each in lost
            )
            raise PipelineFailedError(
                f"{len(lost)} of {len(decision.transactions)} transactions of micro-batch {decision.batch_id} of sink "
                f"{self._run.sink_id} were aborted after the decision, and their records are lost: {named}. The log "
                "ends a transaction that is open for longer than its time-out; the query was away for longer than "
                "that. Raise transaction.max.timeout.ms; to write these records again, run the query's input through "
                "a new checkpoint"
            )
        on_step("driver:ended-all")

    def abort_undecided(
        self, client: WireClient, prepared: Sequence[Prepared] = (), *, has_asked: bool = False
    ) -> list[ProducerInstance]:
        """Abort the open transactions that are neither decided nor ``prepared``; returns all that were open.

        ``has_asked``: the client has just asked which brokers there are.
        """
        found = self._open(client, has_asked=has_asked)
        kept = {each.instance for each in prepared}.union(self.decision.instances if self.decision else ())
        undecided = [each for each in found if each not in kept]
        if undecided:
            with self._explained_fencing():
                self.identity = init_producer(client, self._name, self._own_capabilities, expected=self.identity)
            end_all(client, undecided, self._capabilities, commit=False)
            self.aborted += len(undecided)
        return found

    def _commit_again(
        self, client: WireClient, decision: MicroBatchCommit, batch_id: int, prepared: Sequence[Prepared], source: str
    ) -> Decided:
        """The decision stands. What tasks have prepared again, because they did not know of it, is aborted."""
        again = {each.instance for each in prepared}.difference(decision.instances)
        end_all(client, sorted(again), self._capabilities, commit=False)
        self.end(client, decision)
        is_same = not source or not decision.source or source == decision.source
        if batch_id < decision.batch_id or not is_same:
            raise ConfigError(
                f"sink {self._run.sink_id} has written micro-batch {decision.batch_id} already, and this is "
                f"{batch_id}{'' if is_same else ' with other source offsets'}: the checkpoint is an older copy. Going "
                "on would write records twice or skip some; take the newest checkpoint, or begin with a new one"
            )
        return Decided(decision.position, 0)

    def _check_open(self, client: WireClient, prepared: Sequence[Prepared]) -> None:
        """Raise TransactionTimeoutError when a transaction has ended. Asks the log only where that is possible."""
        age_ms = time.time_ns() // 1_000_000 - min(each.begun_ms for each in prepared)
        is_known = self._start is not RunStart.AFTER_TASKS or self._seen_open.issuperset(
            each.instance for each in prepared
        )
        if is_known and age_ms <= self._capabilities.timeout_ms // 2:
            return
        found = describe(client, [each.transactional_id for each in prepared])
        if any(found.get(each.transactional_id) != (each.instance, ONGOING) for each in prepared):
            raise TransactionTimeoutError(
                f"a transaction of this micro-batch was aborted before the decision: it took longer than "
                f"{self._capabilities.timeout_ms / 1000:g} s, or another run of the query began. Nothing of it counts; "
                "raise the log's transaction.max.timeout.ms, or read less at once (maxOffsetsPerTrigger)"
            )

    def _find_strays(self, client: WireClient, prepared: Sequence[Prepared]) -> list[ProducerInstance]:
        """The open transactions that are not ``prepared``. Searched after a task was run again, and once a minute.

        A newer run could own them, so they may be aborted only after the decision has proved that there is none.
        """
        now_s = time.monotonic()
        if now_s < self._next_search_s and not any(each.attempt for each in prepared):
            return []
        self._next_search_s = now_s + _SEARCH_EVERY_S
        kept = {each.instance for each in prepared}
        return [each for each in self._open(client) if each not in kept]

    def _open(self, client: WireClient, *, has_asked: bool = False) -> list[ProducerInstance]:
        """The open transactions of this sink's tasks; another sink's name may begin with this one's."""
        found = open_transactions(client, f"{self._run.group}-", has_asked=has_asked)
        return [each for each in found if is_task_of(self._run.group, each.transactional_id)]

    @contextmanager
    def _explained_fencing(self) -> Iterator[None]:
        try:
            yield
        except (ProducerFencedError, InvalidProducerEpochError) as error:
            raise ProducerFencedError(
                f"another run of this query has taken over sink {self._run.sink_id}, so this run has stopped; nothing "
                "that it wrote in its current micro-batch counts. Run one query at a time from a checkpoint"
            ) from error


def read_decision(client: WireClient, group: str) -> MicroBatchCommit | None:
    """The group's last decision; None when it has none."""
    return decision_in(committed_entries(client, group, require_stable=True), group)


def _ensure_topic(client: WireClient) -> None:
    """Create the topic under whose name decisions are committed; it never holds a record."""
    if SINKS_TOPIC in client.metadata([SINKS_TOPIC]):
        return
    try:
        create_topic(client, SINKS_TOPIC, partitions=SINKS_PARTITIONS, configs={"cleanup.policy": "compact"})
    except TopicExistsError:
        client.metadata([SINKS_TOPIC], wait=True)
