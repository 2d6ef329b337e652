"""DeleteTopics (20), versions 1–6: removes topics by name, from version 6 by id; durable when answered.

The offsets that groups committed in a topic are deleted with it. Deliberate: internal topics are not deleted
(INVALID_TOPIC_EXCEPTION).
"""

from __future__ import annotations

from collections import Counter
from typing import Final
from uuid import UUID

from mainstem.broker.access import admin_guards
from mainstem.broker.api import Api, Mutations
from mainstem.broker.call import Call
from mainstem.broker.error_codes import refusal, reported_in
from mainstem.broker.node import Node
from mainstem.broker.slices import in_turns
from mainstem.broker.storage.topics import Topic, Topics
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from mainstem.protocol.schema import ZERO_UUID

_BY_ID_FROM: Final = 6


async def handle(node: Node, call: Call) -> DeleteTopicsResponse:
    body: DeleteTopicsRequest = call.body
    if call.api_version >= _BY_ID_FROM:
        wanted = [(state.name, state.topic_id) for state in body.topics]
    else:
        wanted = [(name, ZERO_UUID) for name in body.topic_names]
    counts = Counter(wanted)
    # By name or by id: a request may name the same topic in both ways.
    named = Counter(topic.topic_id for topic in (_known(node.topics, *each) for each in counts) if topic is not None)
    results = []
    async for name, topic_id in in_turns(counts):
        result = DeletableTopicResult(name=name, topic_id=topic_id, error_code=ErrorCode.NONE)
        with reported_in(result):
            known = _known(node.topics, name, topic_id)
            if counts[name, topic_id] > 1 or (known is not None and named[known.topic_id] > 1):
                raise refusal(ErrorCode.INVALID_REQUEST, "a topic is named twice in the request")
            topic = _find(node, name, topic_id)
            result.name, result.topic_id = topic.name, topic.topic_id
            await node.delete_topic(topic)
        results.append(result)
    return DeleteTopicsResponse(responses=results)


def _known(topics: Topics, name: str | None, topic_id: UUID) -> Topic | None:
    return topics.get(name) if name is not None else topics.by_id(topic_id)


def _find(node: Node, name: str | None, topic_id: UUID) -> Topic:
    if not node.settings.deletes_topics:
        raise refusal(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
    if (name is None) == (topic_id == ZERO_UUID):
        raise refusal(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id, and not by both")
    if name is not None:
        topic = node.topics.existing(name)
    else:
        by_id = node.topics.by_id(topic_id)
        if by_id is None:
            raise refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {topic_id}")
        topic = by_id
    if topic.is_internal:
        raise refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is internal and is not deleted")
    return topic


def _mutates(topics: Topics, asked: DeleteTopicState | str) -> int:
    """The number of partitions that are deleted with the topic."""
    topic = _known(topics, asked, ZERO_UUID) if isinstance(asked, str) else _known(topics, asked.name, asked.topic_id)
    return 0 if topic is None else len(topic.partitions)


API = Api(
    DeleteTopicsRequest,
    handle,
    admin_guards.delete_topics,
    changes_state=True,
    mutations=Mutations(("topics", "topic_names"), "responses", 5, _mutates),
)
