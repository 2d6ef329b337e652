"""Metadata (3), versions 0–13: the node, its topics and their partitions; creates topics that clients ask for.

A topic that is created on demand (``auto.create.topics.enable``) is in the same answer, complete.
Deliberate: one node leads everything; no rack.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final

from mainstem.broker.access import record_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code
from mainstem.broker.node import Node
from mainstem.broker.slices import AT_ONCE_ITEMS, Slices, in_turns
from mainstem.broker.storage.topics import Topic
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import metadata as messages
from mainstem.protocol.schema import ZERO_UUID

_NO_NAME_FROM: Final = 12


def handle(node: Node, call: Call) -> messages.MetadataResponse | Awaitable[messages.MetadataResponse]:
    body: messages.MetadataRequest = call.body
    # Version 0 has no null: an empty list means all topics.
    if body.topics is None or (call.api_version == 0 and not body.topics):
        known = list(node.topics.all())
        if len(known) > AT_ONCE_ITEMS:
            return _in_turns(node, call, known)
        return _answer(node, call, [_described(node, topic) for topic in known])
    return _answer(
        node, call, [_find(node, call.api_version, asked, body.allow_auto_topic_creation) for asked in body.topics]
    )


async def _in_turns(node: Node, call: Call, topics: Sequence[Topic]) -> messages.MetadataResponse:
    async with node.overviews:
        return _answer(node, call, [_described(node, topic) async for topic in in_turns(topics)])


def _answer(node: Node, call: Call, topics: list[messages.MetadataResponseTopic]) -> messages.MetadataResponse:
    host, port = call.advertised
    return messages.MetadataResponse(
        brokers=[messages.MetadataResponseBroker(node_id=node.node_id, host=host, port=port)],
        cluster_id=node.cluster_id,
        controller_id=node.node_id,
        topics=topics,
    )


def _find(
    node: Node, version: int, asked: messages.MetadataRequestTopic, may_create: bool
) -> messages.MetadataResponseTopic:
    if asked.name is None:
        topic = node.topics.by_id(asked.topic_id)
        if topic is None:
            name = None if version >= _NO_NAME_FROM else ""
            return messages.MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=name, topic_id=asked.topic_id, partitions=[]
            )
        return _described(node, topic)
    try:
        topic = node.topics.find_or_create(asked.name) if may_create else node.topics.find(asked.name)
    except MainstemError as error:
        return messages.MetadataResponseTopic(
            error_code=error_code(error), name=asked.name, topic_id=ZERO_UUID, partitions=[]
        )
    return _described(node, topic)


def _described(node: Node, topic: Topic) -> messages.MetadataResponseTopic:
    return messages.MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(node, number, topic.partitions.leader_epoch(number)) for number in range(len(topic.partitions))
        ],
    )


def _partition(node: Node, number: int, leader_epoch: int | None) -> messages.MetadataResponsePartition:
    """Describe one partition. An offline partition has no leader, so clients ask again later."""
    nodes, is_online = (node.node_id,), leader_epoch is not None
    return messages.MetadataResponsePartition(
        error_code=ErrorCode.NONE if is_online else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=node.node_id if is_online else -1,
        leader_epoch=-1 if leader_epoch is None else leader_epoch,
        replica_nodes=nodes,
        isr_nodes=nodes if is_online else (),
        offline_replicas=() if is_online else nodes,
    )


API = Api(
    messages.MetadataRequest,
    handle,
    record_guards.metadata,
    describes_permissions=True,
    slices=Slices("topics", "topics", once=True),
)
