"""FindCoordinator (10), versions 0–6: who coordinates a group or a transactional id; it is always this node.

Deliberate: share groups (key type 2) are not served yet: INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mainstem.broker.api import Api, Call
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from mainstem.protocol.schema import Versions

if TYPE_CHECKING:
    from mainstem.broker.node import Node

_GROUP: Final = 0
_TRANSACTION: Final = 1
_MANY_FROM: Final = 4


def handle(node: Node, call: Call) -> FindCoordinatorResponse:
    """Serve one request; the top of the file says how."""
    body: FindCoordinatorRequest = call.body
    keys = body.coordinator_keys if call.api_version >= _MANY_FROM else [body.key]
    coordinators = [_find(node, call, body.key_type, key) for key in keys]
    if call.api_version >= _MANY_FROM:
        return FindCoordinatorResponse(coordinators=coordinators)
    only = coordinators[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _find(node: Node, call: Call, key_type: int, key: str) -> Coordinator:
    if key_type not in (_GROUP, _TRANSACTION):
        message = f"this node coordinates groups and transactions, not keys of type {key_type}"
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=ErrorCode.INVALID_REQUEST, error_message=message
        )
    host, port = call.advertised
    return Coordinator(
        key=key, node_id=node.node_id, host=host, port=port, error_code=ErrorCode.NONE, error_message=None
    )


API = Api(ApiKey.FIND_COORDINATOR, Versions(0, 6), handle)
