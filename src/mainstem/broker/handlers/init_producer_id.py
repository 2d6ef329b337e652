"""InitProducerId (22), versions 0–5: an id for an idempotent producer.

Deliberate: no transactions yet: a transactional id gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client
takes as final. A producer that brings its own id and epoch gets a fresh id with epoch 0 (KIP-360's way out).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.api import Api, Call
from mainstem.broker.failures import error_code
from mainstem.errors import MainstemError
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from mainstem.protocol.schema import Versions

if TYPE_CHECKING:
    from mainstem.broker.node import Node


def handle(node: Node, call: Call) -> InitProducerIdResponse:
    """Serve one request; the top of the file says how."""
    body: InitProducerIdRequest = call.body
    if body.transactional_id is not None:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if body.transactional_id else ErrorCode.INVALID_REQUEST
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    try:
        producer_id = node.next_producer_id()
    except MainstemError as error:
        return InitProducerIdResponse(error_code=error_code(error), producer_epoch=-1)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


API = Api(ApiKey.INIT_PRODUCER_ID, Versions(0, 5), handle)
