"""The open transactions that hold back a position: for the text of a time-out, and only requested then.

A view applies committed records up to the last stable offset, which the first record of the oldest open transaction
bounds. A reader that waits for a later position should learn which transaction to look for. Safe from any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import MainstemError
from mainstem.model import Position, TopicPartition
from mainstem.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from mainstem.protocol.messages.list_transactions import ListTransactionsRequest

_LOG = logging.getLogger("mainstem.views")


def holding_back(client: WireClient, wanted: Position, topic: str) -> tuple[str, ...]:
    """The transactions open before ``wanted``, or anywhere in the view's ``topic``: their ids, with their partition.

    Empty when there are none, and when the log does not tell (it is away, or does not allow it).
    """
    try:
        return _holding_back(client, wanted, topic)
    except MainstemError as error:
        _LOG.debug("the open transactions of %s cannot be listed: %s", topic, error)
        return ()


def _holding_back(client: WireClient, wanted: Position, topic: str) -> tuple[str, ...]:
    metadata = client.metadata({topic, *wanted.topics})
    places = [
        (TopicPartition(name, number), partition.leader_id)
        for name, found in metadata.items()
        for number, partition in found.partitions.items()
    ]
    open_since = {
        tp: {producer: start for producer, start in _open(client, tp, leader) if start < wanted.get(tp, start + 1)}
        for tp, leader in places
    }
    producers = {producer for found in open_since.values() for producer in found}
    if not producers:
        return ()
    ids = _transactional_ids(client, producers)
    return tuple(
        f"{ids.get(producer, f'of producer {producer}')} (since {tp}:{start})"
        for tp, found in sorted(open_since.items())
        for producer, start in found.items()
    )


def _open(client: WireClient, tp: TopicPartition, leader: int) -> list[tuple[int, int]]:
    """The producers that have a transaction open in a partition, and where it began."""
    asked = TopicRequest(name=tp.topic, partition_indexes=[tp.partition])
    [topic] = client.request(DescribeProducersRequest(topics=[asked]), leader).topics
    return [
        (producer.producer_id, producer.current_txn_start_offset)
        for partition in topic.partitions
        for producer in partition.active_producers
        if producer.current_txn_start_offset >= 0
    ]


def _transactional_ids(client: WireClient, producers: Iterable[int]) -> Mapping[int, str]:
    """The transactional ids of producers: each coordinator knows its own."""
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=sorted(producers))
    return {
        state.producer_id: state.transactional_id
        for node in client.brokers
        for state in client.request(request, node).transaction_states
    }
