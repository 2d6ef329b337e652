"""AlterReplicaLogDirs (34), versions 1–2: a node has one data directory, which already holds every partition.

Moving a partition there changes nothing and succeeds; any other directory is LOG_DIR_NOT_FOUND.
"""

from __future__ import annotations

from mainstem.broker.access import admin_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(node: Node, call: Call) -> AlterReplicaLogDirsResponse:
    body: AlterReplicaLogDirsRequest = call.body
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in body.dirs:
        for topic in directory.topics:
            results = topics.setdefault(topic.name, [])
            results += [_move(node, directory.path, topic.name, number) for number in topic.partitions]
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=results) for name, results in topics.items()]
    )


def _move(node: Node, path: str, topic: str, number: int) -> AlterReplicaLogDirPartitionResult:
    answer = AlterReplicaLogDirPartitionResult(partition_index=number, error_code=ErrorCode.NONE)
    try:
        if path != str(node.config.data_dir):
            raise refusal(ErrorCode.LOG_DIR_NOT_FOUND)
        node.topics.find(topic).require(number)
    except MainstemError as error:
        answer.error_code = error_code(error)
    return answer


API = Api(AlterReplicaLogDirsRequest, handle, admin_guards.alter_replica_log_dirs)
