"""OffsetDelete (47), version 0: removes a group's committed offsets of some partitions; durable when answered.

Refused for a group that has members, unless they consume with Kafka's consumer protocol and none of them subscribes to
the topic (GROUP_SUBSCRIBED_TO_TOPIC).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem.broker.api import Api, Call
from mainstem.broker.failures import error_code
from mainstem.broker.groups.records import OffsetKey
from mainstem.errors import MainstemError
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
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
    codes: dict[str, ErrorCode] = {}
    try:
        group.check_offset_delete()
        for topic in body.topics:
            used = group.subscribes(topic.name)
            codes[topic.name] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if used else ErrorCode.NONE
        await node.groups.delete_offsets(
            OffsetKey(body.group_id, topic.name, item.partition_index)
            for topic in body.topics
            if codes[topic.name] is ErrorCode.NONE
            for item in topic.partitions
        )
    except MainstemError as error:
        return OffsetDeleteResponse(error_code=error_code(error), topics=[])
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=[_answer(topic, codes) for topic in body.topics])


def _answer(topic: OffsetDeleteRequestTopic, codes: Mapping[str, ErrorCode]) -> OffsetDeleteResponseTopic:
    partitions = [
        OffsetDeleteResponsePartition(partition_index=item.partition_index, error_code=codes[topic.name])
        for item in topic.partitions
    ]
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


API = Api(ApiKey.OFFSET_DELETE, Versions(0, 0), handle)
