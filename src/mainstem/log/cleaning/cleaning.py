"""Cleaning of a partition's old segments: retention by time and size, compaction, and removal of files.

Of compaction this module has the owner's part: it makes the jobs of workers, and swaps in the segments that they wrote.

Order, so that a crash at any step leaves a correct log: the log start moves in memory, and readers follow it; the
node's checkpoint makes it durable; only then are files removed (``log.node.directory`` keeps that order). After a power
cut in between, opening the partition drops the segments before the durable log start.

Invariants: the active segment is never removed; a segment is removed whole or not at all; nothing at or past the high
watermark is removed, nor a file that a flush may use. Memory views that were handed out stay valid.

Concurrency: owned by the partition log's owner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from mainstem.errors import CorruptBatchError, StorageError
from mainstem.log.cleaning.compaction_job import SWAP, CleanedSegment, CompactionJob, LastOfProducer, SegmentFile
from mainstem.log.cleaning.swap import Swap
from mainstem.log.files.names import DELETED, LOG, SNAPSHOT, offset_file
from mainstem.log.segments.segment import Segment, SegmentContext
from mainstem.record.constants import HEADER_BYTES, INT64_MAX, NO_TIMESTAMP
from mainstem.record.header import read_header

if TYPE_CHECKING:
    from mainstem.log.partition.partition_log import PartitionLog
    from mainstem.log.partition.producer_state import ProducerState
    from mainstem.log.segments.log_segments import LogSegments


class Dirty(NamedTuple):
    """The range that may be compacted: up to ``end_offset``. ``ratio`` of its bytes are dirty, or it is urgent."""

    first_dirty_offset: int
    end_offset: int
    ratio: float
    is_overdue: bool

    def is_worth(self, ratio_min: float) -> bool:
        """Whether there is enough of it, or no time to wait for more."""
        return self.is_overdue or self.ratio > ratio_min


class Cleaning:
    """One partition's; made by its log. ``uncleanable`` says why compaction has given up, until the next start."""

    def __init__(
        self,
        log: PartitionLog,
        context: SegmentContext,
        segments: LogSegments,
        producers: ProducerState,
        roll: Callable[[], None],
        may_go: Callable[[Segment], bool],
        opened_at_ms: int,
    ) -> None:
        self._log = log
        self._context = context
        self._segments = segments
        self._producers = producers
        self._roll = roll
        self._may_go = may_go
        self._opened_at_ms = opened_at_ms
        self._dropped: list[Segment] = []
        self._leaving: list[Segment] = []  # dropped ones whose .log may still be there
        self.uncleanable: str | None = None

    # Retention

    def expire(self, now_ms: int) -> int:
        """Move the log start past what ``retention.ms`` and ``retention.bytes`` do not keep; the log start.

        An idle active segment of which every record has expired is rolled, so that its records go, too. A segment's age
        is that of its newest record; where no record has a timestamp, that of the partition's opening.
        Raises StorageError when the new segment cannot be made.
        """
        log = self._log
        if "delete" not in log.config.cleanup_policy or log.offline_reason is not None:
            return log.log_start_offset
        count = max(self._expired_by_time(now_ms), self._expired_by_size())
        if count == len(self._segments):
            if log.high_watermark == log.log_end_offset and self._segments.active.size_bytes:
                self._roll()
            else:
                count -= 1
        while count and self._segments[count].base_offset > log.high_watermark:
            count -= 1
        if count:
            log.delete_records(max(log.log_start_offset, self._segments[count].base_offset))
        return log.log_start_offset

    def _expired_by_time(self, now_ms: int) -> int:
        """The number of oldest segments whose records are all too old to be kept."""
        retention_ms = self._log.config.retention_ms
        if retention_ms < 0:
            return 0
        for count, segment in enumerate(self._segments):
            if now_ms - self._newest_ms(segment) <= retention_ms or (segment.is_active and segment.size_bytes == 0):
                return count
        return len(self._segments)

    def _newest_ms(self, segment: Segment) -> int:
        newest_ms = segment.max_timestamp_ms
        return self._opened_at_ms if newest_ms == NO_TIMESTAMP else newest_ms

    def _expired_by_size(self) -> int:
        """The number of oldest segments that can go while at least ``retention.bytes`` stay."""
        if self._log.config.retention_bytes < 0:
            return 0
        excess = self._log.size_bytes - self._log.config.retention_bytes
        for count, segment in enumerate(self._segments):
            excess -= segment.size_bytes
            if excess < 0:
                return count
        return len(self._segments)

    # Segments that the backup's store holds

    def releasable(self, now_ms: int) -> Iterator[Segment]:
        """The segments whose local file ``local.retention.ms`` and ``.bytes`` do not keep, oldest first.

        They are closed, durable, and have bytes. Whether the store has these is for the caller to see.
        """
        log, config = self._log, self._log.config
        if not config.is_tiered or log.offline_reason is not None:
            return
        keep_ms, keep_bytes = config.local_limits
        excess = log.local_bytes - keep_bytes
        for segment, following in pairwise(self._segments):
            if segment.is_remote or not segment.size_bytes:
                continue
            if following.base_offset > min(log.recovery_point, log.high_watermark) or not self._may_go(segment):
                return
            is_old = keep_ms >= 0 and now_ms - self._newest_ms(segment) > keep_ms
            excess -= segment.size_bytes
            if not (is_old or (keep_bytes >= 0 and excess >= 0)):
                return
            yield segment

    def end_of(self, segment: Segment) -> int | None:
        """The offset that follows a segment which may leave the disk; None when it is gone, or must stay."""
        log = self._log
        if log.offline_reason is not None or not log.config.is_tiered or segment.is_remote or not self._may_go(segment):
            return None
        return next((after.base_offset for each, after in pairwise(self._segments) if each is segment), None)

    def release(self, segment: Segment) -> PurePath | None:
        """Let a segment go on from the store; the file that may be removed. Raises StorageError.

        A start begins with the producers of where the first local segment begins: it needs a snapshot of exactly that
        offset, which ``SegmentRelease`` has synced. None when the segment is gone meanwhile, or must stay.
        """
        if self.end_of(segment) is None:
            return None
        snapshot = offset_file(self._log.local_start_after(segment), SNAPSHOT)
        if not self._context.disk.exists(self._log.directory / snapshot):
            return None
        file = segment.path(LOG).with_name(segment.path(LOG).name + DELETED)
        self._context.disk.rename(segment.path(LOG), file)
        segment.close()
        segment.is_remote = True
        return file

    def come_back(self, path: PurePath, source: PurePath) -> bool:
        """Let a segment go on from a file again; whether it is still there and needs it. Raises StorageError.

        ``source`` has all its bytes, and is synced.
        """
        for segment in self._segments:
            if segment.is_remote and segment.path(LOG) == path and self._log.offline_reason is None:
                self._context.disk.rename(source, path)
                segment.close()
                segment.is_remote = False
                return True
        return False

    def forget_places(self) -> None:
        """Read again where the segments are in the store: a load has failed."""
        for segment in self._segments:
            if segment.is_remote:
                segment.release()

    def kept_snapshots(self) -> Collection[int]:
        """The snapshots of a tiered topic's producers that must stay: of where each segment with a ``.log`` begins.

        What lies before such a segment may leave the disk, and then a start can begin nowhere else.
        """
        if not self._log.config.remote_storage_enable:
            return ()
        self._leaving = [each for each in self._leaving if self._context.disk.exists(each.path(LOG))]
        return {each.base_offset for each in (*self._segments, *self._leaving) if not each.is_remote}

    # Compaction

    def dirty(self, now_ms: int, cleaned_offset: int) -> Dirty | None:
        """The range that may be compacted now, if ``cleaned_offset`` was reached before; None when there is none.

        Its records are durable, in no open transaction, in closed segments, and older than ``min.compaction.lag.ms``.
        A tiered topic is never compacted, also where the node's default has become ``compact``.
        With ``max.compaction.lag.ms`` an active segment that is too old is rolled. Raises StorageError.
        """
        log, config = self._log, self._log.config
        is_cleaned = config.is_compacted and not config.remote_storage_enable
        if not is_cleaned or log.offline_reason is not None or self.uncleanable is not None:
            return None
        start, end = log.log_start_offset, log.log_end_offset
        first_dirty = cleaned_offset if start <= cleaned_offset <= end else start
        self._maybe_roll_overdue(now_ms)
        bound = min(log.recovery_point, log.high_watermark, log.cleanable_end)
        if log.last_stable_offset < log.high_watermark:
            bound = min(bound, log.last_stable_offset - 1)  # readers of committed records need the segment's end
        clean_bytes = dirty_bytes = 0
        end_offset, is_overdue = first_dirty, False
        for segment, following in pairwise(self._segments):
            if following.base_offset <= first_dirty:
                clean_bytes += segment.size_bytes
                continue
            if following.base_offset > bound or not self._may_go(segment):
                break
            if config.min_compaction_lag_ms > 0 and segment.max_timestamp_ms > now_ms - config.min_compaction_lag_ms:
                break
            dirty_bytes += segment.size_bytes
            end_offset = following.base_offset
            is_overdue = is_overdue or self._is_overdue(segment, now_ms)
        if not dirty_bytes:
            return None
        return Dirty(first_dirty, end_offset, dirty_bytes / (clean_bytes + dirty_bytes), is_overdue)

    def _maybe_roll_overdue(self, now_ms: int) -> None:
        active, log = self._segments.active, self._log
        if active.size_bytes and log.high_watermark == log.log_end_offset and self._is_overdue(active, now_ms):
            self._roll()

    def _is_overdue(self, segment: Segment, now_ms: int) -> bool:
        """Whether the segment's first records are older than ``max.compaction.lag.ms``."""
        lag_ms = self._log.config.max_compaction_lag_ms
        if lag_ms == INT64_MAX or not segment.size_bytes:
            return False
        try:
            first_ms = read_header(segment.file().read(0, HEADER_BYTES)).max_timestamp
        except CorruptBatchError:
            return False
        return now_ms - (self._opened_at_ms if first_ms == NO_TIMESTAMP else first_ms) > lag_ms

    def compaction_job(self, dirty: Dirty, now_ms: int, map_bytes: int) -> CompactionJob:
        """The job that a worker needs to compact the range."""
        log, config = self._log, self._log.config
        files = [SegmentFile(segment.base_offset, segment.size_bytes) for segment in self._segments]
        producers = {
            entry.producer_id: LastOfProducer(entry.batches[-1].last_offset if entry.batches else -1, entry.epoch)
            for entry in self._producers.entries()
        }
        return CompactionJob(
            str(log.directory),
            [file for file in files if file.base_offset < dirty.end_offset],
            [file for file in files if file.base_offset >= dirty.end_offset],
            dirty.first_dirty_offset,
            dirty.end_offset,
            log.last_stable_offset,
            log.recovery_point,
            now_ms,
            config.delete_retention_ms,
            config.segment_bytes,
            config.index_interval_bytes,
            config.segment_index_bytes,
            map_bytes,
            producers,
        )

    def prepare_swap(self, cleaned: CleanedSegment) -> Swap | None:
        """The swap (see there) of a worker's segment, its first step done; None when the partition is deleted.

        It has to go on with ``begin_swap`` or ``cancel_swap``. Raises StorageError.
        """
        if self._log.offline_reason is not None:
            return None
        swap = Swap(self._context.disk, self._log.directory, cleaned)
        try:
            swap.prepare()
        except StorageError:
            self.cancel_swap(swap)
            raise
        return swap

    def cancel_swap(self, swap: Swap) -> None:
        """Instead of ``begin_swap``. The next opening would install a segment that stays prepared over newer ones."""
        try:
            swap.cancel()
        except StorageError as error:
            self.uncleanable = f"a compacted segment could not be removed: {error}"

    def begin_swap(self, swap: Swap) -> Segment | None:
        """Step 3, for readers, too: the new segment; None, and nothing happens, when the old ones are not all there.

        Raises StorageError.
        """
        cleaned = swap.cleaned
        slots = [slot for slot, segment in enumerate(self._segments) if segment.base_offset in set(cleaned.replaced)]
        old = [self._segments[slot] for slot in slots]
        is_there = len(old) == len(cleaned.replaced) and slots[-1] + 1 < len(self._segments)
        may_go = not self._log.config.remote_storage_enable and all(map(self._may_go, old))
        if self._log.offline_reason is not None or not is_there or not may_go:
            self.cancel_swap(swap)
            return None
        new = Segment(self._context, self._log.directory, cleaned.base_offset, self._log.config.index_interval_bytes)
        new.ending = SWAP
        try:
            new.file()
        except StorageError:
            self.cancel_swap(swap)
            raise
        new.pins += 1  # neither its name nor its file may go meanwhile
        try:
            swap.begin(old)
        except StorageError as error:  # some old files may be set aside already: only the next opening can finish this
            self.uncleanable = f"a compacted segment could not be installed: {error}"
            new.pins -= 1
            new.close()
            raise
        self._segments.replace(old, new)
        return new

    def end_swap(self, swap: Swap, new: Segment) -> None:
        """Step 5. Raises StorageError."""
        swap.end(new)
        new.pins -= 1

    # Files that go

    def drop_before(self, offset: int) -> None:
        """Let go of the segments that lie wholly before ``offset``; their files stay for now."""
        for segment in self._segments.drop_before(min(offset, self._log.cleanable_end), self._may_go):
            segment.close()
            self._dropped.append(segment)
            self._leaving.append(segment)

    def take_dropped(self) -> list[Segment]:
        """The segments whose files may be removed once the log start is durable; each is returned once."""
        self.drop_before(self._log.log_start_offset)  # segments that a flush held the last time
        dropped, self._dropped = self._dropped, []
        return dropped
