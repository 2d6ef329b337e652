"""The records of ``__transaction_state``: what each transactional id is doing.

A record's key is the key struct after two bytes that say its type (``__api_key__``); its value is the value struct
after two bytes that say its version.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string


class TransactionLogKey(Message, key=0, versions="0"):
    transactional_id: str = string()


class PartitionsSchema(Struct):
    topic: str = string()
    partition_ids: Sequence[int] = array("int32")


class TransactionLogValue(Message, key=0, versions="0-1", flexible="1+"):
    producer_id: int = int64()
    previous_producer_id: int = int64("1+", default=-1, tag=0)
    next_producer_id: int = int64("1+", default=-1, tag=1)
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: Sequence[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", default=0, tag=2)
    next_producer_epoch: int = int16("1+", default=-1, tag=3)
