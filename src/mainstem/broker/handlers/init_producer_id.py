"""InitProducerId (22), versions 0–6 (listed: 0–5): an id and an epoch for an idempotent or transactional producer.

Without a transactional id: a new id with epoch 0, also for a producer that sends its id (KIP-360's way to recover).
With one: older instances are fenced, and their open transaction is aborted before the answer. A producer that sends its
id and epoch gets the next epoch, unless it was fenced (KIP-360). Answered when it is durable.
Version 6 (KIP-939): ``enable2_pc`` begins transactions without a time-out; ``keep_prepared_txn`` leaves an ongoing one
to the caller, who can only end it, and names its id and epoch. It is not listed, as Kafka does not list it yet: clients
that take the newest version should not find one that few brokers serve.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access import admin_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code, refusal
from mainstem.broker.node import Node
from mainstem.broker.transactions.state import NO_EPOCH, NO_ID, NO_TIMEOUT_MS, ProducerIdAndEpoch, Transaction
from mainstem.broker.transactions.steps import Init
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mainstem.protocol.schema import VersionRange

_FENCED_FROM: Final = 4


async def handle(node: Node, call: Call) -> InitProducerIdResponse:
    body: InitProducerIdRequest = call.body
    try:
        if (body.producer_id == NO_ID) != (body.producer_epoch == NO_EPOCH):
            raise refusal(ErrorCode.INVALID_REQUEST, "give a producer id and its epoch together")
        if body.transactional_id is None:
            return _answer(ProducerIdAndEpoch(node.next_producer_id(), 0))
        transaction = await node.transactions.init(body.transactional_id, _parsed(node, body))
    except MainstemError as error:
        code = coordinator_code(error, knows_fenced=call.api_version >= _FENCED_FROM)
        return InitProducerIdResponse(error_code=code, producer_epoch=NO_EPOCH)
    return _answer(transaction.client, transaction if transaction.is_kept else None)


def _parsed(node: Node, body: InitProducerIdRequest) -> Init:
    """Return the request as an ``Init``. Raises RemoteError for invalid fields."""
    settings = node.transactions.settings
    expected = None
    if body.producer_id != NO_ID:
        expected = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
    if body.enable2_pc:
        if not settings.allows_two_phase:
            raise refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "two-phase transactions are switched off")
        return Init(NO_TIMEOUT_MS, expected, body.keep_prepared_txn)
    if not 0 < body.transaction_timeout_ms <= settings.timeout_ms_max:
        raise refusal(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    return Init(body.transaction_timeout_ms, expected, body.keep_prepared_txn)


def _answer(producer: ProducerIdAndEpoch, ongoing: Transaction | None = None) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        ongoing_txn_producer_id=NO_ID if ongoing is None else ongoing.producer_id,
        ongoing_txn_producer_epoch=NO_EPOCH if ongoing is None else ongoing.producer_epoch,
    )


API = Api(InitProducerIdRequest, handle, admin_guards.init_producer_id, advertised=VersionRange(0, 5))
