"""The records of ``__transaction_state``, in Kafka's own format, so that Kafka's tools read them.

Key: two bytes that say its type, then the key's struct. Value: two bytes that say its version, then the value's struct;
a tombstone forgets the transactional id. Values are written as version 1; both that Kafka ever wrote are read.
"""

from __future__ import annotations

import struct
from typing import Final

from mainstem.broker.transactions.state import Transaction, TransactionState
from mainstem.errors import FrameError
from mainstem.model import TopicPartition
from mainstem.protocol.codec import decode_message, encode_message
from mainstem.protocol.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

_KEY_TYPE: Final = 0
_VALUE_VERSION: Final = 1
_INT16: Final = struct.Struct(">h")


def transaction_key(transactional_id: str) -> bytes:
    """The key of all records of a transactional id."""
    return _INT16.pack(_KEY_TYPE) + encode_message(TransactionLogKey(transactional_id=transactional_id), 0)


def transaction_value(transaction: Transaction) -> bytes:
    """The value that keeps the transaction as it is."""
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        next_producer_epoch=transaction.next_producer_epoch,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else _by_topic(transaction),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.version,
    )
    return _INT16.pack(_VALUE_VERSION) + encode_message(value, _VALUE_VERSION)


def _by_topic(transaction: Transaction) -> list[PartitionsSchema]:
    by_topic: dict[str, list[int]] = {}
    for each in sorted(transaction.partitions):
        by_topic.setdefault(each.topic, []).append(each.partition)
    return [PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in by_topic.items()]


def read_transaction(key: bytes, value: bytes | None) -> tuple[str, Transaction | None] | None:
    """The transactional id of a record and what it says of it: None for a tombstone.

    None for a record whose type is not known here. Raises FrameError for one that is damaged.
    """
    if _leading_int16(key) != _KEY_TYPE:
        return None
    transactional_id: str = decode_message(TransactionLogKey, 0, key, 2).transactional_id
    if value is None:
        return transactional_id, None
    held = decode_message(TransactionLogValue, _leading_int16(value), value, 2)
    try:
        state = TransactionState(held.transaction_status)
    except ValueError as error:
        raise FrameError(f"transactional id {transactional_id!r}: no state {held.transaction_status}") from error
    return transactional_id, Transaction(
        transactional_id,
        held.producer_id,
        held.producer_epoch,
        held.transaction_timeout_ms,
        state,
        held.transaction_last_update_timestamp_ms,
        previous_producer_id=held.previous_producer_id,
        next_producer_id=held.next_producer_id,
        next_producer_epoch=held.next_producer_epoch,
        partitions=frozenset(
            TopicPartition(each.topic, number)
            for each in held.transaction_partitions or ()
            for number in each.partition_ids
        ),
        start_ms=held.transaction_start_timestamp_ms,
        version=held.client_transaction_version,
    )


def _leading_int16(data: bytes) -> int:
    if len(data) < 2:
        raise FrameError(f"a transaction record's key or value is {len(data)} bytes long")
    number: int = _INT16.unpack_from(data)[0]
    return number
