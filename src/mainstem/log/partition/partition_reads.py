"""Reads of one partition: its records up to the high watermark, or up to the last stable offset.

Every transaction below the last stable offset has ended, and its marker is below the high watermark: neither a power
cut nor a producer can change which records are committed. A read of committed records ends there, and lists the aborted
transactions in it. As in Kafka, the batches still contain their records, and readers filter them out.

The read-only half of ``PartitionLog``; owned by the same thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import NamedTuple
from uuid import UUID

from mainstem.errors import CorruptBatchError, DamagedRecordsError, OffsetOutOfRangeError
from mainstem.log.files.names import LOG
from mainstem.log.partition.config import LogConfig
from mainstem.log.partition.leader_epochs import EpochEndOffset, LeaderEpochs
from mainstem.log.partition.producer_state import ProducerEntry, ProducerState
from mainstem.log.segments.log_segments import LogPlace, LogSegments
from mainstem.log.segments.segment import Segment
from mainstem.log.segments.timestamps import (
    TimestampOffset,
    UnreadBatch,
    begin_search,
    greatest_timestamp,
    search_timestamp,
)
from mainstem.model import TopicPartition
from mainstem.record.reader import AbortedTransaction


class ReadResult(NamedTuple):
    """Whole record batches; ``buffers`` stay valid as long as they are held, whatever happens to the log.

    ``aborted`` is for a read of committed records, by first offset; empty for any other.
    """

    buffers: list[memoryview]
    size_bytes: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[AbortedTransaction] = ()


class PartitionState(NamedTuple):
    """The state that recovery, or creation, hands to the partition log."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    producers: ProducerState
    leader_epochs: LeaderEpochs
    leader_epoch: int
    cut_files: int = 0
    unsynced_directories: tuple[PurePath, ...] = ()
    is_end_synced: bool = True


class PartitionReads:
    """A partition as readers see it."""

    def __init__(
        self,
        directory: PurePath,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        state: PartitionState,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.leader_epoch = state.leader_epoch
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.high_watermark = state.log_end_offset
        self._segments = LogSegments(state.segments)
        self._producers = state.producers
        self._producers.decide(self.high_watermark)
        self._leader_epochs = state.leader_epochs
        self._committed_end = self._segments.end
        self._stable_end = (self.high_watermark, self._committed_end)

    @property
    def last_stable_offset(self) -> int:
        """Up to here no transaction is open, nor ended by a marker at or past the high watermark."""
        first_unstable = self._producers.first_unstable_offset
        if first_unstable is None or first_unstable >= self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log_start_offset)

    def read(self, offset: int, max_bytes: int, *, minimum_one: bool = True, committed: bool = False) -> ReadResult:
        """Whole batches up to the high watermark, beginning with the one that holds ``offset`` or comes next.

        At most ``max_bytes``, except that with ``minimum_one`` the first batch comes however large it is. With
        ``committed`` they end at the last stable offset, and ``aborted`` is filled. Raises OffsetOutOfRangeError;
        DamagedRecordsError when the batch at ``offset`` is damaged, which says how far.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: offset {offset} is not in [{self.log_start_offset}, {self.log_end_offset}]"
            )
        last_stable = self.last_stable_offset
        buffers: list[memoryview] = []
        aborted: Sequence[AbortedTransaction] = ()
        if offset < (last_stable if committed else self.high_watermark):
            end = self._find_stable_end(last_stable) if committed else self._committed_end
            try:
                buffers, end = self._segments.read(offset, max_bytes, end, minimum_one=minimum_one)
            except CorruptBatchError as error:
                raise self._damage(offset, last_stable if committed else self.high_watermark, error) from error
            if committed and buffers:
                aborted = self._segments.aborted_transactions(offset, end)
        size = sum(map(len, buffers))
        return ReadResult(buffers, size, self.high_watermark, last_stable, self.log_start_offset, aborted)

    def _damage(self, offset: int, end: int, error: CorruptBatchError) -> DamagedRecordsError:
        """The unreadable range from ``offset``: up to the next valid batch, or to the ``end`` of the read."""
        after = self._segments.next_proven(offset)
        last_offset = (end if after is None else min(after, end)) - 1
        return DamagedRecordsError(self.topic_partition, offset, last_offset, str(error))

    def _find_stable_end(self, last_stable: int) -> LogPlace:
        """The place of the last stable offset: where the oldest open transaction begins.

        Where that is damaged, reading ends before it by itself.
        """
        if last_stable == self.high_watermark:
            return self._committed_end
        if self._stable_end[0] != last_stable:
            try:
                place = self._segments.find(last_stable)
            except CorruptBatchError:
                return self._committed_end
            self._stable_end = (last_stable, place)
        return self._stable_end[1]

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first visible record whose timestamp is at least ``timestamp_ms``, exactly; None when there is none.

        Raises CorruptBatchError when damage lies before it.
        """
        return search_timestamp(self._segments, timestamp_ms, self.log_start_offset, self.high_watermark)

    def begin_timestamp_search(self, timestamp_ms: int, from_offset: int = 0) -> TimestampOffset | UnreadBatch | None:
        """As ``offset_for_timestamp``, from an offset on, but a batch that is long to read is left to the caller."""
        start_offset = max(from_offset, self.log_start_offset)
        return begin_search(self._segments, timestamp_ms, start_offset, self.high_watermark)

    def max_timestamp(self) -> TimestampOffset | None:
        """The first visible record that has the greatest timestamp; None when no record has one."""
        batch = self.batch_of_max_timestamp()
        return batch.search() if batch is not None else None

    def batch_of_max_timestamp(self) -> UnreadBatch | None:
        """The batch in which ``max_timestamp`` finds its record."""
        return greatest_timestamp(self._segments, self._committed_end, self.log_start_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """The end of the leader epoch, or of the greatest earlier one that has written; (-1, -1) without one."""
        return self._leader_epochs.end_offset_for(epoch, self.high_watermark, self.leader_epoch)

    @property
    def log_start_epoch(self) -> int:
        """The leader epoch in which the first record was written; the present one when there is none."""
        entries = self._leader_epochs.entries
        return entries[0].epoch if entries else self.leader_epoch

    # The part on the disk, and the part in the store of the backup

    @property
    def local_bytes(self) -> int:
        """The bytes in ``.log`` files: without the segments that are in the backup's store alone."""
        return sum(segment.size_bytes for segment in self._segments if not segment.is_remote)

    @property
    def stored_end_offset(self) -> int:
        """Where the part ends that the backup's store holds; the log's start when it holds nothing of it yet."""
        segments = list(self._segments)
        for segment, following in zip(reversed(segments[:-1]), reversed(segments), strict=False):
            if segment.is_stored:
                return following.base_offset
        return self.log_start_offset

    @property
    def local_start_offset(self) -> int:
        """From here on all is in ``.log`` files."""
        slot = len(self._segments) - 1
        while slot and not self._segments[slot - 1].is_remote:  # from the end: few of many are local
            slot -= 1
        return max(self.log_start_offset, self._segments[slot].base_offset)

    def local_start_after(self, segment: Segment) -> int:
        """Where the first local segment begins once this one has left the disk."""
        return max(after.base_offset for each, after in pairwise(self._segments) if each.is_remote or each is segment)

    def place_of_remote(self, path: PurePath) -> tuple[int, int | None] | None:
        """The base offsets of the segment that is to come back, and of the one before; None when it is gone."""
        for segment in self._segments:
            if segment.is_remote and segment.path(LOG) == path:
                return segment.base_offset, segment.previous.base_offset if segment.previous is not None else None
        return None

    def epoch_of(self, offset: int) -> int:
        """The leader epoch in which the record at an offset was written; the present one where none was."""
        before = [entry.epoch for entry in self._leader_epochs.entries if entry.start_offset <= offset]
        return before[-1] if before and offset < self.log_end_offset else self.leader_epoch

    # Producers

    def open_transaction_start(self, producer_id: int) -> int | None:
        """Where the producer's open transaction began in this partition; None when it has none open."""
        return self._producers.open_transactions.first_offset_of(producer_id)

    @property
    def producer_count(self) -> int:
        """How many producers the log knows."""
        return len(self._producers)

    def producers(self) -> list[ProducerEntry]:
        """The producers that the log knows, by id. To be looked at, not changed."""
        return self._producers.entries()
