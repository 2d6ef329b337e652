"""Producer ids and sequence numbers by the Kafka protocol, for those who stamp their own record batches."""

from __future__ import annotations

from typing import NamedTuple

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.coordinated import TRANSACTION, ask_coordinator
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mainstem.record.constants import INT32_MAX
from mainstem.record.writer import ProducerStamp


class ProducerIdentity(NamedTuple):
    """The producer id and epoch that batches carry."""

    producer_id: int
    producer_epoch: int


class BatchStamps:
    """The stamps of one producer's batches, whose sequence numbers follow on in each partition.

    As in Kafka's DefaultRecordBatch, 0 follows 2³¹ - 1. Used by one thread.
    """

    def __init__(self, identity: ProducerIdentity, *, is_transactional: bool = False) -> None:
        self.identity = identity
        self._is_transactional = is_transactional
        self._sequences: dict[TopicPartition, int] = {}

    def adopt(self, identity: ProducerIdentity) -> None:
        """Go on with this identity; if it is another one, each partition begins at sequence 0."""
        if identity != self.identity:
            self.identity = identity
            self._sequences.clear()

    def next_stamp(self, tp: TopicPartition) -> ProducerStamp:
        """The stamp of the partition's next batch."""
        return ProducerStamp(*self.identity, self._sequences.get(tp, 0), self._is_transactional)

    def advance(self, tp: TopicPartition, records: int) -> None:
        """Count the records of a stamped batch, so that the next stamp follows them."""
        self._sequences[tp] = (self._sequences.get(tp, 0) + records) & INT32_MAX


def init_producer_id(
    client: WireClient, transactional_id: str | None = None, *, transaction_timeout_ms: int = 60_000
) -> ProducerIdentity:
    """A new producer id; with a transactional id: its id and next epoch, which fences the producer with the last one.

    Raises ProducerError, LogUnavailableError.
    """
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=transaction_timeout_ms)
    if transactional_id is None:  # an unused id costs nothing
        answer = client.request(request, codes=_codes, resends=True)
    else:  # an epoch whose answer got lost would fence its own producer
        answer = ask_coordinator(client, request, transactional_id, TRANSACTION, _codes, resends=False)
    if answer.error_code != ErrorCode.NONE:
        raise error_of(answer.error_code, "the log gives no producer id")
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


def _codes(answer: InitProducerIdResponse) -> list[int]:
    return [answer.error_code]
