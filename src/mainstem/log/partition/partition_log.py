"""The log of one partition: append, read, flush, and the offsets that bound them.

Invariants, asserted where they could break:

1. ``log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset``; ``recovery_point <= log_end_offset``.
2. A record below the high watermark is never lost, altered, reordered or given another offset. With ``flush=commit``
   the high watermark is the recovery point: what is on the disk. With ``flush=os`` it is the log end.
3. Readers see nothing at or past the high watermark.
4. After a failed sync, or a failed write that cannot be truncated, the partition refuses writes until it is opened
   again. A sync is never repeated, because the kernel drops the pages that it could not write.
5. Producer state is what a replay of the log gives.

Concurrency: synchronous, owned by one thread, which makes all calls; only ``Flush.run`` may run in another.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from mainstem.clock import Clock
from mainstem.durable_files import replace_file
from mainstem.errors import MainstemError, OffsetOutOfRangeError, PartitionOfflineError, StorageError
from mainstem.log.cleaning.cleaning import Cleaning
from mainstem.log.files.disk import Buffer
from mainstem.log.files.names import LEADER_EPOCH_CHECKPOINT, LOG, offset_file
from mainstem.log.partition.append_validation import AppendCheck, CheckedAppend
from mainstem.log.partition.batch_validation import empty_batch, stamp_batches
from mainstem.log.partition.checkpoints import encode_leader_epochs
from mainstem.log.partition.config import LogConfig
from mainstem.log.partition.flush import Flush, Unsynced
from mainstem.log.partition.mirrored_batches import CheckedBatch, mirrored_runs
from mainstem.log.partition.partition_reads import PartitionReads, PartitionState
from mainstem.log.partition.producer_snapshot import write_snapshot
from mainstem.log.partition.producer_state import BatchMetadata
from mainstem.log.segments.log_segments import LogPlace
from mainstem.log.segments.segment import Segment, SegmentContext
from mainstem.log.verifiable.partition_tree import PartitionTree
from mainstem.model import TopicPartition
from mainstem.record.constants import HEADER_BYTES, NO_TIMESTAMP, ControlType
from mainstem.record.header import BatchHeader, iter_headers, read_header
from mainstem.record.reader import EndMarker
from mainstem.record.writer import build_control_batch

if TYPE_CHECKING:
    from mainstem.log.key_index.append_hook import AppendFeatures, DuplicateAppend

_LOG: Final = logging.getLogger(__name__)

_RECOVERY_CHECKPOINT_BYTES: Final = 16 << 20
"""The most bytes of log after the written indexes and producer snapshot: a start has to walk them again."""
_PRODUCER_EXPIRATION_MS: Final = 86_400_000
_DELETED: Final = "it is deleted"


class AppendResult(NamedTuple):
    """``log_append_time_ms`` is -1 unless the log set it; a ``duplicate`` was in the log before, at these offsets."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool


class Statistics(NamedTuple):
    """The state of a partition."""

    segments: int
    size_bytes: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    recovery_point: int
    leader_epoch: int
    producers: int
    offline: str | None
    cut_files: int


class PartitionLog(PartitionReads):
    """Made by ``partition_recovery.create_partition`` and ``open_partition``."""

    def __init__(
        self,
        context: SegmentContext,
        clock: Clock,
        directory: PurePath,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        state: PartitionState,
    ) -> None:
        super().__init__(directory, topic_partition, topic_id, config, state)
        self.recovery_point = state.log_end_offset
        self._context = context
        self._clock = clock
        self._cut_files = state.cut_files
        self._offline: str | None = None
        self._unsynced = Unsynced(clock, state.unsynced_directories, is_end_synced=state.is_end_synced)
        self._flush_in_flight: Flush | None = None
        self.features: AppendFeatures | None = None  # the topic's log features, which check and index each append
        self.tree = PartitionTree(self, context.disk, self._segments) if config.mainstem_verifiable else None
        self.needs_checkpoint = True  # set by each change that a checkpoint file has to show; the checkpoints clear it
        self._unwritten_bytes = 0
        self._first_timestamp_ms: int | None = None
        self._active_since_ms = clock.time_ms()
        self.cleaning = Cleaning(
            self, context, self._segments, state.producers, self._roll, self._may_be_removed, self._active_since_ms
        )

    # What others see

    @property
    def offline_reason(self) -> str | None:
        """Why the partition refuses writes; None when it does not."""
        return self._offline

    @property
    def size_bytes(self) -> int:
        """All bytes of its segments."""
        return sum(segment.size_bytes for segment in self._segments)

    def statistics(self) -> Statistics:
        """The state of the partition."""
        return Statistics(
            len(self._segments),
            self.size_bytes,
            self.log_start_offset,
            self.high_watermark,
            self.log_end_offset,
            self.recovery_point,
            self.leader_epoch,
            len(self._producers),
            self._offline,
            self._cut_files,
        )

    # Append

    def append(self, data: Buffer, *, is_own: bool = False, from_coordinator: bool = False) -> AppendResult:
        """Append the record batches of one produce request, all or none, at the log end.

        Readers and ``acks=all`` wait for ``high_watermark`` to pass ``last_offset``, also for a duplicate. Batches that
        are this process's ``own`` are not walked record by record. Those ``from_coordinator`` are a group
        coordinator's in a producer's name: they have no sequence to be checked. May take as long as the check takes;
        an event loop uses ``start_append`` and ``append_checked``.

        Raises CorruptBatchError, RecordTooLargeError, InvalidRecordError, InvalidTimestampError, ProducerError,
        PartitionOfflineError; StorageError when the disk is full or failed: then nothing was appended.
        """
        checked = self.start_append(data, is_own=is_own or from_coordinator, needs_sequence=not from_coordinator).run()
        return self.append_checked(checked, from_coordinator=from_coordinator)

    def start_append(self, data: Buffer, *, is_own: bool = False, needs_sequence: bool = True) -> AppendCheck:
        """The check that batches need before ``append_checked``. Raises PartitionOfflineError."""
        self._refuse_if_offline()
        now_ms = self._clock.time_ms()
        return AppendCheck(data, self.config, now_ms, self.features, is_own=is_own, needs_sequence=needs_sequence)

    def append_checked(
        self, checked: CheckedAppend, *, from_coordinator: bool = False, begins_at_zero: bool = False
    ) -> AppendResult:
        """Append batches that were checked by this topic's configs as they are now (``is_current``).

        With ``begins_at_zero``, a producer that the partition does not know begins with sequence 0 (KIP-890). Raises
        as ``append`` does.
        """
        self._refuse_if_offline()
        sent, scanned, features = checked.sent, checked.scanned, checked.features
        earlier = None if features is None or scanned is None else features.find_duplicate(scanned)
        if earlier is not None:
            return self._answer_again(earlier, sent)
        duplicate = None if from_coordinator else self._find_duplicate(sent)
        if duplicate is not None:
            return AppendResult(
                duplicate.base_offset, duplicate.last_offset, duplicate.timestamp_ms, self.log_start_offset, True
            )
        self._producers.check(sent, checks_sequence=not from_coordinator, begins_at_zero=begins_at_zero)
        now_ms = self._clock.time_ms()  # of the append: others may have been appended while these were checked
        if features is None or scanned is None:
            return self._append(checked.view, checked.batches, now_ms)
        features.check(scanned, self.log_end_offset)
        result = self._append(checked.view, checked.batches, now_ms)
        features.on_appended(scanned, sent, result.base_offset, self.leader_epoch)
        return result

    def is_current(self, checked: CheckedAppend) -> bool:
        """Whether the topic's configs are still those by which the batches were checked."""
        return checked.config is self.config and checked.features is self.features

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        timestamp_ms: int,
        bumps_epoch: bool = False,
    ) -> AppendResult:
        """Append the marker that ends the producer's transaction, or ends nothing if it has none open here.

        With ``bumps_epoch`` (transactions of version 2, KIP-890) the marker's epoch must be greater than that of the
        batches that it ends; without, it is at least theirs. It takes the producer to that epoch, where its sequences
        begin at 0.

        Raises InvalidProducerEpochError, TransactionCoordinatorFencedError, PartitionOfflineError, StorageError: then
        nothing was appended.
        """
        self._refuse_if_offline()
        self._producers.check_marker(producer_id, producer_epoch, coordinator_epoch, bumps_epoch=bumps_epoch)
        control_type = ControlType.COMMIT if commit else ControlType.ABORT
        data = build_control_batch(
            control_type,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=timestamp_ms,
        )
        batches = [(0, read_header(data))]
        return self._append(
            memoryview(data), batches, self._clock.time_ms(), EndMarker(control_type, coordinator_epoch)
        )

    def append_mirrored(self, batches: list[CheckedBatch], expected_end: int, fill_to: int = -1) -> None:
        """Append batches of another log as they are, at their own offsets; fill gaps, also up to ``fill_to``.

        Raises OffsetOutOfRangeError when the log does not end at ``expected_end``, or the batches begin before that;
        PartitionOfflineError; StorageError: then the first ones may be appended.
        """
        self._refuse_if_offline()
        first = batches[0].header.base_offset if batches else expected_end
        if self.log_end_offset != expected_end or first < expected_end:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition} ends at {self.log_end_offset}: batches from {first} on, after {expected_end}, "
                "do not follow"
            )
        now_ms = self._clock.time_ms()
        for run in mirrored_runs(batches, expected_end, fill_to, self._leader_epochs.latest):
            self._maybe_roll(run.size, run.headers, now_ms)
            self._write(run.headers, run.buffers, run.size, now_ms, run.marker)
            self.leader_epoch = max(self.leader_epoch, run.headers[-1].leader_epoch)

    def _append(
        self,
        view: memoryview,
        batches: Sequence[tuple[int, BatchHeader]],
        now_ms: int,
        marker: EndMarker | None = None,
    ) -> AppendResult:
        has_records = batches[0][1].record_count > 0  # the time of a batch without any would be no record's
        append_time_ms = now_ms if self.config.uses_log_append_time and has_records else None
        headers, buffers = stamp_batches(view, batches, self.log_end_offset, self.leader_epoch, append_time_ms)
        self._maybe_roll(len(view), headers, now_ms)
        self._write(headers, buffers, len(view), now_ms, marker)
        return AppendResult(
            headers[0].base_offset,
            headers[-1].last_offset,
            NO_TIMESTAMP if append_time_ms is None else append_time_ms,
            self.log_start_offset,
            False,
        )

    def _answer_again(self, earlier: DuplicateAppend, sent: Sequence[BatchHeader]) -> AppendResult:
        """Answer with records that are there. A producer's sequence moves on all the same: by batches without records.

        Those are what compaction, too, leaves of a batch to rebuild its producer's state from.
        """
        if any(header.producer_id >= 0 for header in sent) and self._find_duplicate(sent) is None:
            self._producers.check(sent)
            times = {entry.producer_id: entry.last_timestamp_ms for entry in self._producers.entries()}
            empty = memoryview(b"".join(empty_batch(each, times.get(each.producer_id, NO_TIMESTAMP)) for each in sent))
            self._append(empty, list(iter_headers(empty)), self._clock.time_ms())
        return AppendResult(earlier.base_offset, earlier.last_offset, NO_TIMESTAMP, self.log_start_offset, True)

    def _find_duplicate(self, headers: Sequence[BatchHeader]) -> BatchMetadata | None:
        for header in headers:
            if header.producer_id >= 0:
                duplicate = self._producers.find_duplicate(header)
                if duplicate is not None:
                    return duplicate
        return None

    def _refuse_if_offline(self) -> None:
        if self._offline is not None:
            raise PartitionOfflineError(f"{self.topic_partition} takes no writes until restart: {self._offline}")

    def _write(
        self,
        headers: Sequence[BatchHeader],
        buffers: Sequence[Buffer],
        size: int,
        now_ms: int,
        marker: EndMarker | None,
    ) -> None:
        active = self._segments.active
        active.file()  # if it cannot be opened, there is nothing to undo
        self._unsynced.add(active)  # also if the write fails
        try:
            active.append(headers, buffers, marker)
        except StorageError as error:
            self._undo_write(error)
            raise
        self.log_end_offset = headers[-1].next_offset
        self.needs_checkpoint = True
        self._unsynced.size_bytes += size
        self._unwritten_bytes += size
        for header in headers:
            self._producers.update(header, marker, written_ms=now_ms)
        if headers[-1].leader_epoch > self._leader_epochs.latest:
            self._note_leader_epochs(headers)
        if not self.config.flushes_before_commit:
            self._advance_high_watermark(self.log_end_offset, self._segments.end)

    def _undo_write(self, error: StorageError) -> None:
        try:
            self._segments.active.discard_tail()
        except StorageError as second:
            self._go_offline(f"{error}; then {second}")

    def _note_leader_epochs(self, headers: Sequence[BatchHeader]) -> None:
        """Not synced: opening the log compares it with the log's last batch, and adds what it lacks.

        Synced where no local batch has an epoch: one that begins at a cut, or is of batches in the backup's store.
        """
        for header in headers:
            self._leader_epochs.assign(header.leader_epoch, header.base_offset)
        data = encode_leader_epochs(self._leader_epochs.entries)
        sync = self._cut_files > 0 or any(segment.is_remote for segment in self._segments)
        try:
            replace_file(self._context.disk, self.directory / LEADER_EPOCH_CHECKPOINT, data, sync=sync)
        except StorageError as error:  # the batch is appended; the file is rebuilt at the next start
            _LOG.warning("%s: %s", self.topic_partition, error)

    def _go_offline(self, reason: str) -> None:
        if self._offline is None:
            self._offline = reason
            _LOG.error("%s takes no writes until restart: %s", self.topic_partition, reason)

    # Segments

    def _maybe_roll(self, size: int, headers: Sequence[BatchHeader], now_ms: int) -> None:
        active, config = self._segments.active, self.config
        active_bytes = active.size_bytes
        if active_bytes == 0:
            self._begin_segment(headers, now_ms)
        elif (
            active_bytes > config.segment_bytes - size
            or not active.indexes().can_hold(len(headers), headers[-1].last_offset, config.segment_index_bytes)
            or self._has_waited(headers, now_ms) > config.roll_ms
        ):
            self._roll()
            self._begin_segment(headers, now_ms)

    def _begin_segment(self, headers: Sequence[BatchHeader], now_ms: int) -> None:
        self._first_timestamp_ms = headers[0].max_timestamp
        self._active_since_ms = now_ms

    def _has_waited(self, headers: Sequence[BatchHeader], now_ms: int) -> int:
        """The age of the active segment: by the records' timestamps, by the clock where they have none."""
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = read_header(self._segments.active.file().read(0, HEADER_BYTES)).max_timestamp
        if self._first_timestamp_ms < 0:
            return now_ms - self._active_since_ms
        timestamp_ms = headers[0].max_timestamp
        if len(headers) > 1:
            timestamp_ms = max(header.max_timestamp for header in headers)
        return timestamp_ms - self._first_timestamp_ms

    def _roll(self) -> None:
        """Begin a new segment at the log end. The old one's index files are finished once it is synced."""
        old = self._segments.active
        self._unsynced.add_end(old)
        new = self._create_segment(self.log_end_offset)
        self._segments.append(new)
        self._unsynced.directories[self.directory] = None
        if self.high_watermark == self.log_end_offset:
            self._committed_end = self._segments.end
        if old.pins == 0:
            self._finish_segment(old)
        self._write_snapshot()

    def _create_segment(self, base_offset: int) -> Segment:
        """A new segment or none: an empty file that the log then grows past would look like lost records."""
        try:
            return Segment.create(
                self._context,
                self.directory,
                base_offset,
                self.config.index_interval_bytes,
                self._producers.open_transactions,
            )
        except StorageError as error:
            self._unsynced.directories[self.directory] = None
            try:
                self._context.disk.remove(self.directory / offset_file(base_offset, LOG))
            except StorageError as second:
                self._go_offline(f"{error}; then {second}")
            raise

    def _finish_segment(self, segment: Segment) -> None:
        """Write the last index entries and the last seal of a closed and synced segment."""
        segment.is_active = False
        self._write_indexes(segment, last=True)

    def _write_indexes(self, segment: Segment, *, last: bool = False) -> None:
        """Index files are for the next start; one that cannot be written now is rebuilt then."""
        try:
            segment.write_indexes(self.recovery_point, last=last)
        except StorageError as error:
            _LOG.warning("%s: %s", self.topic_partition, error)

    # Flush

    @property
    def wants_flush(self) -> bool:
        """Whether a background flush is due: many bytes are unsynced, or some for long."""
        return self._unsynced.is_due()

    @property
    def is_flushing(self) -> bool:
        """Whether a flush is in flight: no other can start."""
        return self._flush_in_flight is not None

    def start_flush(self) -> Flush | None:
        """Start a flush of all unsynced records; None when there are none, or when a flush is in flight already."""
        if self._flush_in_flight is not None or self._offline is not None:
            return None
        end = (self.log_end_offset, self._segments.end)
        self._flush_in_flight = self._unsynced.take(self.topic_partition, self._context.disk, end)
        return self._flush_in_flight

    def finish_flush(self, flush: Flush, error: BaseException | None = None) -> None:
        """Take note of how ``flush.run`` ended; ``error`` is what it raised."""
        assert flush is self._flush_in_flight, "a flush ends once, and one at a time"
        self._flush_in_flight = None
        if self._offline == _DELETED:
            self._release()
            return
        if error is not None:
            self._go_offline(str(error))
            return
        assert self.recovery_point <= flush.end_offset <= self.log_end_offset
        self.recovery_point = flush.end_offset
        self.needs_checkpoint = True
        self._advance_high_watermark(flush.end_offset, flush.end_place)
        for segment in flush.segments:
            segment.pins -= 1
            if segment is not self._segments.active and segment.pins == 0 and segment.is_active:
                self._finish_segment(segment)
        if self._unwritten_bytes >= _RECOVERY_CHECKPOINT_BYTES:
            self.write_recovery_checkpoint()

    def flush(self) -> None:
        """All three steps at once, for those who may wait. Raises StorageError."""
        flush = self.start_flush()
        if flush is None:
            return
        try:
            flush.run()
        except StorageError as error:
            self.finish_flush(flush, error)
            raise
        self.finish_flush(flush)

    def _advance_high_watermark(self, offset: int, place: LogPlace) -> None:
        """Move the high watermark, forwards only."""
        if offset < self.high_watermark or place.segment.base_offset < self._committed_end.segment.base_offset:
            return
        assert self.log_start_offset <= offset <= self.log_end_offset
        self.needs_checkpoint = True
        self.high_watermark = offset
        self._committed_end = place
        self._producers.decide(offset)
        self._segments.remember(offset, place)

    @property
    def is_checkpointed(self) -> bool:
        """Whether everything is synced, and a start has nothing to walk again."""
        return not self._unsynced.segments and self._flush_in_flight is None and not self.needs_recovery_checkpoint

    @property
    def needs_recovery_checkpoint(self) -> bool:
        """Whether anything was appended since the last one."""
        return self._unwritten_bytes > 0 and self._offline is None

    def write_recovery_checkpoint(self, *, last: bool = False) -> None:
        """Write indexes and producer state, so that a start walks little log again; ``last``: at the end."""
        self._unwritten_bytes = 0
        self._write_indexes(self._segments.active, last=last)
        self._write_snapshot()

    def _write_snapshot(self) -> None:
        """Write the producers' state up to the log end.

        If the write fails, an older snapshot does as well: the next start walks more of the log.
        """
        self._producers.expire(self._clock.time_ms(), _PRODUCER_EXPIRATION_MS)
        try:
            known = (self._producers, self.topic_id, self.topic_partition.partition, self.recovery_point)
            write_snapshot(self._context.disk, self.directory, *known, self.cleaning.kept_snapshots())
        except StorageError as error:
            _LOG.warning("%s: %s", self.topic_partition, error)

    # The beginning and the end

    def delete_records(self, before_offset: int) -> int:
        """Move the log start to ``before_offset`` (-1: the high watermark) and release the segments before it.

        Returns the log start offset. The new start survives a restart once the directory's checkpoints are written;
        only then are the old files removed.
        Raises OffsetOutOfRangeError when it is past the high watermark.
        """
        target = self.high_watermark if before_offset == -1 else before_offset
        if not 0 <= target <= self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: cannot delete before {target}, the high watermark is {self.high_watermark}"
            )
        if target <= self.log_start_offset:
            return self.log_start_offset
        self.log_start_offset = target
        self.needs_checkpoint = True
        self._leader_epochs.truncate_start(target)
        self.cleaning.drop_before(target)
        return self.log_start_offset

    def _may_be_removed(self, segment: Segment) -> bool:
        """Not while a flush may use its file, nor the one in which the high watermark lies."""
        return segment.pins == 0 and segment is not self._committed_end.segment

    @property
    def cleanable_end(self) -> int:
        """Batches may be removed or compacted up to here: those of a verifiable topic wait for their leaves."""
        return self.log_end_offset if self.tree is None else self.tree.kept_offset

    def update_config(self, config: LogConfig) -> None:
        """Take the topic's new configs; they hold from the next append on."""
        if config.mainstem_verifiable and self.tree is None:
            self.tree = PartitionTree(self, self._context.disk, self._segments)
        self.config = config
        if not config.flushes_before_commit:
            self._advance_high_watermark(self.log_end_offset, self._segments.end)

    def close(self) -> None:
        """Flush, and leave everything as a clean start wants it. An offline partition is left as it is.

        No flush may be in flight. Raises StorageError when the flush fails.
        """
        assert self._flush_in_flight is None, "finish the flush first"
        if self._offline is None:
            self._unsynced.add_end(self._segments.active)
            self.flush()
            self.write_recovery_checkpoint(last=True)
            self._keep_tree()
        self._release()

    def _keep_tree(self) -> None:
        """Make the leaves durable; those that cannot be written now are made at the next start."""
        try:
            if self.tree is not None:
                self.tree.advance(keep=True)
        except MainstemError as error:
            _LOG.warning("%s: %s", self.topic_partition, error)

    def abandon(self) -> None:
        """The partition is deleted: it takes no writes, and lets go of its files, once no flush uses them."""
        self._offline = _DELETED
        if self._flush_in_flight is None:
            self._release()

    def _release(self) -> None:
        for segment in self._segments:
            segment.close()
