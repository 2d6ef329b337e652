"""Records of transactions in a Produce request: whether they may be written, and for which producer.

From version 12 on a partition becomes part of the transaction with its first records (KIP-890, part 2). Before version
12 it must already be part of it. Late records are then refused: they would open a transaction without an end (part 1).
Pure except for the coordinator's writes. Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from mainstem.broker.error_codes import error_code
from mainstem.broker.transactions.coordinator import TransactionCoordinator
from mainstem.broker.transactions.state import ProducerIdAndEpoch
from mainstem.errors import CorruptBatchError, MainstemError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.record.constants import ATTRIBUTES_AT, HEADER_BYTES, TRANSACTIONAL_BIT
from mainstem.record.header import read_header

_ABORTABLE_FROM: Final = 11
ADDS_FROM: Final = 12
"""The version of Produce from which it adds partitions to the transaction."""


class ProduceAdmission(NamedTuple):
    """Why partitions may not be written to, and the log and offset that have to be durable before, if any."""

    codes: Mapping[TopicPartition, ErrorCode]
    wait: tuple[PartitionLog, int] | None


def transactional_producer(records: object) -> ProducerIdAndEpoch | None:
    """Whose transaction the record batch belongs to; None when it belongs to none, or is not a whole batch.

    As in Kafka, only the first batch counts: a request with several is refused.
    """
    if not isinstance(records, memoryview) or len(records) < HEADER_BYTES:
        return None
    if not records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT:
        return None
    try:
        header = read_header(records)
    except CorruptBatchError:
        return None  # the append says what is wrong with it
    return ProducerIdAndEpoch(header.producer_id, header.producer_epoch) if header.size_bytes <= len(records) else None


def admit_records(
    coordinator: TransactionCoordinator,
    transactional_id: str,
    producers: Mapping[TopicPartition, ProducerIdAndEpoch],
    version: int,
    *,
    adds: bool,
) -> ProduceAdmission:
    """Whether these producers may write to these partitions in the transaction, now or after a wait."""
    codes: dict[TopicPartition, ErrorCode] = {}
    wait = None
    for producer in set(producers.values()):
        partitions = [each for each, of in producers.items() if of == producer]
        try:
            admission = coordinator.admit(transactional_id, producer, partitions, adds=adds)
        except MainstemError as error:
            codes.update(dict.fromkeys(partitions, _as_known(error_code(error), version)))
            continue
        codes.update({each: _as_known(code, version) for each, code in admission.codes.items() if code})
        wait = admission.wait or wait
    return ProduceAdmission(codes, wait)


def _as_known(code: ErrorCode, version: int) -> ErrorCode:
    """The code as a producer of that version understands it."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    if code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE) and version < ADDS_FROM:
        return ErrorCode.NOT_ENOUGH_REPLICAS  # which it tries again
    return code
