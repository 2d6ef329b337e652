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
from mainstem.log.node.stored_size import stored_bytes
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import describe_log_dirs as messages


def handle(node: Node, call: Call) -> messages.DescribeLogDirsResponse:
    body: messages.DescribeLogDirsRequest = call.body
    wanted = None if body.topics is None else {topic.topic: set(topic.partitions) for topic in body.topics}
    topics = []
    for topic in node.topics.all():
        if wanted is not None and topic.name not in wanted:
            continue
        partitions = [
            messages.DescribeLogDirsPartition(
                partition_index=number, partition_size=size, offset_lag=0, is_future_key=False
            )
            for number in range(len(topic.partitions))
            if wanted is None or number in wanted[topic.name]
            if (size := stored_bytes(node.log.directory, TopicPartition(topic.name, number))) is not None
        ]
        if partitions:
            topics.append(messages.DescribeLogDirsTopic(name=topic.name, partitions=partitions))
    place = str(node.config.data_dir.absolute())
    result = messages.DescribeLogDirsResult(error_code=ErrorCode.NONE, log_dir=place, topics=topics)
    return messages.DescribeLogDirsResponse(results=[result])


API = Api(messages.DescribeLogDirsRequest, handle, on_cluster(Operation.DESCRIBE))
