"""The life of a transactional id, step by step, without I/O: who is fenced, what is a repeat, which epoch is next."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from mainstem.broker.transactions import steps
from mainstem.broker.transactions.state import (
    EPOCH_MAX,
    NO_TIMEOUT_MS,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
)
from mainstem.errors import RemoteError
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
V1, V2 = 0, 2


class Driver:
    """One transactional id, moved by steps; ``producer`` is what its newest instance was given."""

    def __init__(self) -> None:
        self.ids = itertools.count(1000)
        self.transaction: Transaction | None = None
        self.now_ms = 1

    @property
    def state(self) -> TransactionState:
        assert self.transaction is not None
        return self.transaction.state

    @property
    def producer(self) -> ProducerIdAndEpoch:
        assert self.transaction is not None
        return self.transaction.client

    def _new_id(self) -> int:
        return next(self.ids)

    def _take(self, transaction: Transaction) -> Transaction:
        self.now_ms += 1
        self.transaction = transaction
        return transaction

    def init(
        self, expected: ProducerIdAndEpoch | None = None, *, keeps: bool = False, timeout_ms: int = 60_000
    ) -> ProducerIdAndEpoch:
        """InitProducerId, with the abort of what is ongoing before it."""
        request = steps.Init(timeout_ms, expected, keeps)
        for _ in range(2):
            self._take(steps.init(self.transaction, "tx", request, self.now_ms, self._new_id))
            if self.state is not TransactionState.PREPARE_ABORT:
                break
            self.complete()
        return self.producer

    def add(self, *partitions: TopicPartition, by: ProducerIdAndEpoch | None = None, version: int = V2) -> Transaction:
        return self._take(steps.add(self.transaction, by or self.producer, partitions or (A,), version, self.now_ms))

    def end(self, *, commit: bool = True, by: ProducerIdAndEpoch | None = None, version: int = V2) -> Transaction:
        after = steps.end(self.transaction, by or self.producer, version, self.now_ms, self._new_id, commit=commit)
        return self._take(after)

    def complete(self) -> Transaction:
        assert self.transaction is not None
        return self._take(steps.complete(self.transaction, self.now_ms))

    def commit(self, version: int = V2) -> None:
        self.end(version=version)
        self.complete()

    def with_epoch(self, epoch: int) -> Driver:
        assert self.transaction is not None
        self.transaction = replace(self.transaction, producer_epoch=epoch)
        return self


def refused(code: ErrorCode, function: Any, *arguments: Any, **options: Any) -> None:
    with pytest.raises(RemoteError) as caught:
        function(*arguments, **options)
    assert caught.value.code == code, caught.value


def ready() -> Driver:
    driver = Driver()
    driver.init()
    return driver


def ongoing() -> Driver:
    driver = ready()
    driver.add(A)
    return driver


# ---- from the beginning to the end


def test_a_new_id_gets_a_producer_with_epoch_zero() -> None:
    assert ready().producer == (1000, 0)


def test_the_first_partition_begins_the_transaction_and_others_join_it() -> None:
    driver = ready()
    began_at_ms = driver.now_ms
    driver.add(A)
    transaction = driver.add(B)
    assert (transaction.state, transaction.start_ms) == (TransactionState.ONGOING, began_at_ms)
    assert transaction.partitions == {A, B}


def test_what_is_part_of_it_already_changes_nothing() -> None:
    driver = ongoing()
    before = driver.transaction
    assert driver.add(A) is before


def test_version_1_keeps_the_epoch_over_a_commit() -> None:
    driver = ongoing()
    assert driver.end(version=V1).state is TransactionState.PREPARE_COMMIT
    assert driver.complete().state is TransactionState.COMPLETE_COMMIT
    assert driver.producer == (1000, 0)
    assert driver.transaction is not None
    assert not driver.transaction.partitions


def test_version_2_raises_the_epoch_with_every_end_and_markers_have_the_new_one() -> None:
    driver = ongoing()
    decided = driver.end(commit=False)
    assert (decided.state, decided.producer_epoch) == (TransactionState.PREPARE_ABORT, 1)
    driver.complete()
    assert driver.producer == (1000, 1)


def test_version_2_may_abort_what_never_began() -> None:
    driver = ready()
    assert driver.end(commit=False).state is TransactionState.PREPARE_ABORT
    driver.complete()
    assert driver.end(commit=False).producer_epoch == 2


@pytest.mark.parametrize("version", [V1, V2])
def test_a_commit_of_what_never_began_is_refused(version: int) -> None:
    refused(ErrorCode.INVALID_TXN_STATE, ready().end, version=version)


def test_version_1_may_not_abort_what_never_began() -> None:
    refused(ErrorCode.INVALID_TXN_STATE, ready().end, commit=False, version=V1)


# ---- repeats


@pytest.mark.parametrize("commit", [True, False])
def test_a_repeat_of_the_end_is_answered_as_the_end_was(commit: bool) -> None:
    driver = ongoing()
    before = driver.producer
    driver.end(commit=commit)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, driver.end, by=before, commit=commit)
    completed = driver.complete()
    assert driver.end(by=before, commit=commit) is completed
    assert driver.producer == (before.producer_id, before.epoch + 1)


@pytest.mark.parametrize("commit", [True, False])
def test_a_repeat_that_asks_for_the_opposite_is_refused(commit: bool) -> None:
    driver = ongoing()
    before = driver.producer
    driver.end(commit=commit)
    refused(ErrorCode.INVALID_TXN_STATE, driver.end, by=before, commit=not commit)
    driver.complete()
    refused(ErrorCode.INVALID_TXN_STATE, driver.end, by=before, commit=not commit)


@pytest.mark.parametrize("commit", [True, False])
def test_a_delayed_end_of_an_earlier_epoch_does_not_end_the_next_transaction(commit: bool) -> None:
    driver = ongoing()
    before = driver.producer
    driver.commit()
    driver.add(B)
    refused(ErrorCode.PRODUCER_FENCED, driver.end, by=before, commit=commit)
    assert driver.state is TransactionState.ONGOING


def test_version_1_repeats_are_answered_while_nothing_has_begun_since() -> None:
    driver = ongoing()
    driver.end(version=V1)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, driver.end, version=V1)
    refused(ErrorCode.INVALID_TXN_STATE, driver.end, version=V1, commit=False)
    completed = driver.complete()
    assert driver.end(version=V1) is completed
    refused(ErrorCode.INVALID_TXN_STATE, driver.end, version=V1, commit=False)


def test_an_epoch_before_a_version_1_end_is_no_repeat() -> None:
    driver = ready()
    zombie = driver.producer
    driver.init()
    driver.add(A, version=V1)
    driver.commit(version=V1)
    refused(ErrorCode.PRODUCER_FENCED, driver.end, by=zombie)


# ---- fencing


def test_a_new_instance_fences_the_older_one() -> None:
    driver = ready()
    zombie = driver.producer
    assert driver.init() == (zombie.producer_id, zombie.epoch + 1)
    refused(ErrorCode.PRODUCER_FENCED, driver.add, A, by=zombie)
    refused(ErrorCode.PRODUCER_FENCED, driver.end, by=zombie, commit=False)


def test_a_new_instance_aborts_what_the_older_one_left_open() -> None:
    driver = ongoing()
    zombie = driver.producer
    successor = driver.init()
    assert driver.state is TransactionState.EMPTY
    assert successor.epoch > zombie.epoch
    for commit in (True, False):
        refused(ErrorCode.PRODUCER_FENCED, driver.end, by=zombie, commit=commit)


def test_while_a_fenced_transaction_is_aborted_its_producer_cannot_pass_for_a_repeat() -> None:
    driver = ongoing()
    zombie = driver.producer
    request = steps.Init(60_000)
    assert driver.transaction is not None
    driver.transaction = steps.init(driver.transaction, "tx", request, 5, lambda: 2000)
    refused(ErrorCode.PRODUCER_FENCED, driver.end, by=zombie, commit=False)
    driver.complete()
    refused(ErrorCode.PRODUCER_FENCED, driver.end, by=zombie, commit=False)


def test_another_producer_id_is_no_instance_at_all() -> None:
    driver = ongoing()
    stranger = ProducerIdAndEpoch(1, 0)
    for attempt in (driver.add, driver.end):
        refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, attempt, by=stranger)
    refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, steps.add, None, stranger, (A,), V2, 1)
    refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, steps.verify, None, stranger, (A,))


def test_nobody_takes_an_id_over_while_it_is_being_ended() -> None:
    driver = ongoing()
    driver.end()
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, driver.init)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, driver.add, B)


# ---- going on after an error (KIP-360)


def test_a_producer_that_names_itself_goes_on_with_the_next_epoch() -> None:
    driver = ready()
    me = driver.producer
    assert driver.init(me) == (me.producer_id, me.epoch + 1)
    assert driver.init(me) == (me.producer_id, me.epoch + 1)  # the first answer got lost


def test_a_producer_that_was_fenced_cannot_go_on() -> None:
    driver = ready()
    me = driver.producer
    driver.init()
    refused(ErrorCode.PRODUCER_FENCED, driver.init, me)


def test_a_fenced_producer_does_not_abort_its_successors_transaction() -> None:
    driver = ready()
    me = driver.producer
    driver.init()
    driver.add(A)
    refused(ErrorCode.PRODUCER_FENCED, driver.init, me)
    assert driver.state is TransactionState.ONGOING


def test_a_producer_goes_on_over_its_own_open_transaction_which_is_aborted() -> None:
    driver = ongoing()
    me = driver.producer
    after = driver.init(me)
    assert (driver.state, after.producer_id) == (TransactionState.EMPTY, me.producer_id)
    assert after.epoch == me.epoch + 1


# ---- time-outs


def test_a_transaction_that_timed_out_is_aborted_and_its_producer_fenced() -> None:
    driver = ongoing()
    me = driver.producer
    assert driver.transaction is not None
    driver.transaction = steps.time_out(driver.transaction, 100)
    assert driver.state is TransactionState.PREPARE_ABORT
    driver.complete()
    refused(ErrorCode.PRODUCER_FENCED, driver.add, A, by=me)
    refused(ErrorCode.PRODUCER_FENCED, driver.end, by=me)
    refused(ErrorCode.PRODUCER_FENCED, driver.end, by=me, commit=False)


def test_a_producer_whose_transaction_timed_out_may_ask_for_a_new_epoch() -> None:
    driver = ongoing()
    me = driver.producer
    assert driver.transaction is not None
    driver.transaction = steps.time_out(driver.transaction, 100)
    driver.complete()
    after = driver.init(me)
    assert after.epoch > me.epoch
    driver.add(A)


# ---- epochs that run out


def test_the_last_epoch_leads_to_a_new_producer_id() -> None:
    driver = ready().with_epoch(EPOCH_MAX - 1)
    me = driver.producer
    assert driver.init() == (1001, 0)
    refused(ErrorCode.PRODUCER_FENCED, driver.init, me)


def test_a_producer_that_names_itself_with_the_last_epoch_gets_a_new_id_and_may_ask_again() -> None:
    driver = ready().with_epoch(EPOCH_MAX - 1)
    me = driver.producer
    assert driver.init(me) == (1001, 0)
    assert driver.init(me) == (1001, 0)


def test_a_commit_with_the_last_epoch_ends_with_the_greatest_one_and_hands_out_a_new_id() -> None:
    driver = ongoing().with_epoch(EPOCH_MAX - 1)
    me = driver.producer
    decided = driver.end()
    assert (decided.producer_id, decided.producer_epoch) == (me.producer_id, EPOCH_MAX)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, driver.end, by=me)
    completed = driver.complete()
    assert driver.producer == (1001, 0)
    assert driver.end(by=me) is completed


@pytest.mark.parametrize(("epoch", "named"), [(EPOCH_MAX - 2, (1000, EPOCH_MAX - 1)), (EPOCH_MAX - 1, (1001, 0))])
def test_fencing_close_to_the_last_epoch_leads_to_a_new_producer_id(epoch: int, named: tuple[int, int]) -> None:
    driver = ongoing().with_epoch(epoch)
    assert driver.init() == (1001, 0)
    driver = ongoing().with_epoch(epoch)
    assert driver.init(driver.producer) == named


# ---- verification (KIP-890, part 1)


def test_only_partitions_of_an_ongoing_transaction_may_be_written_to() -> None:
    driver = ongoing()
    assert steps.verify(driver.transaction, driver.producer, (A, B)) == {
        A: ErrorCode.NONE,
        B: ErrorCode.TRANSACTION_ABORTABLE,
    }
    driver.end(version=V1)
    refused(ErrorCode.CONCURRENT_TRANSACTIONS, steps.verify, driver.transaction, driver.producer, (A,))
    driver.complete()
    assert steps.verify(driver.transaction, driver.producer, (A,)) == {A: ErrorCode.TRANSACTION_ABORTABLE}


# ---- two phases (KIP-939)


def prepared() -> Driver:
    driver = Driver()
    driver.init(timeout_ms=NO_TIMEOUT_MS)
    driver.add(A)
    return driver


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_is_kept_for_a_new_instance_to_decide_on(commit: bool) -> None:
    driver = prepared()
    old = driver.producer
    new = driver.init(keeps=True)
    assert driver.transaction is not None
    assert driver.transaction.is_two_phase
    assert driver.transaction.is_kept
    assert (driver.transaction.producer_id, driver.transaction.producer_epoch) == old
    refused(ErrorCode.PRODUCER_FENCED, driver.end, by=old)
    refused(ErrorCode.INVALID_TXN_STATE, driver.add, B, by=new)
    decided = driver.end(commit=commit)
    assert (decided.producer_id, decided.producer_epoch) == (old.producer_id, old.epoch + 1)
    completed = driver.complete()
    assert driver.producer == (new.producer_id, new.epoch + 1)
    assert driver.end(by=new, commit=commit) is completed


def test_each_instance_that_keeps_a_prepared_transaction_fences_the_one_before() -> None:
    driver = prepared()
    first = driver.init(keeps=True)
    second = driver.init(keeps=True)
    assert second.epoch == first.epoch + 1
    refused(ErrorCode.PRODUCER_FENCED, driver.end, by=first)


def test_a_kept_transaction_whose_epochs_run_out_goes_on_under_a_new_id() -> None:
    driver = prepared().with_epoch(EPOCH_MAX - 1)
    old = driver.producer
    new = driver.init(keeps=True)
    assert new == (1001, 0)
    decided = driver.end()
    assert (decided.producer_id, decided.producer_epoch) == (old.producer_id, EPOCH_MAX)
    driver.complete()
    assert driver.producer == (1001, 1)


def test_an_instance_that_does_not_keep_it_aborts_what_another_had_kept() -> None:
    driver = prepared()
    kept_by = driver.init(keeps=True)
    after = driver.init()
    assert driver.state is TransactionState.EMPTY
    assert after.epoch > kept_by.epoch
    refused(ErrorCode.PRODUCER_FENCED, driver.end, by=kept_by)


def test_keeping_when_nothing_is_open_is_an_ordinary_init() -> None:
    driver = ready()
    assert driver.init(keeps=True) == (1000, 1)
    assert driver.transaction is not None
    assert not driver.transaction.is_kept
