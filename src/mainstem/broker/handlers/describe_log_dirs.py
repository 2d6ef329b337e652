"""DescribeLogDirs (35), versions 1–5: the data directory, and how many bytes each partition takes in it.

The directory's path is absolute: a reader on the same machine may look into it.

Deliberate: the disk's total and free space are unknown (-1).
"""

from __future__ import annotations

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_cluster
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.broker.slices import in_turns
from mainstem.log.node.stored_size import stored_bytes
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import describe_log_dirs as messages


async def handle(node: Node, call: Call) -> messages.DescribeLogDirsResponse:
    async with node.overviews:
        return await _described(node, call)


async def _described(node: Node, call: Call) -> messages.DescribeLogDirsResponse:
    body: messages.DescribeLogDirsRequest = call.body
    wanted = None if body.topics is None else {topic.topic: set(topic.partitions) for topic in body.topics}
    asked = [each for each in node.topics.all() if wanted is None or each.name in wanted]
    found: dict[str, list[messages.DescribeLogDirsPartition]] = {}
    async for topic, number in in_turns((each, number) for each in asked for number in range(len(each.partitions))):
        if wanted is not None and number not in wanted[topic.name]:
            continue
        size_bytes = stored_bytes(node.log.directory, TopicPartition(topic.name, number))
        if size_bytes is None:
            continue
        partition = messages.DescribeLogDirsPartition(
            partition_index=number, partition_size=size_bytes, offset_lag=0, is_future_key=False
        )
        found.setdefault(topic.name, []).append(partition)
    topics = [messages.DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in found.items()]
    place = str(node.config.data_dir.absolute())
    result = messages.DescribeLogDirsResult(error_code=ErrorCode.NONE, log_dir=place, topics=topics)
    return messages.DescribeLogDirsResponse(results=[result])


API = Api(messages.DescribeLogDirsRequest, handle, on_cluster(Operation.DESCRIBE), has_long_answer=True)
