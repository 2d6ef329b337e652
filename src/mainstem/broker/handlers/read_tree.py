"""ReadTree (32003), version 0, Mainstem's own: the checkpoint, tiles and leaves of a verifiable topic's partition.

INVALID_CONFIG when the topic is not verifiable, or the node has no signing keys. RESOURCE_NOT_FOUND for a tile that the
tree does not have. CORRUPT_MESSAGE when the stored batches are not those that the leaves name, and KAFKA_STORAGE_ERROR
when the tree's own files are damaged: both say where.
"""

from __future__ import annotations

from mainstem.broker.access.acls import Operation, ResourceType
from mainstem.broker.access.guards import on_named
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import refusal, reported_in
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.read_tree import ReadTreeRequest, ReadTreeResponse
from mainstem.tlog.tiles import CHECKPOINT, parse_tile


async def handle(node: Node, call: Call) -> ReadTreeResponse:
    body: ReadTreeRequest = call.body
    answer = ReadTreeResponse()
    with reported_in(answer):
        await _read(node, body, answer)
    return answer


async def _read(node: Node, body: ReadTreeRequest, answer: ReadTreeResponse) -> None:
    log = node.topics.partition(body.topic, body.partition)
    if not body.path:
        found = await node.trees.find(log, body.offset)
        if found is not None:
            answer.leaf_index, answer.data = found
    elif body.path == CHECKPOINT:
        answer.data = await node.trees.checkpoint(log)
    else:
        data = await node.trees.tile(log, parse_tile(body.path))
        if data is None:
            raise refusal(ErrorCode.RESOURCE_NOT_FOUND, f"{body.path} is not in the tree of {log.topic_partition}")
        answer.data = data


API = Api(ReadTreeRequest, handle, on_named(ResourceType.TOPIC, Operation.READ, "topic"), has_long_answer=True)
