"""Whether a partition of the target holds what the source holds: by its last batch, by leader epochs, by its end.

A copy has the bytes of its source, so its last batch is found there, with the same offsets and checksum. Compaction may
have rewritten either; then the leader epochs decide: an epoch ends at the same offset in both. Where they differ, the
offsets from the first difference on are in one of the logs only, and are named. Functions over two ``WireClient``.
"""

from __future__ import annotations

from typing import NamedTuple

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import EARLIEST, WireClient
from mainstem.client.wire.cluster.stored_records import fetch_loaded
from mainstem.errors import MirrorRefusedError
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from mainstem.record.header import BatchHeader, iter_headers

_ANY_BYTES = 1
"""A fetch brings one whole batch at least."""


class Divergence(NamedTuple):
    """From ``offset`` on, up to ``end``, the target holds what the source does not."""

    topic_partition: TopicPartition
    offset: int
    end: int

    @property
    def text(self) -> str:
        """The offsets, as ``topic/partition:first-last``."""
        return f"{self.topic_partition}:{self.offset}-{self.end - 1}"


def divergence(
    source: WireClient, target: WireClient, tp: TopicPartition, source_end: int, target_end: int
) -> Divergence | None:
    """Where the target left the source; None where all that it holds is the source's."""
    start = target.list_offsets([tp], EARLIEST)[tp]
    if target_end <= start:
        return Divergence(tp, source_end, target_end) if target_end > source_end else None
    last = batch_at(target, tp, target_end - 1)
    if last is None:
        return None
    first = target_end
    if last.leader_epoch >= 0:
        epoch_end = epoch_end_offset(source, tp, last.leader_epoch)
        if 0 <= epoch_end < target_end:
            first = epoch_end
    first = min(first, source_end)
    lowest = max(start, source.list_offsets([tp], EARLIEST)[tp])
    if first == target_end and (first <= lowest or _same_at(source, target, tp, target_end - 1)):
        return None
    return Divergence(tp, _first_difference(source, target, tp, lowest, first), target_end)


def _first_difference(source: WireClient, target: WireClient, tp: TopicPartition, lowest: int, known: int) -> int:
    """The first offset whose batches differ, between ``lowest`` and one from which on they are known to."""
    low, high = lowest, known
    while low < high:
        middle = (low + high) // 2
        if _same_at(source, target, tp, middle):
            low = middle + 1
        else:
            high = middle
    return low


def _same_at(source: WireClient, target: WireClient, tp: TopicPartition, offset: int) -> bool:
    """Whether both hold the same batch at ``offset``; where compaction took something away, they may."""
    there, here = batch_at(source, tp, offset), batch_at(target, tp, offset)
    if there is None or here is None or max(there.base_offset, here.base_offset) > offset:
        return True
    if any(not each.is_dense or each.has_delete_horizon for each in (there, here)):
        return True
    return (there.base_offset, there.crc) == (here.base_offset, here.crc)


def batch_at(client: WireClient, tp: TopicPartition, offset: int) -> BatchHeader | None:
    """The header of the first batch that ends at or after ``offset``; None where there is none.

    Raises the log's error for the partition, LogUnavailableError.
    """
    fetched = fetch_loaded(client, tp, offset, _ANY_BYTES, read_committed=False)
    if fetched.error is not None:
        raise fetched.error
    headers = (header for _, header in iter_headers(fetched.records))
    return next((header for header in headers if header.last_offset >= offset), None)


def epoch_end_offset(client: WireClient, tp: TopicPartition, epoch: int) -> int:
    """Where a leader epoch ends; -1 where the log does not know it."""
    partition = OffsetForLeaderPartition(partition=tp.partition, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=tp.topic, partitions=[partition])])
    leader = client.metadata([tp.topic])[tp.topic].partitions[tp.partition].leader_id
    answer = client.request(request, leader, resends=True)
    [result] = answer.topics[0].partitions
    if result.error_code != ErrorCode.NONE:
        raise error_of(result.error_code, f"{tp}: its leader epochs cannot be read")
    return int(result.end_offset)


def refused(divergences: list[Divergence], source: WireClient, target: WireClient) -> MirrorRefusedError:
    """The error that names all offsets that only the target holds."""
    named = ", ".join(each.text for each in divergences[:10])
    more = f" and {len(divergences) - 10} more" if len(divergences) > 10 else ""
    topic = divergences[0].topic_partition.topic
    return MirrorRefusedError(
        f"{target.bootstrap} holds offsets that {source.bootstrap} does not: {named}{more}; read them there "
        f"(mainstem read {topic} --from {divergences[0].offset}), then delete the topic there, and it is copied again"
    )
