"""The deletion of the oldest records of a topic, planned and executed: Kafka's DeleteRecords.

Functions over a ``WireClient``, whose contract they have. Offsets are never used again, so positions stay right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mainstem.client.read.start import Moment, end_offsets, partitions_of, start_offsets
from mainstem.client.wire.admin.partitions import delete_records
from mainstem.client.wire.cluster.cluster import EARLIEST, WireClient
from mainstem.errors import PositionError, UnknownTopicError
from mainstem.model import Position, TopicPartition


@dataclass(frozen=True, slots=True)
class RecordDeletion:
    """The deletion in one partition: it began at ``before``, and begins at ``after``."""

    topic_partition: TopicPartition
    before: int
    after: int

    @property
    def offsets(self) -> int:
        """How many offsets go: those of records, transaction markers, and of what compaction removed."""
        return self.after - self.before


def plan_deletion(client: WireClient, topic: str, to: Moment) -> list[RecordDeletion]:
    """The deletions before ``to``; a position's in the partitions that it names alone. A partition never grows back.

    Raises UnknownTopicError, OffsetOutOfRangeError, PositionError.
    """
    existing = partitions_of(client, [topic])
    if isinstance(to, str) and to not in ("earliest", "latest"):
        to = Position.parse(to)
    asked = existing
    if isinstance(to, Position):
        if others := to.topics - {topic}:
            raise PositionError(f"the position names {', '.join(sorted(others))[:300]}; give one of {topic}")
        if absent := sorted({*to} - {*existing}):
            raise UnknownTopicError(f"partition {absent[0]} does not exist")
        asked = [tp for tp in existing if tp in to]
    ends = end_offsets(client, existing, read_committed=False)
    begin = client.list_offsets(existing, EARLIEST)
    target = start_offsets(client, {tp: ends[tp] for tp in asked}, to)
    return [RecordDeletion(tp, begin[tp], max(begin[tp], target[tp])) for tp in asked]


def delete_planned(client: WireClient, topic: str, planned: Sequence[RecordDeletion]) -> list[RecordDeletion]:
    """Execute a plan; return it with the offsets at which the partitions begin now."""
    offsets = {each.topic_partition.partition: each.after for each in planned if each.offsets}
    begin = delete_records(client, topic, offsets) if offsets else {}
    return [
        RecordDeletion(
            each.topic_partition, each.before, max(each.after, begin.get(each.topic_partition.partition, each.after))
        )
        for each in planned
    ]
