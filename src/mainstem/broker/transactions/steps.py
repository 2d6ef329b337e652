"""The steps of a transactional id: init, add, verify, end, time out, complete.

Each step takes a transaction and returns its next state, which the coordinator writes to the log; the same object means
that there is nothing to write. An invalid request raises RemoteError with the protocol's code. No I/O, no clock, no
randomness: ``now_ms`` is the time, and ``new_producer_id`` gives an unused id.

Epochs (KIP-890). A client of transaction version 2 gets a new epoch at the end of every transaction. An EndTxn with the
previous epoch is therefore a retry: it gets the same answer again and ends nothing. When the time-out ends a
transaction, the epoch rises by two, so that no request of the fenced producer looks like such a retry.
InitProducerId over an open transaction aborts it with the next epoch, as in Kafka, and as a transaction of version 1;
an instance that does not name its id and epoch gets the epoch after that.

                   ended with this epoch's    sent with the current epoch   any other epoch
    EMPTY                    –                 abort: ends (version 2)        PRODUCER_FENCED
    ONGOING                  –                 ends                           PRODUCER_FENCED
    PREPARE_*      CONCURRENT_TRANSACTIONS              –                     PRODUCER_FENCED
    COMPLETE_*     its answer again            abort: ends (version 2)        PRODUCER_FENCED

A repeat that asks for the opposite, and a commit of what never began, are INVALID_TXN_STATE.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from mainstem.broker.error_codes import refusal
from mainstem.broker.transactions.state import (
    ENDING,
    EPOCH_MAX,
    NO_EPOCH,
    NO_ID,
    ProducerIdAndEpoch,
    Transaction,
    TransactionState,
    is_exhausted,
)
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode

NewProducerId: TypeAlias = Callable[[], int]

EPOCH_BUMP_FROM: Final = 2
"""The transaction version from which each end of a transaction raises the epoch (KIP-890)."""
_NO_REPEAT: Final = 1
"""An abort of this version was not its producer's: no EndTxn with the epoch before is taken for a repeat of it."""


@dataclass(frozen=True, slots=True)
class Init:
    """The parameters of an InitProducerId.

    ``expected`` is the producer that goes on after an error (KIP-360); ``keeps_prepared`` leaves an ongoing transaction
    as it is for the caller to decide on (KIP-939).
    """

    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    keeps_prepared: bool = False


def init(
    transaction: Transaction | None,
    transactional_id: str,
    request: Init,
    now_ms: int,
    new_producer_id: NewProducerId,
) -> Transaction:
    """A new instance of the producer, or the same one after an error, takes the transactional id over.

    EMPTY: it may begin; ONGOING: a prepared transaction is kept for it; PREPARE_ABORT: what was ongoing has to be
    aborted first, then it may ask again. Raises RemoteError: PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    if transaction is None:
        return Transaction(
            transactional_id, new_producer_id(), 0, request.timeout_ms, TransactionState.EMPTY, last_update_ms=now_ms
        )
    if transaction.state in ENDING:
        raise refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
    _check_expected(transaction, request.expected)
    if transaction.state is TransactionState.ONGOING:
        if request.keeps_prepared:
            return _keep(transaction, now_ms, new_producer_id)
        return _fence(transaction, now_ms, _NO_REPEAT, 1, recovers=request.expected is not None)
    producer, previous_id, last_epoch = _next_instance(transaction, request.expected, new_producer_id)
    return replace(
        transaction,
        state=TransactionState.EMPTY,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        previous_producer_id=previous_id,
        last_producer_epoch=last_epoch,
        timeout_ms=request.timeout_ms,
        partitions=frozenset(),
        start_ms=-1,
        last_update_ms=now_ms,
    )


def _check_expected(transaction: Transaction, expected: ProducerIdAndEpoch | None) -> None:
    """Check that a named id and epoch are the current instance's, or repeat the request that created it."""
    if expected is None:
        return
    current = transaction.client
    same_id = expected.producer_id == current.producer_id
    if same_id and expected.epoch in (current.epoch, transaction.last_producer_epoch):
        return
    rotated = expected.producer_id == transaction.previous_producer_id and is_exhausted(expected.epoch)
    if rotated and expected.epoch == transaction.last_producer_epoch:
        return
    raise refusal(ErrorCode.PRODUCER_FENCED)


def _next_instance(
    transaction: Transaction, expected: ProducerIdAndEpoch | None, new_producer_id: NewProducerId
) -> tuple[ProducerIdAndEpoch, int, int]:
    """The producer that an idle id is given, its previous id, and the epoch that a repeat would name."""
    current = transaction.client
    if expected is not None and expected != current and current.epoch < EPOCH_MAX:
        return current, transaction.previous_producer_id, transaction.last_producer_epoch
    last_epoch = NO_EPOCH if expected is None else expected.epoch
    if is_exhausted(current.epoch):
        return ProducerIdAndEpoch(new_producer_id(), 0), current.producer_id, last_epoch
    return ProducerIdAndEpoch(current.producer_id, current.epoch + 1), transaction.previous_producer_id, last_epoch


def _keep(transaction: Transaction, now_ms: int, new_producer_id: NewProducerId) -> Transaction:
    """Fence older instances, and let the new one decide on the transaction that they prepared."""
    successor, previous_id = _raised(transaction.client, transaction.previous_producer_id, new_producer_id)
    return replace(
        transaction,
        previous_producer_id=previous_id,
        next_producer_id=successor.producer_id,
        next_producer_epoch=successor.epoch,
        last_producer_epoch=NO_EPOCH,
        last_update_ms=now_ms,
    )


def _raised(
    current: ProducerIdAndEpoch, previous_id: int, new_producer_id: NewProducerId
) -> tuple[ProducerIdAndEpoch, int]:
    if is_exhausted(current.epoch):
        return ProducerIdAndEpoch(new_producer_id(), 0), current.producer_id
    return ProducerIdAndEpoch(current.producer_id, current.epoch + 1), previous_id


def _fence(transaction: Transaction, now_ms: int, version: int, epochs: int, *, recovers: bool) -> Transaction:
    """Abort what is ongoing, and raise the epoch, so that its producer can write nothing more.

    With ``recovers`` that producer may still ask for the new epoch.
    """
    fenced = transaction.client
    epoch = min(fenced.epoch + epochs, EPOCH_MAX)
    return replace(
        transaction,
        state=TransactionState.PREPARE_ABORT,
        producer_epoch=min(transaction.producer_epoch + 1, EPOCH_MAX) if transaction.is_kept else epoch,
        next_producer_epoch=epoch if transaction.is_kept else NO_EPOCH,
        last_producer_epoch=fenced.epoch if recovers else NO_EPOCH,
        last_update_ms=now_ms,
        version=version,
    )


def time_out(transaction: Transaction, now_ms: int) -> Transaction:
    """The transaction has taken too long: it is aborted. Its producer may go on by asking for a new epoch."""
    assert transaction.state is TransactionState.ONGOING, "only an ongoing transaction times out"
    return _fence(transaction, now_ms, EPOCH_BUMP_FROM, 2, recovers=True)


def add(
    transaction: Transaction | None,
    producer: ProducerIdAndEpoch,
    partitions: Collection[TopicPartition],
    version: int,
    now_ms: int,
) -> Transaction:
    """Partitions become part of the transaction, which begins with the first of them.

    Raises RemoteError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
    """
    transaction = _current(transaction, producer)
    if transaction.state in ENDING:
        raise refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.is_kept:
        raise refusal(ErrorCode.INVALID_TXN_STATE, "a prepared transaction can only be ended")
    if transaction.state is TransactionState.ONGOING:
        if transaction.partitions.issuperset(partitions):
            return transaction
        start_ms = transaction.start_ms
    else:
        start_ms = now_ms
    return replace(
        transaction,
        state=TransactionState.ONGOING,
        partitions=transaction.partitions.union(partitions),
        start_ms=start_ms,
        last_update_ms=now_ms,
        version=version,
    )


def _current(transaction: Transaction | None, producer: ProducerIdAndEpoch) -> Transaction:
    """The transaction, if ``producer`` is its current instance."""
    if transaction is None or transaction.client.producer_id != producer.producer_id:
        raise refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.client.epoch != producer.epoch:
        raise refusal(ErrorCode.PRODUCER_FENCED)
    return transaction


def verify(
    transaction: Transaction | None, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Whether records of ``producer`` may be written to ``partitions`` now, which it has added before.

    TRANSACTION_ABORTABLE for those that it has not. Raises RemoteError for all of them: INVALID_PRODUCER_ID_MAPPING,
    PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    transaction = _current(transaction, producer)
    if transaction.state in ENDING:
        raise refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
    open_in = frozenset() if transaction.is_kept else transaction.partitions
    return {each: ErrorCode.NONE if each in open_in else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}


def end(
    transaction: Transaction | None,
    producer: ProducerIdAndEpoch,
    version: int,
    now_ms: int,
    new_producer_id: NewProducerId,
    *,
    commit: bool,
) -> Transaction:
    """The producer commits or aborts. The same value: it was ended so before, and this is a repeat.

    Raises RemoteError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS.
    """
    if transaction is None:
        raise refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_repeat = _is_repeat(transaction, producer, version)
    if not is_repeat:
        _current(transaction, producer)
    if transaction.state in ENDING:
        if not is_repeat:
            raise refusal(ErrorCode.PRODUCER_FENCED)
        _check_same_end(transaction, commit)
        raise refusal(ErrorCode.CONCURRENT_TRANSACTIONS)
    if is_repeat:
        _check_same_end(transaction, commit)
        return transaction
    if transaction.state is not TransactionState.ONGOING and (commit or version < EPOCH_BUMP_FROM):
        raise refusal(ErrorCode.INVALID_TXN_STATE, f"there is nothing to end: it is {transaction.state.text}")
    return _prepare(transaction, version, now_ms, new_producer_id, commit=commit)


def _is_repeat(transaction: Transaction, producer: ProducerIdAndEpoch, version: int) -> bool:
    """Whether ``producer`` is what the producer was when it ended the transaction."""
    if transaction.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        return False
    after = transaction.client
    if version < EPOCH_BUMP_FROM:
        return producer == after
    if transaction.version < EPOCH_BUMP_FROM:
        return False
    if after.epoch == 0:
        return producer.producer_id == transaction.previous_producer_id and is_exhausted(producer.epoch)
    return producer == (after.producer_id, after.epoch - 1)


def _check_same_end(transaction: Transaction, commit: bool) -> None:
    if commit != transaction.commits:
        raise refusal(ErrorCode.INVALID_TXN_STATE, f"it was ended otherwise: it is {transaction.state.text}")


def _prepare(
    transaction: Transaction, version: int, now_ms: int, new_producer_id: NewProducerId, *, commit: bool
) -> Transaction:
    """The decision. It is carried out in every partition once it is durable."""
    client, marker_epoch = transaction.client, transaction.producer_epoch
    successor, previous_id = client, transaction.previous_producer_id
    if version >= EPOCH_BUMP_FROM:
        successor, previous_id = _raised(client, previous_id, new_producer_id)
    if version >= EPOCH_BUMP_FROM or transaction.is_kept:
        marker_epoch = min(marker_epoch + 1, EPOCH_MAX)
    changes = successor != (transaction.producer_id, marker_epoch)
    return replace(
        transaction,
        state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        producer_epoch=marker_epoch,
        previous_producer_id=previous_id,
        next_producer_id=successor.producer_id if changes else NO_ID,
        next_producer_epoch=successor.epoch if changes else NO_EPOCH,
        last_producer_epoch=client.epoch if version >= EPOCH_BUMP_FROM else transaction.last_producer_epoch,
        start_ms=transaction.start_ms if transaction.state is TransactionState.ONGOING else now_ms,
        last_update_ms=now_ms,
        version=version,
    )


def complete(transaction: Transaction, now_ms: int) -> Transaction:
    """Every partition has its marker: the transactional id is free for the next transaction."""
    assert transaction.state in ENDING, "only what was decided is completed"
    after = transaction.client
    return replace(
        transaction,
        state=TransactionState.COMPLETE_COMMIT if transaction.commits else TransactionState.COMPLETE_ABORT,
        producer_id=after.producer_id,
        producer_epoch=after.epoch,
        next_producer_id=NO_ID,
        next_producer_epoch=NO_EPOCH,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )
