"""OffsetDelete (47), version 0: removes a group's committed offsets of some partitions; durable when answered.

Refused for a group that has members, unless they consume with Kafka's consumer protocol and none of them subscribes to
the topic (GROUP_SUBSCRIBED_TO_TOPIC). Deliberate: what members subscribe to is not looked at: with members, each
partition is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.api import Api, Call
from mainstem.broker.failures import error_code
from mainstem.broker.groups.classic import GroupState
from mainstem.broker.groups.records import OffsetKey
from mainstem.errors import MainstemError
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from mainstem.protocol.schema import Versions

if TYPE_CHECKING:
    from mainstem.broker.node import Node


async def handle(node: Node, call: Call) -> OffsetDeleteResponse:
    """Serve one request; the top of the file says how."""
    body: OffsetDeleteRequest = call.body
    group = node.groups.group(body.group_id)
    if group is None:
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, topics=[])
    if group.state is not GroupState.EMPTY and not group.is_consumer_group:
        return OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP, topics=[])
    is_empty = group.state is GroupState.EMPTY
    code = ErrorCode.NONE if is_empty else ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    keys = [
        OffsetKey(body.group_id, topic.name, item.partition_index) for topic in body.topics for item in topic.partitions
    ]
    if is_empty and keys:
        try:
            await node.groups.delete_offsets(keys)
        except MainstemError as error:
            code = error_code(error)
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=item.partition_index, error_code=code)
                    for item in topic.partitions
                ],
            )
            for topic in body.topics
        ],
    )


API = Api(ApiKey.OFFSET_DELETE, Versions(0, 0), handle)
