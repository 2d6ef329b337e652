"""AddOffsetsToTxn (25), versions 0–4: adds a group's offsets to a transaction; durable when answered.

The partition of ``__consumer_offsets`` that keeps the group is added to the transaction.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access.acls import Operation, ResourceType
from mainstem.broker.access.guards import in_turn, on_named
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code, refusal
from mainstem.broker.node import Node
from mainstem.broker.transactions.state import ProducerIdAndEpoch
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_FENCED_FROM: Final = 2


async def handle(node: Node, call: Call) -> AddOffsetsToTxnResponse:
    body: AddOffsetsToTxnRequest = call.body
    try:
        if code := node.groups.log.refusal(body.group_id):
            raise refusal(code)
        partition = node.groups.log.partition(body.group_id).topic_partition
        producer = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
        await node.transactions.add(body.transactional_id, producer, [partition], 0)
    except MainstemError as error:
        code = coordinator_code(error, knows_fenced=call.api_version >= _FENCED_FROM)
        return AddOffsetsToTxnResponse(error_code=code)
    return AddOffsetsToTxnResponse(error_code=ErrorCode.NONE)


API = Api(
    AddOffsetsToTxnRequest,
    handle,
    in_turn(
        on_named(ResourceType.TRANSACTIONAL_ID, Operation.WRITE, "transactional_id"),
        on_named(ResourceType.GROUP, Operation.READ, "group_id"),
    ),
)
