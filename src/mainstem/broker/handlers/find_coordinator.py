"""FindCoordinator (10), versions 0–6: the coordinator of a group (of any type), a transactional id or the state of a
share partition; it is always this node.

A share partition's key (type 2, from version 6) is GROUP:TOPIC_ID:PARTITION; another one is INVALID_REQUEST. The first
request creates the internal topic that keeps such keys, so that clients see it in Metadata. Kafka answers that request
with COORDINATOR_NOT_AVAILABLE, because it creates the topic later. Here the topic exists when the answer leaves.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access import group_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.broker.slices import Slices
from mainstem.broker.storage.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from mainstem.errors import MainstemError
from mainstem.log.partition.checkpoints import decode_uuid
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_SHARE_FROM: Final = 6
_MANY_FROM: Final = 4
_TOPICS: Final = {_GROUP: OFFSETS_TOPIC, _TRANSACTION: TRANSACTIONS_TOPIC, _SHARE: SHARE_STATE_TOPIC}
_UUID_LENGTH: Final = 22


def handle(node: Node, call: Call) -> FindCoordinatorResponse:
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
    is_share = key_type == _SHARE and call.api_version >= _SHARE_FROM
    if key_type not in (_GROUP, _TRANSACTION) and not (is_share and _names_share_partition(key)):
        message = f"key {key[:300]!r} of type {key_type} names no group, transaction or share partition"
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=ErrorCode.INVALID_REQUEST, error_message=message
        )
    try:
        node.topics.ensure_internal(_TOPICS[key_type])
    except MainstemError as error:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # clients ask again
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=str(error))
    host, port = call.advertised
    return Coordinator(
        key=key, node_id=node.node_id, host=host, port=port, error_code=ErrorCode.NONE, error_message=None
    )


def _names_share_partition(key: str) -> bool:
    group_id, _, rest = key.partition(":")
    topic_id, _, partition = rest.partition(":")
    return (
        bool(group_id) and len(topic_id) == _UUID_LENGTH and decode_uuid(topic_id) is not None and partition.isdigit()
    )


API = Api(
    FindCoordinatorRequest,
    handle,
    group_guards.find_coordinator,
    slices=Slices("coordinator_keys", "coordinators", once=True),
)
