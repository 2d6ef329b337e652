"""The transaction coordinator: runs the steps of transactional ids, keeps them in ``__transaction_state``, and carries
out their decisions in every partition.

The state is a replay of that topic, which is created when the first transactional id needs it. A transaction is atomic
because its writes become durable in this order:

1. the partition's entry in the log, before a record of the transaction in that partition (``admit`` returns the wait);
2. the decision, PREPARE_COMMIT or PREPARE_ABORT, before the first marker;
3. all markers before COMPLETE_COMMIT or COMPLETE_ABORT, and so before a record of the next transaction.

A start finds every unfinished decision and carries it out. EndTxn is answered when the markers are durable (Kafka: when
the decision is), so a producer that committed can read its own records. If a disk failure prevents a marker, EndTxn is
answered all the same, because the decision stands; the coordinator tries the marker again.

Concurrency: the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from mainstem.broker.coordinator.coordinator_log import CoordinatorLog
from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.coordinator.timers import Timer
from mainstem.broker.error_codes import refusal
from mainstem.broker.storage.group_commit import GroupCommit
from mainstem.broker.storage.topics import TRANSACTIONS_TOPIC, Topics
from mainstem.broker.transactions import steps
from mainstem.broker.transactions.markers import Marker, Markers
from mainstem.broker.transactions.records import read_transaction, transaction_key, transaction_value
from mainstem.broker.transactions.state import ENDING, IDLE, ProducerIdAndEpoch, Transaction, TransactionState
from mainstem.clock import Clock
from mainstem.errors import MainstemError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.record.header import BatchHeader
from mainstem.record.reader import DecodedRecord

_LOG: Final = logging.getLogger("mainstem.broker.transactions")
_RETRY_S: Final = 1.0
_TOMBSTONES_MAX: Final = 1000
_NEXT_TOMBSTONES_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The broker settings that the coordinator obeys."""

    timeout_ms_max: int
    expiration_ms: int
    expiration_check_s: float
    allows_two_phase: bool


class Admission(NamedTuple):
    """Which partitions may be written to: a code for each, and the log and offset to be durable before, if any."""

    codes: Mapping[TopicPartition, ErrorCode]
    wait: tuple[PartitionLog, int] | None


class _Ending(NamedTuple):
    """A decision that is being carried out; ``first_try`` is done when all of it is, or has been tried once."""

    task: asyncio.Task[None]
    first_try: asyncio.Future[None]


class TransactionCoordinator:
    """All transactional ids of this node."""

    def __init__(
        self,
        topics: Topics,
        commit: GroupCommit,
        clock: Clock,
        markers: Markers,
        new_producer_id: Callable[[], int],
        settings: TransactionSettings,
    ) -> None:
        self.settings = settings
        self._log = CoordinatorLog(topics, commit, clock, TRANSACTIONS_TOPIC)
        self._commit = commit
        self._clock = clock
        self._markers = markers
        self._new_producer_id = new_producer_id
        self._transactions: dict[str, Transaction] = {}
        self._written: dict[str, int] = {}  # the offset after the newest record of each id
        self._deadlines_s: dict[str, float] = {}  # of what is ongoing and has a time-out
        self._ending: dict[str, _Ending] = {}
        self._timer: Timer | None = None
        self._expiration_timer: Timer | None = None

    # ---- start and stop

    def load(self) -> None:
        """Replay ``__transaction_state``, and carry out what it decides. A transaction has the time left to it that
        the wall clock says, and never more than all of it.
        """
        self._log.load(self._replay, "transactions")
        for transaction in list(self._transactions.values()):
            if self.refusal(transaction.transactional_id):
                continue
            if transaction.state in ENDING:
                self._begin_end(transaction)
            elif transaction.state is TransactionState.ONGOING:
                self._set_deadline(transaction)
        self._expiration_timer = Timer.after(self.settings.expiration_check_s, self.expire_ids)

    def _replay(self, _log: PartitionLog, _header: BatchHeader, records: Sequence[DecodedRecord]) -> None:
        for record in records:
            transactional_id, transaction = read_transaction(record.key or b"", record.value) or ("", None)
            if transaction is None:
                self._transactions.pop(transactional_id, None)
            else:
                self._transactions[transactional_id] = transaction

    def stop(self) -> None:
        """Forget all timers and leave what is being ended to the next start."""
        for timer in (self._timer, self._expiration_timer):
            if timer is not None:
                timer.cancel()
        for ending in self._ending.values():
            ending.task.cancel()
            ending.first_try.cancel()
        self._timer = self._expiration_timer = None
        self._ending.clear()

    def refusal(self, transactional_id: str) -> ErrorCode:
        """Why nothing can be said of a transactional id: it has no name, or its partition is damaged or offline."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        return self._log.partition_refusal(transactional_id)

    # ---- what producers ask for

    async def init(self, transactional_id: str, request: steps.Init) -> Transaction:
        """A new instance of the producer, durable; what an older one left open is aborted before.

        Raises RemoteError, and the log's errors.
        """
        self._check(transactional_id)
        for _ in range(2):
            before = self._transactions.get(transactional_id)
            after = steps.init(before, transactional_id, request, self._clock.time_ms(), self._new_producer_id)
            self._write(after)
            if after.state not in ENDING:
                await self._log.until_durable(transactional_id)
                return after
            await self._end_of(transactional_id)
        raise refusal(ErrorCode.CONCURRENT_TRANSACTIONS)

    async def add(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition], version: int
    ) -> None:
        """Add partitions to the transaction; returns when that is durable. Raises RemoteError, and the log's errors."""
        self._check(transactional_id)
        before = self._transactions.get(transactional_id)
        after = steps.add(before, producer, partitions, version, self._clock.time_ms())
        if after is not before:
            self._write(after)
        await self._log.until_durable(transactional_id)

    def admit(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition], *, adds: bool
    ) -> Admission:
        """Whether records of ``producer`` may be written to ``partitions``; with ``adds`` they become part of the
        transaction (version 2), without they must be. To be asked again after the wait. Raises RemoteError, and the
        log's errors.
        """
        self._check(transactional_id)
        before = self._transactions.get(transactional_id)
        if adds:
            after = steps.add(before, producer, partitions, steps.EPOCH_BUMP_FROM, self._clock.time_ms())
            if after is not before:
                self._write(after)
            codes: Mapping[TopicPartition, ErrorCode] = dict.fromkeys(partitions, ErrorCode.NONE)
        else:
            codes = steps.verify(before, producer, partitions)
        log, next_offset = self._log.partition(transactional_id), self._written.get(transactional_id, 0)
        return Admission(codes, (log, next_offset) if log.high_watermark < next_offset else None)

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Whether partitions are part of the transaction, as AddPartitionsToTxn asks it. Raises RemoteError."""
        self._check(transactional_id)
        return steps.verify(self._transactions.get(transactional_id), producer, partitions)

    async def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, version: int, *, commit: bool
    ) -> ProducerIdAndEpoch:
        """Commit or abort; returns what the producer is from now on, when every partition has its marker.

        Raises RemoteError, and the log's errors: then nothing is decided.
        """
        self._check(transactional_id)
        before = self._transactions.get(transactional_id)
        after = steps.end(before, producer, version, self._clock.time_ms(), self._new_producer_id, commit=commit)
        if after is before:
            await self._log.until_durable(transactional_id)
        else:
            self._write(after)
            await self._end_of(transactional_id)
        return after.client

    # ---- what admins see

    async def describe(self, transactional_id: str) -> Transaction:
        """One transactional id, as it is durably. Raises RemoteError: TRANSACTIONAL_ID_NOT_FOUND and others."""
        self._check(transactional_id)
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise refusal(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        await self._log.until_durable(transactional_id)
        return transaction

    async def all(self) -> list[Transaction]:
        """All transactional ids, as they are durably. Raises RemoteError when not all are known, the log's errors."""
        transactions = list(self._transactions.values())
        logs = self._log.all_partitions()
        if logs is None:
            raise refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        for log in logs:
            await self._commit.durable(log, log.log_end_offset)
        return transactions

    @property
    def open_starts_ms(self) -> list[int]:
        """When each transaction began that has not ended."""
        return [each.start_ms for each in self._transactions.values() if each.state not in IDLE and each.start_ms >= 0]

    # ---- time-outs

    def expire(self) -> None:
        """Abort the transactions whose time is over, and look again when that of the next one will be."""
        self._timer = None
        now_s = self._clock.monotonic_s()
        for transactional_id in [name for name, deadline_s in self._deadlines_s.items() if deadline_s <= now_s]:
            transaction = self._transactions[transactional_id]
            _LOG.info("transaction of %r timed out after %d ms", transactional_id, transaction.timeout_ms)
            try:
                self._write(steps.time_out(transaction, self._clock.time_ms()))
            except MainstemError as error:
                _LOG.error("transaction of %r timed out and cannot be aborted: %s", transactional_id, error)
                self._deadlines_s[transactional_id] = now_s + _RETRY_S
        self._watch()

    def expire_ids(self) -> None:
        """Forget the transactional ids that were unused for the expiration time."""
        self._expiration_timer = Timer.after(self.settings.expiration_check_s, self.expire_ids)
        before_ms = self._clock.time_ms() - self.settings.expiration_ms
        expired = [
            each.transactional_id
            for each in self._transactions.values()
            if each.state in IDLE and each.last_update_ms <= before_ms and not self.refusal(each.transactional_id)
        ]
        # A round writes some tombstones; the next one follows soon while there are more.
        if len(expired) > _TOMBSTONES_MAX:
            self._expiration_timer.cancel()
            self._expiration_timer = Timer.after(_NEXT_TOMBSTONES_S, self.expire_ids)
        for transactional_id in expired[:_TOMBSTONES_MAX]:
            try:
                tombstone = StateRecord(transaction_key(transactional_id), None)
                self._log.change(transactional_id, [tombstone], partial(self._forget, transactional_id))
            except MainstemError as error:
                _LOG.warning("transactional id %r cannot be forgotten: %s", transactional_id, error)
                return

    def _forget(self, transactional_id: str) -> None:
        del self._transactions[transactional_id]
        self._written.pop(transactional_id, None)

    def _set_deadline(self, transaction: Transaction) -> None:
        """A transaction's time-out counts from its first partition on; a jump of the wall clock does not change it."""
        if transaction.is_two_phase:
            return
        left_ms = transaction.start_ms + transaction.timeout_ms - self._clock.time_ms()
        left_ms = max(0, min(left_ms, transaction.timeout_ms))
        self._deadlines_s[transaction.transactional_id] = self._clock.monotonic_s() + left_ms / 1000
        self._watch()

    def _watch(self) -> None:
        """See that the next deadline is looked at when it comes: a timer that is early is left as it is."""
        if not self._deadlines_s:
            return
        delay_s = max(0.0, min(self._deadlines_s.values()) - self._clock.monotonic_s())
        if self._timer is not None:
            if self._timer.is_due_by(delay_s):
                return
            self._timer.cancel()
        self._timer = Timer.after(delay_s, self.expire)

    # ---- carrying out decisions

    def _begin_end(self, transaction: Transaction) -> None:
        first_try = asyncio.get_running_loop().create_future()
        first_try.add_done_callback(_retrieve_exception)
        task = asyncio.get_running_loop().create_task(self._carry_out_until_done(transaction, first_try))
        self._ending[transaction.transactional_id] = _Ending(task, first_try)

    async def _end_of(self, transactional_id: str) -> None:
        """Wait until the markers are durable, or tried. Raises the log's errors: the decision may not be durable."""
        ending = self._ending.get(transactional_id)
        if ending is not None:
            await asyncio.shield(ending.first_try)

    async def _carry_out_until_done(self, transaction: Transaction, first_try: asyncio.Future[None]) -> None:
        """Carry a decision out, and begin again after an error of any kind: readers wait for its markers."""
        while True:
            try:
                await self._carry_out(transaction, first_try)
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, it is logged and tried again
                _LOG.error("%r cannot be ended yet", transaction.transactional_id, exc_info=error)
            if not first_try.done():
                first_try.set_result(None)
            await asyncio.sleep(_RETRY_S)

    async def _carry_out(self, transaction: Transaction, first_try: asyncio.Future[None]) -> None:
        """Write all markers once the decision is durable, and again where a disk refuses; then say that it is done."""
        transactional_id = transaction.transactional_id
        try:
            log = self._log.partition(transactional_id)
            await self._commit.durable(log, self._written.get(transactional_id, log.log_end_offset))
        except MainstemError as error:
            _LOG.error("%r: the decision cannot be kept: %s", transactional_id, error)
            if not first_try.done():
                first_try.set_exception(error)
            return
        left: Collection[TopicPartition] = transaction.partitions
        marker = Marker(
            ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch),
            log.leader_epoch,
            transaction.commits,
            raises_epoch=transaction.version >= steps.EPOCH_BUMP_FROM,
        )
        while True:
            failed = await self._markers.write(left, marker)
            if not failed and self._complete(transaction):
                break
            if not first_try.done():
                for partition, reason in failed.items():
                    _LOG.error("%r: no %s in %s yet: %s", transactional_id, transaction.state.text, partition, reason)
                first_try.set_result(None)
            left = list(failed)
            await asyncio.sleep(_RETRY_S)
        if not first_try.done():
            first_try.set_result(None)

    def _complete(self, transaction: Transaction) -> bool:
        try:
            self._write(steps.complete(transaction, self._clock.time_ms()))
        except MainstemError as error:
            _LOG.error("%r is ended, but that cannot be written yet: %s", transaction.transactional_id, error)
            return False
        del self._ending[transaction.transactional_id]
        return True

    # ---- the log

    def _check(self, transactional_id: str) -> None:
        if code := self.refusal(transactional_id):
            raise refusal(code)

    def _write(self, after: Transaction) -> None:
        """Write what a transactional id has become, and act on it. Raises the log's errors: then nothing changed."""
        transactional_id = after.transactional_id
        record = StateRecord(transaction_key(transactional_id), transaction_value(after))
        self._written[transactional_id] = self._log.change(transactional_id, [record], lambda: self._apply(after))

    def _apply(self, after: Transaction) -> None:
        transactional_id = after.transactional_id
        before = self._transactions.get(transactional_id)
        self._transactions[transactional_id] = after
        if after.state is not TransactionState.ONGOING:
            self._deadlines_s.pop(transactional_id, None)
        elif before is None or before.state is not TransactionState.ONGOING:
            self._set_deadline(after)
        if after.state in ENDING:
            self._begin_end(after)


def _retrieve_exception(first_try: asyncio.Future[None]) -> None:
    """Retrieve the exception, so that asyncio does not log it when no caller waits."""
    if not first_try.cancelled():
        first_try.exception()
