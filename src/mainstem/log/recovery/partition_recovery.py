"""Opens a partition: makes a log of verified records from its files, with a bounded amount of work.

The steps are the same after a clean shutdown and after a crash (after a clean shutdown the last ones have no work):

1. *Recovery point.* Everything before it was synced. It is the greatest one in the checkpoint and the newest seals.
2. *Trusted part.* From the last seal to the recovery point the batches are walked and indexed. Damage there is never
   truncated: it is skipped and reported, and reads of it raise CorruptBatchError. Appends go to a new segment.
3. *Past the recovery point* every batch is verified. The log is truncated at the first incomplete or damaged batch. If
   valid batches follow the truncation point, this is probably corruption in the middle of the log, not a torn write at
   its end. The removed bytes are then saved in ``.cut`` files, and appends go to a new segment after the highest offset
   seen, so that no offset is used twice. A segment that others follow ends where the next one begins: bytes after that
   are of a write that was taken back.
4. *Rewrite.* The records past the recovery point are written again, in place, and synced, before the high watermark
   moves past them. After a crash of the process the page cache may have data that the disk lacks. After a failed sync
   the kernel may treat these pages as clean: a sync alone would then write nothing.
5. *Leader epochs* come from their file, or from the batches if the file does not reach the last of them.

All of this looks at the *local* segments: those after the last one whose records are in the backup's store alone. That
one was durable when its file left the disk, so the recovery point is not before its end. Transactions that are open
there come from its seal. Nothing is read from the store.

*Producer state* and open transactions come from the newest snapshot that is not past the start of step 2; every batch
walked after that updates them. Where the local segments follow remote ones, there is one of exactly their beginning
(``local_start``). Skipped damage may contain markers: the state of transactions after it comes from the segment's seal
and its transaction index. If these are lost, too, a transaction may stay open without a marker: an error in the
process's log names it.

Concurrency: one call, in the thread that will own the partition log.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Final, NamedTuple
from uuid import UUID

from mainstem.clock import Clock
from mainstem.durable_files import TEMPORARY, replace_file
from mainstem.errors import CorruptBatchError, StorageError
from mainstem.log.cleaning.swap import finish_swaps
from mainstem.log.files.disk import Disk, DiskFile
from mainstem.log.files.names import (
    CUT,
    DELETED,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    PARTITION_METADATA,
    REMOTE,
    SEGMENT_SUFFIXES,
    SIDECAR_SUFFIXES,
    offset_file,
    parse_offset_file,
)
from mainstem.log.files.small_files import read_file, sync_file
from mainstem.log.partition.checkpoints import (
    decode_leader_epochs,
    encode_leader_epochs,
    encode_partition_metadata,
)
from mainstem.log.partition.config import LogConfig
from mainstem.log.partition.leader_epochs import LeaderEpochs, rebuild_epochs
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.partition.partition_reads import PartitionState
from mainstem.log.partition.producer_snapshot import read_newest_snapshot
from mainstem.log.partition.producer_state import ProducerState
from mainstem.log.recovery.local_start import open_at, producers_without_snapshot, write_base_snapshot
from mainstem.log.recovery.remote_bases import lost_bases, remote_bases
from mainstem.log.recovery.truncated_tail import keep_tail, keep_whole, proven_end_after
from mainstem.log.segments.batch_scan import Start, walk_verified
from mainstem.log.segments.index_checksums import IndexChecksums
from mainstem.log.segments.log_segments import link
from mainstem.log.segments.segment import BatchPlace, Segment, SegmentContext
from mainstem.log.segments.segment_indexes import SegmentIndexes, read_seal
from mainstem.log.segments.transactions import OpenTransactions
from mainstem.log.verifiable.tree_files import TreeFiles
from mainstem.model import TopicPartition

_LOG: Final = logging.getLogger(__name__)

_REWRITE_CHUNK_BYTES: Final = 1 << 20
_EPOCH_MAX: Final = 2**30
"""The greatest leader epoch that counts when the checkpoint is gone: more starts than any node has seen."""


class Partition(NamedTuple):
    """A partition to open: its directory, its name, its topic's id and its configs."""

    directory: PurePath
    topic_partition: TopicPartition
    topic_id: UUID
    config: LogConfig


class LastKnown(NamedTuple):
    """The node checkpoint's state of a partition, and whether the node shut down cleanly.

    No batch was written with a leader epoch over ``leader_epoch_max``.
    """

    recovery_point: int = 0
    log_start_offset: int = 0
    was_clean: bool = False
    leader_epoch_max: int = _EPOCH_MAX


def create_partition(
    context: SegmentContext, clock: Clock, partition: Partition, leader_epoch: int = 0
) -> PartitionLog:
    """A new, empty partition in a new directory. All of it is durable with the first flush, or none."""
    directory = partition.directory
    context.disk.make_directory(directory)
    replace_file(
        context.disk, directory / PARTITION_METADATA, encode_partition_metadata(partition.topic_id), sync=False
    )
    segment = Segment.create(context, directory, 0, partition.config.index_interval_bytes)
    state = PartitionState(
        [segment],
        0,
        0,
        ProducerState((), 0),
        LeaderEpochs(),
        leader_epoch,
        unsynced_directories=(directory, directory.parent),
    )
    return PartitionLog(context, clock, *partition, state)


def open_partition(context: SegmentContext, clock: Clock, partition: Partition, last_known: LastKnown) -> PartitionLog:
    """Open what is in the partition's directory. Raises StorageError when the disk cannot be read or written."""
    return PartitionLog(context, clock, *partition, _Recovery(context, partition, last_known).run())


class _Recovery:
    """One run over the steps above."""

    def __init__(self, context: SegmentContext, partition: Partition, last_known: LastKnown) -> None:
        self._context = context
        self._disk: Disk = context.disk
        self._directory = partition.directory
        self._name = partition.topic_partition
        self._topic_id = partition.topic_id
        self._is_verifiable = partition.config.mainstem_verifiable
        self._has_remote = partition.config.remote_storage_enable
        self._interval_bytes = partition.config.index_interval_bytes
        self._last_known = last_known
        self._stored: list[Segment] = []  # up to the last one that is in the backup's store alone
        self._open_at_local_start = OpenTransactions()
        self._segments: list[Segment] = []  # the others: all of it looks at these
        self._producers = ProducerState()
        self._cut_files = 0
        self._cut_from: int | None = None
        self._damaged_from: int | None = None
        self._sealed: tuple[Segment, IndexChecksums] | None = None
        self._are_known = False
        self._recovery_point = 0
        self._names_are_durable = last_known.was_clean

    def run(self) -> PartitionState:
        self._list_files()
        self._recovery_point = self._find_recovery_point()
        if not self._segments:
            self._segments = [self._new_segment(self._recovery_point)]
            self._disk.sync_directory(self._directory)
        link(self._segments)
        if self._stored:
            known = (self._segments[0], self._name, self._topic_id)
            self._open_at_local_start = open_at(self._disk, self._stored, *known)
        trusted = self._first_suspect()
        if trusted > 0 and not self._last_known.was_clean:
            self._settle_end(trusted - 1)
        kept_end, log_end = self._recover_from(trusted)
        self._report_doubtful()
        segments = [*self._stored, *self._segments]
        log_start = min(max(self._last_known.log_start_offset, segments[0].base_offset), log_end)
        epochs = self._rebuild_leader_epochs(kept_end, log_start)
        return PartitionState(
            segments,
            log_start,
            log_end,
            self._producers,
            epochs,
            max(epochs.latest, 0),
            cut_files=self._cut_files,
            unsynced_directories=() if self._names_are_durable else (self._directory, self._directory.parent),
            is_end_synced=self._last_known.was_clean,
        )

    # Step 1

    def _list_files(self) -> None:
        """Find the segments; remove what a crash has left of unfinished files."""
        finish_swaps(self._disk, self._directory)
        names = self._disk.list(self._directory)
        offset_files = [file for file in map(parse_offset_file, names) if file is not None]
        local = {offset for offset, suffix in offset_files if suffix == LOG}
        remote = self._find_remote(offset_files) if self._has_remote else set()
        bases = sorted(local | remote)
        # Where the topic's config is off, a .remote counts for nothing; but it is not for recovery to remove it.
        known = remote | {offset for offset, suffix in offset_files if suffix in (LOG, REMOTE)}
        for name in names:
            parsed = parse_offset_file(name)
            is_stray = parsed is not None and parsed[1] in SEGMENT_SUFFIXES and parsed[0] not in known
            if is_stray or name.endswith((TEMPORARY, DELETED)):
                self._disk.remove(self._directory / name)
        self._cut_files = sum(name.endswith(CUT) for name in names)
        removable_end = self._last_known.log_start_offset
        if self._is_verifiable and len(bases) > 1 and bases[1] <= removable_end:
            files = TreeFiles(self._disk, self._directory, self._topic_id, self._name.partition)
            removable_end = min(removable_end, files.kept_offset())
        while len(bases) > 1 and bases[1] <= removable_end:
            self._segment(bases.pop(0)).remove()  # deleted; power failed before its files were gone
        segments = [self._segment(base) for base in bases]
        for segment in segments:
            segment.is_remote = segment.base_offset not in local
        count = max((slot + 1 for slot, segment in enumerate(segments) if segment.is_remote), default=0)
        self._stored, self._segments = segments[:count], segments[count:]
        if self._stored and not self._segments:
            raise StorageError(f"{segments[-1].path(LOG)} is gone, and it was the newest segment of {self._name}")

    def _find_remote(self, offset_files: Sequence[tuple[int, str]]) -> set[int]:
        """The segments that are in the store alone, also those of which it is not known where."""
        lost = lost_bases(offset_files, self._last_known.log_start_offset, self._last_known.recovery_point)
        for base_offset in lost:
            _LOG.error(
                "%s: %s is lost, and no .log is here: records from offset %d on are answered with an error. A backup "
                "of this log writes the file again if its store has them",
                self._name,
                self._directory / offset_file(base_offset, REMOTE),
                base_offset,
            )
        return remote_bases(self._disk, self._directory, offset_files, self._topic_id).union(lost)

    def _segment(self, base_offset: int) -> Segment:
        return Segment(self._context, self._directory, base_offset, self._interval_bytes)

    def _new_segment(self, base_offset: int) -> Segment:
        open_transactions = self._producers.open_transactions
        return Segment.create(self._context, self._directory, base_offset, self._interval_bytes, open_transactions)

    def _find_recovery_point(self) -> int:
        known = [self._last_known.recovery_point, self._last_known.log_start_offset]
        known += [segment.base_offset for segment in self._segments[:1]]
        for segment in reversed(self._segments):  # until one knows: mostly the first or the second
            seal = read_seal(self._disk, self._directory, segment.base_offset)
            if seal is not None:
                known.append(seal.durable_offset)
                if seal.durable_offset >= segment.base_offset:
                    break
        return max(known)

    def _first_suspect(self) -> int:
        """The slot of the segment that the recovery point lies in."""
        slots = [slot for slot, segment in enumerate(self._segments) if segment.base_offset <= self._recovery_point]
        return slots[-1] if slots else 0

    # Steps 2, 3 and 4

    def _recover_from(self, slot: int) -> tuple[int, int]:
        """Recover the segments from ``slot`` on; the end of what is kept, and the offset that comes next."""
        indexes = self._segments[slot].read_indexes()
        indexes.rewind(self._segments[slot].file(), self._recovery_point)
        self._restore_producers(slot, indexes)
        indexes.open_transactions = self._producers.open_transactions.copy()
        seal = read_seal(self._disk, self._directory, indexes.base_offset)
        self._sealed = (self._segments[slot], seal) if seal is not None else None
        is_damaged = self._walk_trusted(self._segments[slot], indexes)
        if seal is not None and seal.end_offset <= self._recovery_point:
            self._restore_transactions(indexes)
        while True:
            segment = self._segments[slot]
            trusted_end = indexes.log_bytes
            if is_damaged:
                self._keep_damaged(segment, indexes)
            else:
                problem = self._walk_suspect(slot, indexes) or self._gap_before(slot + 1, indexes)
                if problem is not None:
                    return indexes.end_offset, self._cut(slot, indexes, trusted_end, problem)
            self._restore_transactions(indexes)
            self._rewrite(segment, trusted_end, segment.size_bytes)
            if slot + 1 == len(self._segments):
                break
            self._close(slot, indexes, is_damaged=is_damaged)
            slot, is_damaged = slot + 1, False
            self._maybe_write_snapshot(self._segments[slot])
            indexes = self._new_indexes(self._segments[slot].base_offset)
        if is_damaged:
            return indexes.end_offset, self._resume_after(segment, indexes)
        segment.activate(indexes)
        self._write_seal(segment, indexes.end_offset)
        return indexes.end_offset, indexes.end_offset

    def _restore_producers(self, slot: int, indexes: SegmentIndexes) -> None:
        """The producers' state where ``indexes``, of the segment at ``slot``, end."""
        partition, end = self._name.partition, indexes.end
        offsets = (self._segments[0].base_offset, end.offset_min)
        state = read_newest_snapshot(self._disk, self._directory, offsets, self._topic_id, partition)
        if state is None and self._stored:
            known = (self._segments[0], self._open_at_local_start, self._name, self._topic_id)
            state = producers_without_snapshot(self._disk, *known)
        elif state is None:
            state = ProducerState((), min(self._last_known.log_start_offset, end.offset_min))
        self._producers = state
        start = self._producers.end_offset
        reached = [each for each, segment in enumerate(self._segments[: slot + 1]) if segment.base_offset <= start]
        for segment in self._segments[reached[-1] if reached else 0 : slot]:
            self._walk_again(segment, segment.indexes(), start, segment.size_bytes)
            if self._damaged_from is not None:
                self._producers.restore_transactions(segment.indexes().open_transactions)
        self._walk_again(self._segments[slot], indexes, start, end.file_position)

    def _walk_again(self, segment: Segment, indexes: SegmentIndexes, start: int, end: int) -> None:
        """Take the producers of what lies from the offset ``start`` to the file position ``end``."""
        first = indexes.offsets.lookup(start)
        file_position = first.file_position
        for place in segment.walk_proving(first, end):
            self._note_gap(place, file_position)
            file_position = place.file_position + place.header.size_bytes
            if place.header.last_offset >= start:
                self._producers.replay(place.header, place.marker)
        if file_position < end and self._damaged_from is None:
            self._damaged_from = self._producers.end_offset

    def _note_gap(self, place: BatchPlace, file_position: int) -> None:
        """Remember where the first damage begins."""
        if place.file_position != file_position and self._damaged_from is None:
            self._damaged_from = self._producers.end_offset

    def _restore_transactions(self, indexes: SegmentIndexes) -> None:
        """Where damage was passed: set the transactions to their state at the seal's end."""
        if self._sealed is None or self._damaged_from is None:
            return
        (segment, seal), self._sealed = self._sealed, None
        if seal.end_offset > max(self._recovery_point, indexes.end_offset):
            return
        if indexes.restore_transactions(self._disk, self._directory, seal, segment.file()):
            self._producers.restore_transactions(indexes.open_transactions)
            self._are_known = True

    def _report_doubtful(self) -> None:
        """Name the transactions whose markers may be in damage: they hold the last stable offset."""
        if self._damaged_from is None or self._are_known:
            return
        for producer_id, first_offset in self._producers.open_transactions.entries():
            if first_offset < self._damaged_from:
                _LOG.error(
                    "%s: the transaction of producer %d from offset %d has no marker left, perhaps because of the "
                    "damage at offset %d; it holds the last stable offset. If its coordinator does not end it, end it "
                    "with kafka-transactions.sh abort",
                    self._name,
                    producer_id,
                    first_offset,
                    self._damaged_from,
                )

    def _walk_trusted(self, segment: Segment, indexes: SegmentIndexes) -> bool:
        """Index the batches before the recovery point; whether any of them is damaged or missing."""
        is_damaged = False
        places = segment.walk_proving(indexes.end)
        while indexes.end_offset < self._recovery_point:
            place = next(places, None)
            if place is None:
                self._damaged_from = self._damaged_from or indexes.end_offset
                return True
            is_damaged = is_damaged or place.file_position != indexes.log_bytes
            if place.header.base_offset >= self._recovery_point:
                return is_damaged
            self._take(place, indexes)
        return is_damaged

    def _take(self, place: BatchPlace, indexes: SegmentIndexes) -> None:
        """The next batch of what is kept."""
        self._note_gap(place, indexes.log_bytes)
        if self._sealed is not None and place.header.base_offset >= self._sealed[1].end_offset:
            self._restore_transactions(indexes)
        indexes.add(place.header, place.file_position, place.marker)
        self._producers.replay(place.header, place.marker)

    def _keep_damaged(self, segment: Segment, indexes: SegmentIndexes) -> None:
        """Index what is whole in a segment with damage before the recovery point, and leave every byte of it."""
        for place in segment.walk_proving(indexes.end):
            self._take(place, indexes)
        _LOG.error(
            "%s: %s is damaged before the recovery point %d; what cannot be read is answered with CORRUPT_MESSAGE, "
            "nothing is deleted",
            self._name,
            segment.path(LOG).name,
            self._recovery_point,
        )

    def _walk_suspect(self, slot: int, indexes: SegmentIndexes) -> str | None:
        """Prove and index the batches past the recovery point. Returns the error of the first that is not whole.

        Where the segment reaches the next one's beginning, it ends, whatever bytes follow: they are of a write that
        failed and was taken back, even if they are whole batches. They are truncated before a later segment is synced,
        also if the file does not show them now: a power cut could bring them back in front of that segment's records.
        """
        segment, later = self._segments[slot], self._segments[slot + 1 : slot + 2]
        next_offset = later[0].base_offset if later and later[0].size_bytes else None
        problem = None
        try:
            for file_position, header in walk_verified(segment.file(), indexes.end, segment.size_bytes):
                if indexes.end_offset == next_offset:
                    break
                self._take(BatchPlace(file_position, header, segment.marker_at(file_position, header)), indexes)
                segment.mark_proven(file_position, indexes.log_bytes)
        except CorruptBatchError as error:
            problem = str(error)
        if indexes.end_offset == next_offset:
            self._truncate(segment, indexes.log_bytes)
            return None
        return problem

    def _gap_before(self, slot: int, indexes: SegmentIndexes) -> str | None:
        """Past the recovery point no offset is missing between segments, unless its batch was lost."""
        if slot < len(self._segments) and self._segments[slot].base_offset != indexes.end_offset:
            return f"offsets from {indexes.end_offset} to {self._segments[slot].base_offset} are missing"
        return None

    def _settle_end(self, slot: int) -> None:
        """The same for a segment that ends at the recovery point, where the next one begins: all else is trusted."""
        segment, end_offset = self._segments[slot], self._segments[slot + 1].base_offset
        if end_offset != self._recovery_point:
            return
        end = segment.read_indexes().offsets.lookup(end_offset - 1)
        with suppress(CorruptBatchError):
            for file_position, header in walk_verified(segment.file(), end, segment.size_bytes):
                if header.base_offset >= end_offset:
                    break
                end = Start(file_position + header.size_bytes, header.next_offset)
        self._truncate(segment, end.file_position if end.offset_min == end_offset else segment.size_bytes)

    def _close(self, slot: int, indexes: SegmentIndexes, *, is_damaged: bool) -> None:
        """Finish a segment that others follow. One that lost records says so in its seal, as the last one does."""
        segment, next_offset = self._segments[slot], self._segments[slot + 1].base_offset
        segment.adopt_indexes(indexes, lost_until=next_offset if is_damaged else 0)
        self._write_seal(segment, next_offset, last=True, sync=is_damaged)

    def _cut(self, slot: int, indexes: SegmentIndexes, trusted_end: int, problem: str) -> int:
        """Cut the log at the end of ``indexes``, in the segment at ``slot``; the offset at which it goes on.

        The place where it goes on is durable before anything is taken away: a crash in between is recovered alike.
        """
        segment, later = self._segments[slot], self._segments[slot + 1 :]
        cut_bytes = segment.file().size_bytes() - indexes.log_bytes
        proven_end = proven_end_after(segment, indexes.log_bytes, indexes.end_offset, later)
        resume = max(indexes.end_offset, proven_end or 0, *(each.base_offset for each in later), 0)
        _LOG.warning(
            "%s: cut at offset %d, %d bytes of %s and %d segments after it: %s; %s",
            self._name,
            indexes.end_offset,
            cut_bytes,
            segment.path(LOG).name,
            len(later),
            problem,
            "a torn tail" if proven_end is None else f"whole record batches up to {proven_end} are kept in .cut files",
        )
        self._rewrite(segment, trusted_end, indexes.log_bytes)
        self._forget_remote(segment, *later)
        del self._segments[slot + 1 :]
        if resume > indexes.end_offset:
            self._cut_from = indexes.end_offset
            self._resume_in_new_segment(segment, indexes, later, resume, keep=proven_end is not None)
        else:
            self._truncate(segment, indexes.log_bytes)
            for each in later:
                each.remove()
            segment.activate(indexes)
            self._write_seal(segment, resume)
        return resume

    def _resume_in_new_segment(
        self, segment: Segment, indexes: SegmentIndexes, later: Sequence[Segment], resume: int, *, keep: bool
    ) -> None:
        """Cut ``segment``, set the ``later`` ones aside, and go on in a new one at ``resume``.

        The new one's name is durable first: should power fail in between, it tells the next recovery where to go on.
        """
        usable = later[-1] if later and later[-1].base_offset == resume and later[-1].size_bytes == 0 else None
        new = usable or self._new_segment(resume)
        self._forget_indexes_of(new)
        if keep and indexes.log_bytes < segment.size_bytes:
            keep_tail(self._disk, segment, indexes.log_bytes)
            self._cut_files += 1
        self._truncate(segment, indexes.log_bytes)
        for each in later:
            if each is usable:
                continue
            if keep and each.base_offset != resume and each.size_bytes:
                keep_whole(self._disk, each)
                self._cut_files += 1
            elif each.base_offset != resume:
                each.remove()
        self._disk.sync_directory(self._directory)
        segment.adopt_indexes(indexes)
        self._write_seal(segment, resume, last=True, sync=True)
        self._append_segment(new)
        self._maybe_write_snapshot(new)
        new.activate(self._new_indexes(resume))

    def _forget_remote(self, *segments: Segment) -> None:
        """The log goes on with other bytes than the backup has of them. Durable before their files change."""
        found = [path for path in (segment.path(REMOTE) for segment in segments) if self._disk.exists(path)]
        for path in found:
            self._disk.remove(path)
        if found:
            self._disk.sync_directory(self._directory)

    def _truncate(self, segment: Segment, size_bytes: int) -> None:
        segment.resize(size_bytes)
        segment.file().truncate(size_bytes)
        segment.file().sync()

    def _resume_after(self, segment: Segment, indexes: SegmentIndexes) -> int:
        """Begin a new segment after a damaged last one, whose seal says from now on what is missing."""
        resume = max(indexes.end_offset, self._recovery_point)
        new = self._new_segment(resume)
        self._forget_indexes_of(new)
        segment.adopt_indexes(indexes, lost_until=self._recovery_point)
        self._write_seal(segment, resume, last=True, sync=True)
        self._append_segment(new)
        self._maybe_write_snapshot(new)
        return resume

    def _maybe_write_snapshot(self, segment: Segment) -> None:
        """Write the producers of where a segment of a tiered topic begins: all before it was walked."""
        if self._has_remote:
            write_base_snapshot(self._disk, segment, self._producers, self._name, self._topic_id)

    def _append_segment(self, new: Segment) -> None:
        new.previous = self._segments[-1]
        self._segments.append(new)

    def _new_indexes(self, base_offset: int) -> SegmentIndexes:
        """Those of a segment that begins where the producers' state is now."""
        return SegmentIndexes(base_offset, self._interval_bytes, self._producers.open_transactions)

    def _forget_indexes_of(self, segment: Segment) -> None:
        """Remove the index files of an empty segment durably: they are of an earlier segment of that name."""
        for suffix in SIDECAR_SUFFIXES:
            self._disk.remove(segment.path(suffix))
        self._disk.sync_directory(self._directory)

    def _write_seal(self, segment: Segment, durable_offset: int, *, last: bool = False, sync: bool = False) -> None:
        """Write the index files and the seal, if there is news; durably where the next recovery relies on it.

        That is where ``sync`` says so, and where the old seal claims more than there is: it must not come back.
        """
        old = read_seal(self._disk, self._directory, segment.base_offset)
        claims_more = old is not None and old.log_bytes > segment.size_bytes
        if last or old is None or old.log_bytes != segment.size_bytes:
            segment.write_indexes(durable_offset, last=last, sync=sync or claims_more)

    def _rewrite(self, segment: Segment, start: int, end: int) -> None:
        """Write [start, end) again as it is, and sync it (step 4)."""
        if start >= end:
            return
        file: DiskFile = segment.file()
        for file_position in range(start, end, _REWRITE_CHUNK_BYTES):
            chunk = file.read(file_position, min(_REWRITE_CHUNK_BYTES, end - file_position))
            file.write(file_position, [chunk])
        file.sync()
        self._sync_names()

    def _sync_names(self) -> None:
        """Make the segments' names durable, and the partition's, before a seal says that their records are.

        What a process made before it was killed, another finds, but not after a power cut. Where nothing was kept past
        the recovery point, the next flush does it.
        """
        if not self._names_are_durable:
            if self._disk.exists(self._directory / PARTITION_METADATA):
                sync_file(self._disk, self._directory / PARTITION_METADATA)
            self._disk.sync_directory(self._directory)
            self._disk.sync_directory(self._directory.parent)
            self._names_are_durable = True

    # Step 5

    def _rebuild_leader_epochs(self, kept_end: int, log_start: int) -> LeaderEpochs:
        """The epochs of what is kept, and their file with them.

        Where the log is cut and goes on later, an epoch without batches begins: the epochs before it end there, and who
        knows records of the offsets in between, as the key index does, forgets them.
        """
        epoch_max = self._last_known.leader_epoch_max
        path = self._directory / LEADER_EPOCH_CHECKPOINT
        entries = decode_leader_epochs(read_file(self._disk, path))
        local_start = self._segments[0].base_offset if self._stored else 0
        epochs = rebuild_epochs(entries, self._segments, (log_start, local_start, kept_end), epoch_max)
        if self._cut_from is not None:
            epochs.assign((epochs.latest if epoch_max == _EPOCH_MAX else epoch_max) + 1, self._cut_from)
        if epochs.entries != tuple(entries or ()):
            sync = self._cut_files > 0 or bool(self._stored)
            replace_file(self._disk, path, encode_leader_epochs(epochs.entries), sync=sync)
        epochs.truncate_start(log_start)
        return epochs
