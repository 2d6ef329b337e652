"""Whether a topic is still the one that a view's position belongs to.

A position is invalid in two cases. The topic was deleted, and perhaps recreated with another topic id. Or the log lost
its tail: then the leader epoch in which the view read its last record ends before the view's position, and other
records are at that offset now. In both cases the view has to be rebuilt.
"""

from __future__ import annotations

from collections.abc import Mapping

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.metadata import TopicMetadata
from mainstem.errors import RemoteError, ViewStoppedError
from mainstem.model import TopicPartition, topic_was_recreated
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from mainstem.views.stores.store import Bookmark


def check_topic_id(topic: TopicMetadata, bookmark: Bookmark) -> None:
    """Raises ViewStoppedError when the topic was recreated since the bookmark."""
    if topic_was_recreated(bookmark.topic_ids.get(topic.name), topic.topic_id):
        raise ViewStoppedError(f"topic {topic.name} was deleted and recreated since the view read it: rebuild the view")


def check_epochs(client: WireClient, topic: TopicMetadata, bookmark: Bookmark) -> None:
    """Raises ViewStoppedError when the log lost records that the view has applied.

    A log that does not serve OffsetForLeaderEpoch is trusted.
    """
    for tp, offset in bookmark.position.items():
        epoch = bookmark.leader_epochs.get(tp)
        if tp.topic != topic.name or tp.partition not in topic.partitions or epoch is None:
            continue
        end = _end_of_epoch(client, topic, tp, epoch)
        if end is not None and end < offset:
            raise ViewStoppedError(
                f"the log lost the end of {tp}: it goes to {end} where the view had read up to {offset}: "
                "rebuild the view"
            )


def advanced(known: Mapping[TopicPartition, int], seen: Mapping[TopicPartition, int]) -> bool:
    """Whether a leader changed between two readings: then the log may have lost its tail meanwhile."""
    return any(tp in known and known[tp] != epoch for tp, epoch in seen.items())


def _end_of_epoch(client: WireClient, topic: TopicMetadata, tp: TopicPartition, epoch: int) -> int | None:
    asked = OffsetForLeaderPartition(partition=tp.partition, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=tp.topic, partitions=[asked])])
    try:
        answer = client.request(request, topic.partitions[tp.partition].leader_id)
    except RemoteError:
        return None
    result = answer.topics[0].partitions[0]
    return int(result.end_offset) if result.error_code == ErrorCode.NONE and result.end_offset >= 0 else None
