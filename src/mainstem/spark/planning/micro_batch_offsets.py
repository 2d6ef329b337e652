"""The offset range of each partition of a stream: where it continues, and where it ends now.

It handles every change of a log. New partitions begin at their log start. Topics may be deleted, or created again with
a new id. If offsets were removed before they were read, the partition continues at its log start offset.
``MicroBatchOffsets.losses`` lists the lost offsets; the caller decides whether they are an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mainstem.client.wire.cluster.cluster import EARLIEST, WireClient
from mainstem.errors import LogUnavailableError
from mainstem.model import Position, TopicPartition, topic_was_recreated
from mainstem.pipelines.losses import Loss
from mainstem.spark.checkpoints.offsets import StreamOffsets
from mainstem.spark.options.read_options import ReadOptions
from mainstem.spark.planning.latest_offsets import look
from mainstem.spark.planning.subscription import Subscribed, Subscription
from mainstem.spark.tasks.losses import recreation_losses, resume

# How often a look may find that a topic has just become another one.
_LOOKS_MAX = 5


@dataclass(frozen=True, slots=True)
class MicroBatchOffsets:
    """For each partition that is read: where it begins, and where it ends now."""

    begins: Position
    ends: Position
    topic_ids: Mapping[str, str]
    losses: tuple[Loss, ...]


class OffsetRangePlanner:
    """Finds the offset ranges for each micro-batch. Owned by the stream's one thread."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._subscription = Subscription(options)
        # For partitions that no micro-batch has read yet: the topic's id, and the offset where they begin.
        self._new: dict[TopicPartition, tuple[str, int]] = {}

    def find(self, client: WireClient, since: StreamOffsets, reader: str, wait_ms: int) -> MicroBatchOffsets:
        """The offset ranges. Waits up to ``wait_ms`` for new records if there are none.

        Raises UnknownTopicError for a topic that is subscribed by its name and gone, LogUnavailableError.
        """
        for _ in range(_LOOKS_MAX):
            found = self._subscription.now(client, since.topic_ids)
            losses = recreation_losses(reader, since.position, since.topic_ids, found.topic_ids)
            begins = self._begins(client, since, found, {loss.topic_partition for loss in losses})
            seen = look(client, begins, self._options.isolation, 0 if losses else wait_ms)
            if seen.is_former or not _is_as_known(client, found):
                self._subscription.expire()
                continue
            ends = {tp: seen.ends.get(tp, begin) for tp, begin in begins.items()}
            gone = {tp: begins[tp] for tp in seen.out_of_range}
            if any(tp in self._new for tp in gone):  # never planned, so nothing is lost: look again
                self._new = {tp: new for tp, new in self._new.items() if tp not in gone}
                continue
            for moved in resume(client, reader, found.topic_ids, gone, self._options.isolation) if gone else ():
                tp = moved.loss.topic_partition
                begins[tp], ends[tp] = moved.start, moved.end
                losses.append(moved.loss)
            return MicroBatchOffsets(Position(begins), Position(ends), found.topic_ids, tuple(losses))
        raise LogUnavailableError("topics are deleted and recreated faster than they can be looked at")

    def _begins(
        self, client: WireClient, since: StreamOffsets, found: Subscribed, lost: set[TopicPartition]
    ) -> dict[TopicPartition, int]:
        known = {tp: offset for tp, offset in since.position.items() if tp not in lost}
        self._new = {
            tp: (topic_id, offset)
            for tp, (topic_id, offset) in self._new.items()
            if tp not in known and found.topic_ids.get(tp.topic) == topic_id
        }
        unseen = [tp for tp in found.partitions if tp not in known and tp not in self._new]
        if unseen:
            starts = client.list_offsets(unseen, EARLIEST)
            self._new.update({tp: (found.topic_ids[tp.topic], starts[tp]) for tp in unseen})
        return {tp: known[tp] if tp in known else self._new[tp][1] for tp in found.partitions}


def _is_as_known(client: WireClient, found: Subscribed) -> bool:
    """Whether the client, which may have refreshed its metadata, fetched from the same topics.

    A client drops a topic when some of its partitions have no leader. Its id may be the same, so the client asks again.
    """
    names = found.topic_ids
    topics = client.topics if names.keys() <= client.topics.keys() else client.metadata(names)
    return all(
        name in topics and not topic_was_recreated(known, topics[name].topic_id) for name, known in names.items()
    )
