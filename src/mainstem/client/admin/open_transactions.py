"""The open transactions of topics: whose they are, and where they began. It sends Kafka's requests (KIP-664).

Functions over a ``WireClient``, whose contract they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import MainstemError
from mainstem.model import TopicPartition
from mainstem.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from mainstem.protocol.messages.describe_transactions import DescribeTransactionsRequest
from mainstem.protocol.messages.list_transactions import ListTransactionsRequest


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a partition, from ``first_offset`` on.

    Without ``transactional_id`` no coordinator knows the producer. ``since_ms``: when it began, if that is known.
    """

    topic_partition: TopicPartition
    first_offset: int
    producer_id: int
    transactional_id: str | None = None
    since_ms: int | None = None

    @property
    def owner(self) -> str:
        """The transactional id, or else the producer."""
        return self.transactional_id or f"of producer {self.producer_id}"


def open_transactions(
    client: WireClient, topics: Iterable[str], *, with_times: bool = False
) -> tuple[OpenTransaction, ...]:
    """The open transactions in all partitions of the topics, by partition and offset. ``with_times``: also since when.

    Raises LogUnavailableError, AuthorizationError, RemoteError.
    """
    by_leader: dict[int, dict[str, list[int]]] = {}
    for name, topic in client.metadata(set(topics)).items():
        for number, partition in topic.partitions.items():
            by_leader.setdefault(partition.leader_id, {}).setdefault(name, []).append(number)
    found = [each for leader, asked in by_leader.items() if leader >= 0 for each in _open(client, asked, leader)]
    if not found:
        return ()
    owners = _owners(client, {each.producer_id for each in found})
    times = _times(client, owners) if with_times else {}
    named = [
        replace(each, transactional_id=owners.get(each.producer_id), since_ms=times.get(each.producer_id))
        for each in found
    ]
    return tuple(sorted(named, key=lambda each: (each.topic_partition, each.first_offset)))


def _open(client: WireClient, asked: Mapping[str, list[int]], leader: int) -> list[OpenTransaction]:
    """Those in partitions, by topic, that one broker leads."""
    topics = [TopicRequest(name=name, partition_indexes=sorted(numbers)) for name, numbers in asked.items()]
    return [
        OpenTransaction(
            TopicPartition(topic.name, partition.partition_index),
            producer.current_txn_start_offset,
            producer.producer_id,
        )
        for topic in client.request(DescribeProducersRequest(topics=topics), leader).topics
        for partition in topic.partitions
        for producer in partition.active_producers
        if producer.current_txn_start_offset >= 0
    ]


def _owners(client: WireClient, producers: Iterable[int]) -> Mapping[int, str]:
    """The transactional ids of producers: each coordinator knows its own."""
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producers))
    return {
        state.producer_id: state.transactional_id
        for node in client.brokers
        for state in client.request(request, node).transaction_states
    }


def _times(client: WireClient, owners: Mapping[int, str]) -> Mapping[int, int]:
    """When the transactions began. A broker that does not coordinate an id answers with an error for it."""
    request = DescribeTransactionsRequest(transactional_ids=sorted(owners.values()))
    times: dict[int, int] = {}
    for node in client.brokers:
        try:
            states = client.request(request, node).transaction_states
        except MainstemError:  # the time is an extra: without it the owner is still named
            continue
        times |= {
            state.producer_id: state.transaction_start_time_ms
            for state in states
            if state.error_code == 0 and state.transaction_start_time_ms > 0
        }
    return times
