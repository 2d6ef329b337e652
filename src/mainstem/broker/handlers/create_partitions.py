"""CreatePartitions (37), versions 0–3: adds partitions; each topic has its own answer and fails alone.

``validate_only`` changes nothing. As in Kafka, keys map to other partitions then, and existing records stay.
"""

from __future__ import annotations

from collections import Counter

from mainstem.broker.access.acls import Operation
from mainstem.broker.access.guards import on_topics
from mainstem.broker.api import Api, Mutations
from mainstem.broker.call import Call
from mainstem.broker.error_codes import refusal, reported_in
from mainstem.broker.node import Node
from mainstem.broker.slices import in_turns
from mainstem.broker.storage.topics import Topics
from mainstem.errors import UnknownTopicError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import create_partitions as messages


async def handle(node: Node, call: Call) -> messages.CreatePartitionsResponse:
    body: messages.CreatePartitionsRequest = call.body
    counts = Counter(topic.name for topic in body.topics)
    results = []
    async for topic in in_turns({topic.name: topic for topic in body.topics}.values()):
        result = messages.CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.NONE)
        with reported_in(result):
            if counts[topic.name] > 1:
                raise refusal(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice in the request")
            _create(node, topic, validate_only=body.validate_only)
        results.append(result)
    return messages.CreatePartitionsResponse(results=results)


def _create(node: Node, asked: messages.CreatePartitionsTopic, *, validate_only: bool) -> None:
    topic = node.topics.get(asked.name)
    if topic is None:  # also for an invalid name, as in Kafka
        raise UnknownTopicError(f"there is no topic {asked.name[:300]!r}")
    has = len(topic.partitions)
    if asked.count <= has:
        raise refusal(ErrorCode.INVALID_PARTITIONS, f"topic {asked.name} has {has} partitions: use a count over {has}")
    if asked.assignments is not None:
        assigned = [list(item.broker_ids) for item in asked.assignments]
        if assigned != [[node.node_id]] * (asked.count - has):
            raise refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"each new partition can only be on node {node.node_id}"
            )
    if not validate_only:
        node.topics.add_partitions(topic, asked.count)


def _mutates(topics: Topics, asked: messages.CreatePartitionsTopic) -> int:
    """The number of partitions that the topic gets in addition."""
    topic = topics.get(asked.name)
    return max(0, asked.count - (0 if topic is None else len(topic.partitions)))


API = Api(
    messages.CreatePartitionsRequest,
    handle,
    on_topics(Operation.ALTER, "results"),
    changes_state=True,
    mutations=Mutations(("topics",), "results", 3, _mutates),
)
