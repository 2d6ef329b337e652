"""DeleteShareGroupOffsets (92), version 0: removes topics from a share group without members; durable when answered.

An unknown topic is UNKNOWN_TOPIC_OR_PARTITION; for a topic that the group does not share there is nothing to remove.
"""

from __future__ import annotations

from mainstem.broker.access.acls import Operation, ResourceType
from mainstem.broker.access.guards import in_turn, on_named, on_topics
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code
from mainstem.broker.node import Node
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import delete_share_group_offsets as messages
from mainstem.protocol.schema import ZERO_UUID


async def handle(node: Node, call: Call) -> messages.DeleteShareGroupOffsetsResponse:
    body: messages.DeleteShareGroupOffsetsRequest = call.body
    answer = messages.DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=[])
    found = [(asked.topic_name, node.topics.get(asked.topic_name)) for asked in body.topics]
    try:
        group = node.share.coordinator.find(body.group_id)
        await node.share.coordinator.delete_offsets(group, [topic for _, topic in found if topic is not None])
    except MainstemError as error:
        answer.error_code, answer.error_message = coordinator_code(error), str(error)
        return answer
    answer.responses = [
        messages.DeleteShareGroupOffsetsResponseTopic(
            topic_name=name,
            topic_id=topic.topic_id if topic is not None else ZERO_UUID,
            error_code=ErrorCode.NONE if topic is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        for name, topic in found
    ]
    return answer


API = Api(
    messages.DeleteShareGroupOffsetsRequest,
    handle,
    in_turn(
        on_named(ResourceType.GROUP, Operation.DELETE, "group_id"),
        on_topics(Operation.READ, "responses"),
    ),
    changes_state=True,
)
