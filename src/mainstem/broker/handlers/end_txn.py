"""EndTxn (26), versions 0–5: commits or aborts a transaction; answered when every partition has its marker durably.

From version 5 the end raises the producer's epoch, and the answer carries the new one. A repeated request gets the same
answer and ends nothing (KIP-890). Before version 5, a repeat that is delayed into the producer's next transaction
looks the same as that transaction's own end.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access.acls import Operation, ResourceType
from mainstem.broker.access.guards import on_named
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code
from mainstem.broker.node import Node
from mainstem.broker.transactions.state import ProducerIdAndEpoch
from mainstem.broker.transactions.steps import EPOCH_BUMP_FROM
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

_FENCED_FROM: Final = 2
_RAISES_EPOCH_FROM: Final = 5


async def handle(node: Node, call: Call) -> EndTxnResponse:
    body: EndTxnRequest = call.body
    version = EPOCH_BUMP_FROM if call.api_version >= _RAISES_EPOCH_FROM else 0
    producer = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
    try:
        after = await node.transactions.end(body.transactional_id, producer, version, commit=body.committed)
    except MainstemError as error:
        return EndTxnResponse(error_code=coordinator_code(error, knows_fenced=call.api_version >= _FENCED_FROM))
    return EndTxnResponse(error_code=ErrorCode.NONE, producer_id=after.producer_id, producer_epoch=after.epoch)


API = Api(EndTxnRequest, handle, on_named(ResourceType.TRANSACTIONAL_ID, Operation.WRITE, "transactional_id"))
