"""Produce requests of raw record batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mainstem.client.wire.cluster.metadata import TopicMetadata
from mainstem.model import TopicPartition
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.protocol.schema import ZERO_UUID, Buffer

_VERSION_MAX_BY_NAME: Final = 12


def produce_request(
    batches: Mapping[TopicPartition, Buffer],
    topics: Mapping[str, TopicMetadata],
    *,
    acks: int,
    transactional_id: str | None,
    timeout_s: float,
) -> tuple[ProduceRequest, int | None]:
    """The request, and the highest version that it may be sent in: later ones name topics by their ids alone."""
    by_topic: dict[str, list[PartitionProduceData]] = {}
    for tp, batch in batches.items():
        by_topic.setdefault(tp.topic, []).append(PartitionProduceData(index=tp.partition, records=batch))
    data = [
        TopicProduceData(name=name, topic_id=topics[name].topic_id, partition_data=partitions)
        for name, partitions in by_topic.items()
    ]
    has_ids = all(topic.topic_id != ZERO_UUID for topic in data)
    request = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=int(timeout_s * 1000), topic_data=data
    )
    return request, None if has_ids else _VERSION_MAX_BY_NAME
