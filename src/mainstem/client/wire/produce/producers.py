"""Producer ids by the Kafka protocol, for those who stamp their own record batches."""

from __future__ import annotations

from typing import NamedTuple

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.coordinated import TRANSACTION, ask_coordinator
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class ProducerIdentity(NamedTuple):
    """The producer id and epoch that batches carry."""

    producer_id: int
    producer_epoch: int


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
