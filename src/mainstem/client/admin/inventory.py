"""An overview of all topics in five requests, however many topics there are: ends, bytes, cleanup policy.

Functions over a ``WireClient``, whose contract they have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mainstem.client.wire.admin.partitions import partition_sizes
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.metadata import TopicMetadata
from mainstem.errors import UnknownTopicError
from mainstem.model import Position, TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

_TOPIC_RESOURCE: Final = 2
_CLEANUP: Final = "cleanup.policy"
_TRIES_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic at a glance. ``size_bytes`` and ``cleanup`` are None where the brokers do not tell them.

    ``offsets`` is the number of offsets between the ends: of records, transaction markers, and removed records.
    """

    topic: TopicMetadata
    beginning: Position
    end: Position
    offsets: int
    size_bytes: int | None
    cleanup: str | None


def inventory(client: WireClient) -> list[TopicSummary]:
    """Every topic, by name. Raises LogUnavailableError."""
    for tries_left in reversed(range(_TRIES_MAX)):
        topics = client.metadata()
        partitions = [tp for topic in topics.values() for tp in _partitions(topic)]
        try:
            beginnings, ends = client.list_ends(partitions)
        except UnknownTopicError:  # deleted since it was listed
            if not tries_left:
                raise
            continue
        break
    sizes, policies = _sizes(client), _cleanup(client, sorted(topics))
    summaries = []
    for name, topic in sorted(topics.items()):
        tps = _partitions(topic)
        start, end = ({tp: found[tp] for tp in tps if tp in found} for found in (beginnings, ends))
        offsets = sum(end.values()) - sum(start.values())
        summaries.append(
            TopicSummary(topic, Position(start), Position(end), offsets, sizes.get(name), policies.get(name))
        )
    return summaries


def _partitions(topic: TopicMetadata) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for number in topic.partitions]


def _sizes(client: WireClient) -> dict[str, int]:
    """Bytes on disk of each topic whose brokers tell them."""
    sizes: dict[str, int] = {}
    for tp, size_bytes in partition_sizes(client).items():
        sizes[tp.topic] = sizes.get(tp.topic, 0) + size_bytes
    return sizes


def _cleanup(client: WireClient, names: list[str]) -> dict[str, str]:
    resources = [
        DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=[_CLEANUP])
        for name in names
    ]
    if not resources:
        return {}
    results = client.request(DescribeConfigsRequest(resources=resources), resends=True).results
    return {
        result.resource_name: entry.value
        for result in results
        if result.error_code == ErrorCode.NONE
        for entry in result.configs
        if entry.name == _CLEANUP and entry.value is not None
    }
