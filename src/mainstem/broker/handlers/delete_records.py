"""DeleteRecords (21), versions 0–2: moves a partition's start forward; durable when answered.

Offset -1 means the high watermark. Deliberate: internal topics keep theirs (INVALID_TOPIC_EXCEPTION).
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_topics
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.broker.slices import in_turns
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import delete_records as messages


async def handle(node: Node, call: Call) -> messages.DeleteRecordsResponse:
    body: messages.DeleteRecordsRequest = call.body
    topics: list[messages.DeleteRecordsTopicResult] = []
    try:
        async for asked in in_turns(body.topics):
            partitions: list[messages.DeleteRecordsPartitionResult] = []
            if asked.partitions:
                topics.append(messages.DeleteRecordsTopicResult(name=asked.name, partitions=partitions))
            async for item in in_turns(asked.partitions):
                partitions.append(_delete(node, asked.name, item))
    finally:  # also if the client has left: readers may have seen the new start offsets
        _make_durable(node, [partition for topic in topics for partition in topic.partitions])
    return messages.DeleteRecordsResponse(topics=topics)


def _make_durable(node: Node, partitions: Sequence[messages.DeleteRecordsPartitionResult]) -> None:
    """Write the new start offsets; on failure every partition gets the error."""
    if all(partition.error_code for partition in partitions):
        return
    try:
        node.write_checkpoints()
    except MainstemError as error:
        for partition in partitions:
            partition.error_code = partition.error_code or error_code(error)


def _delete(node: Node, name: str, item: messages.DeleteRecordsPartition) -> messages.DeleteRecordsPartitionResult:
    answer = messages.DeleteRecordsPartitionResult(
        partition_index=item.partition_index, low_watermark=-1, error_code=ErrorCode.NONE
    )
    try:
        topic = node.topics.existing(name)
        if topic.is_internal:
            raise refusal(ErrorCode.INVALID_TOPIC_EXCEPTION)
        log = topic.partition(item.partition_index)
        answer.low_watermark = log.delete_records(item.offset)
        node.fetches.wake(log)
    except MainstemError as error:
        answer.error_code = error_code(error)
    return answer


API = Api(messages.DeleteRecordsRequest, handle, on_topics(Operation.DELETE), changes_state=True)
