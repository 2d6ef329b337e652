"""A client's metadata of the cluster: brokers, topics, and the leader of each partition. Immutable values."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mainstem.addresses import Address
from mainstem.client.failures import error_of, heals
from mainstem.errors import UnknownTopicError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

NO_LEADER = -1


class PartitionMetadata(NamedTuple):
    """The leader of a partition (a broker's id, -1 while there is none), and its leader epoch."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic as the cluster describes it. A recreated topic has another ``topic_id``; all zeros on an old broker."""

    name: str
    topic_id: uuid.UUID
    partitions: Mapping[int, PartitionMetadata]
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """All that has been learnt so far; ``learn`` gives the next."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Address] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)

    def learn(self, answer: MetadataResponse, asked: frozenset[str] | None) -> ClusterMetadata:
        """This, with what ``answer`` says; topics that were asked for and are not there any more are dropped.

        Raises the error of a topic that may not be described; one that does not exist is simply absent.
        """
        found = {topic.name: topic for topic in map(_topic, answer.topics) if topic is not None}
        kept = {} if asked is None else {name: topic for name, topic in self.topics.items() if name not in asked}
        brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        return ClusterMetadata(answer.cluster_id, answer.controller_id, brokers, {**kept, **found})

    def without(self, topic: str) -> ClusterMetadata:
        """This, without what is known of ``topic``: the next use asks again."""
        topics = {name: known for name, known in self.topics.items() if name != topic}
        return ClusterMetadata(self.cluster_id, self.controller_id, self.brokers, topics)

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), None)


def recreated_topic(name: str) -> UnknownTopicError:
    """The error for a topic that has another id than before."""
    return UnknownTopicError(
        f"topic {name!r} was deleted, and perhaps recreated: offsets from before mean nothing any more"
    )


def _topic(answer: MetadataResponseTopic) -> TopicMetadata | None:
    if answer.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
        return None
    if answer.error_code != ErrorCode.NONE and not heals(answer.error_code):
        raise error_of(answer.error_code, f"topic {answer.name!r}")
    partitions = {
        partition.partition_index: PartitionMetadata(partition.leader_id, partition.leader_epoch)
        for partition in sorted(answer.partitions, key=lambda partition: partition.partition_index)
    }
    return TopicMetadata(answer.name or "", answer.topic_id, partitions, answer.is_internal)
