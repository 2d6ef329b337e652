"""AlterShareGroupOffsets (91), version 0: sets the start offsets of a share group without members.

The records in flight in these partitions and their delivery counts are dropped. An unknown group is created, as in
Kafka. Durable when answered. Deliberate: an offset that is not in the log is OFFSET_OUT_OF_RANGE.
"""

from __future__ import annotations

from uuid import UUID

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import in_turn, on_topics, reads_group
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code, refusal, reported_in
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import alter_share_group_offsets as messages
from mainstem.protocol.schema import ZERO_UUID


async def handle(node: Node, call: Call) -> messages.AlterShareGroupOffsetsResponse:
    body: messages.AlterShareGroupOffsetsRequest = call.body
    answer = messages.AlterShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=[])
    offsets: dict[tuple[UUID, int], int] = {}
    responses = []
    for asked in body.topics:
        topic = node.topics.get(asked.topic_name)
        results = [_check(node, asked.topic_name, item, offsets) for item in asked.partitions]
        responses.append(
            messages.AlterShareGroupOffsetsResponseTopic(
                topic_name=asked.topic_name,
                topic_id=topic.topic_id if topic is not None else ZERO_UUID,
                partitions=results,
            )
        )
    with reported_in(answer, coordinator_code):
        await node.share.coordinator.alter_offsets(node.share.coordinator.find_or_create(body.group_id), offsets)
        answer.responses = responses
    return answer


def _check(
    node: Node, name: str, item: messages.AlterShareGroupOffsetsRequestPartition, offsets: dict[tuple[UUID, int], int]
) -> messages.AlterShareGroupOffsetsResponsePartition:
    """Collect the offsets that can be altered, and answer for the others."""
    answer = messages.AlterShareGroupOffsetsResponsePartition(
        partition_index=item.partition_index, error_code=ErrorCode.NONE
    )
    with reported_in(answer, coordinator_code):
        topic = node.topics.existing(name)
        log = topic.partition(item.partition_index)
        if not 0 <= item.start_offset <= log.high_watermark:
            raise refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {item.start_offset} is not in [0, {log.high_watermark}]"
            )
        offsets[topic.topic_id, item.partition_index] = item.start_offset
    return answer


API = Api(
    messages.AlterShareGroupOffsetsRequest,
    handle,
    in_turn(reads_group, on_topics(Operation.READ, "responses")),
    changes_state=True,
)
