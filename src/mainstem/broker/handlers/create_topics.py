"""CreateTopics (19), versions 2–7: creates topics; each is durable when answered, each fails alone.

``validate_only`` changes nothing. An assignment by hand may name this node only, and no replication factor but 1 (or
-1) is possible on one node: INVALID_REPLICATION_FACTOR says so. When the answer, which holds the configs of each topic,
would exceed ``mainstem.response.max.bytes``, the connection is closed; the topics so far exist.
"""

from __future__ import annotations

from collections import Counter

from mainstem.broker.access import admin_guards
from mainstem.broker.api import Api, Mutations
from mainstem.broker.call import Call
from mainstem.broker.configs.config_entries import topic_entries
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.broker.slices import in_turns
from mainstem.broker.storage.topics import Topics
from mainstem.errors import FrameError, MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import create_topics as messages
from mainstem.protocol.schema import ZERO_UUID


async def handle(node: Node, call: Call) -> messages.CreateTopicsResponse:
    body: messages.CreateTopicsRequest = call.body
    counts = Counter(topic.name for topic in body.topics)
    results = []
    size_bytes = 0
    async for topic in in_turns({topic.name: topic for topic in body.topics}.values()):
        try:
            if counts[topic.name] > 1:
                raise refusal(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is named twice in the request")
            results.append(_create(node, topic, validate_only=body.validate_only))
            size_bytes += sum(len(each.name) + len(each.value or "") for each in results[-1].configs or ())
        except MainstemError as error:
            results.append(
                messages.CreatableTopicResult(
                    name=topic.name, error_code=error_code(error), error_message=str(error), configs=()
                )
            )
        if size_bytes > node.settings.response_bytes_max:
            raise FrameError(
                f"the answer to {len(counts)} new topics would be longer than mainstem.response.max.bytes="
                f"{node.settings.response_bytes_max}; create fewer at once"
            )
    return messages.CreateTopicsResponse(topics=results)


def _create(node: Node, asked: messages.CreatableTopic, *, validate_only: bool) -> messages.CreatableTopicResult:
    configs = {}
    for config in asked.configs:
        if config.value is None:
            raise refusal(ErrorCode.INVALID_CONFIG, f"config {config.name} has no value")
        configs[config.name] = config.value
    node.topics.check_new_configs(asked.name, configs)
    count = _partition_count(node, asked)
    topic = None
    if validate_only:
        node.topics.check_new(asked.name, count, configs)
    else:
        topic = node.topics.create(asked.name, count, configs)
    return messages.CreatableTopicResult(
        name=asked.name,
        topic_id=ZERO_UUID if topic is None else topic.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=count,
        replication_factor=1,
        configs=[
            messages.CreatableTopicConfigs(
                name=entry.name,
                value=configs.get(entry.name, entry.value),  # as Kafka: here as given, later as parsed
                read_only=False,
                config_source=entry.source,
                is_sensitive=False,
            )
            for entry in topic_entries(node.configs, configs)
        ],
    )


def _partition_count(node: Node, asked: messages.CreatableTopic) -> int:
    if asked.assignments:
        if asked.num_partitions != -1 or asked.replication_factor != -1:
            raise refusal(
                ErrorCode.INVALID_REQUEST, "give assignments, or partitions and a replication factor, not both"
            )
        numbers = sorted(item.partition_index for item in asked.assignments)
        if numbers != list(range(len(numbers))) or any(
            list(item.broker_ids) != [node.node_id] for item in asked.assignments
        ):
            raise refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partitions must be numbered from 0, each on node {node.node_id} alone",
            )
        return len(numbers)
    if asked.replication_factor not in (-1, 1):
        raise refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {asked.replication_factor}: there is one node, so only 1 is possible",
        )
    return node.topics.default_partitions if asked.num_partitions == -1 else asked.num_partitions


def _mutates(topics: Topics, asked: messages.CreatableTopic) -> int:
    """The number of partitions that the topic gets."""
    wanted = len(asked.assignments) or asked.num_partitions
    return wanted if wanted > 0 else topics.default_partitions


API = Api(
    messages.CreateTopicsRequest,
    handle,
    admin_guards.create_topics,
    changes_state=True,
    mutations=Mutations(("topics",), "topics", 6, _mutates),
)
