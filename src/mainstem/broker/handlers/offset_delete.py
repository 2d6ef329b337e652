"""OffsetDelete (47), version 0: removes a group's committed offsets of some partitions; durable when answered.

Refused for a group that has members, unless they consume with Kafka's consumer protocol and none of them subscribes to
the topic (GROUP_SUBSCRIBED_TO_TOPIC). A topic or partition that does not exist is UNKNOWN_TOPIC_OR_PARTITION.
A long request is written in pieces, and the group is checked before each: one that gains a member meanwhile refuses the
rest, and the answer says so.
"""

from __future__ import annotations

from mainstem.broker.access.acls import Operation, ResourceType
from mainstem.broker.access.guards import in_turn, on_named, on_topics
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code
from mainstem.broker.groups.group_types import Group
from mainstem.broker.groups.records import OffsetKey
from mainstem.broker.node import Node
from mainstem.broker.slices import in_pieces, in_turns
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import offset_delete as messages


async def handle(node: Node, call: Call) -> messages.OffsetDeleteResponse:
    body: messages.OffsetDeleteRequest = call.body
    group = node.groups.group(body.group_id)
    if group is None:
        missing = ErrorCode.GROUP_ID_NOT_FOUND if body.group_id else ErrorCode.INVALID_GROUP_ID
        return messages.OffsetDeleteResponse(error_code=missing, topics=[])
    try:
        group.check_offset_delete()
        topics = [await _answer(node, group, topic) async for topic in in_turns(body.topics)]
        keys = {
            OffsetKey(body.group_id, topic.name, item.partition_index): None
            async for topic in in_turns(topics)
            async for item in in_turns(topic.partitions)
            if not item.error_code
        }
        used: set[str] = set()
        for piece in in_pieces(list(keys)):
            now = node.groups.group(body.group_id)  # each change of a group replaces it
            if now is None:
                break  # it was deleted meanwhile, with its offsets
            now.check_offset_delete()
            used |= {name for name in {key.topic for key in piece} if now.subscribes(name)}
            await node.groups.delete_offsets(key for key in piece if key.topic not in used)
        for answer in (item for topic in topics if topic.name in used for item in topic.partitions):
            answer.error_code = answer.error_code or ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    except MainstemError as error:
        return messages.OffsetDeleteResponse(error_code=coordinator_code(error), topics=[])
    return messages.OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)


async def _answer(
    node: Node, group: Group, asked: messages.OffsetDeleteRequestTopic
) -> messages.OffsetDeleteResponseTopic:
    topic = node.topics.get(asked.name)
    count = 0 if topic is None else len(topic.partitions)
    used = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.subscribes(asked.name) else ErrorCode.NONE
    numbers = [item.partition_index for item in asked.partitions]
    partitions = [
        messages.OffsetDeleteResponsePartition(
            partition_index=number,
            error_code=used if 0 <= number < count else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        async for number in in_turns(numbers)
    ]
    return messages.OffsetDeleteResponseTopic(name=asked.name, partitions=partitions)


API = Api(
    messages.OffsetDeleteRequest,
    handle,
    in_turn(
        on_named(ResourceType.GROUP, Operation.DELETE, "group_id"),
        on_topics(Operation.READ),
    ),
    changes_state=True,
)
