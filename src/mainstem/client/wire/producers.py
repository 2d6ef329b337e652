"""Producer ids by the Kafka protocol, for those who stamp their own record batches."""

from __future__ import annotations

from typing import NamedTuple

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster import WireClient
from mainstem.client.wire.groups import TRANSACTION, find_coordinator
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.init_producer_id import InitProducerIdRequest


class ProducerIdentity(NamedTuple):
    """What batches are stamped with."""

    producer_id: int
    producer_epoch: int


def init_producer_id(
    client: WireClient, transactional_id: str | None = None, *, transaction_timeout_ms: int = 60_000
) -> ProducerIdentity:
    """A new producer id; with a transactional id: its id and next epoch, which fences whoever had the one before.

    Raises ProducerError, LogUnavailableError.
    """
    node = None if transactional_id is None else find_coordinator(client, transactional_id, TRANSACTION)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=transaction_timeout_ms)
    # An id that nobody uses costs nothing; an epoch that nobody knows of would fence its own producer.
    resends = transactional_id is None
    answer = client.request(request, node, codes=lambda answer: [answer.error_code], resends=resends)
    if answer.error_code != ErrorCode.NONE:
        raise error_of(answer.error_code, "the log gives no producer id")
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)
