"""Compacts segments: of each key only the latest record stays, at its offset. The worker's part, over the Disk port.

The steps of one run, over segments that do not change any more:

1. Walk all batch headers, to find how transactions ended and how many records are new (dirty).
2. Read the new part, and note the latest offset of each key in a bounded map. When the map is full, the run ends there.
3. Read everything up to there, and write new segments with the records that stay, each for as many old segments as fit.
   Each is synced with its index files, under names that end in ``.cleaned``. The owner then swaps it in.

These records stay: the latest record of each key; a tombstone, and a marker whose transaction has no batch left, until
their delete horizon; records after the part that the map covers. The last batch of each active producer stays, if
necessary without records, because the producer's sequence is rebuilt from it. Records of aborted transactions and
records without a key are removed.

Offsets are continuous in the new segments, too: an empty batch of 61 bytes replaces removed batches. So every check of
the log holds for them, and a wrong offset is found at its place.

Damage is CorruptBatchError, and nothing is replaced. Imports numba where it is installed: for worker processes. Owned
by one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, TypeAlias

from mainstem.errors import CorruptBatchError, StorageError
from mainstem.log.cleaning.compaction_job import CLEANED, CleanedSegment, CompactionJob, CompactionResult, SegmentFile
from mainstem.log.cleaning.compaction_output import CleanedOutput
from mainstem.log.cleaning.compaction_transactions import TransactionEnds
from mainstem.log.files.disk import Buffer, Disk
from mainstem.log.files.names import LOG, OFFSET_INDEX, offset_file
from mainstem.log.files.small_files import read_file
from mainstem.log.segments.offset_index import ENTRY_BYTES, RELATIVE_OFFSET_MAX
from mainstem.log.segments.segment_indexes import read_seal
from mainstem.log.segments.transactions import OpenTransactions
from mainstem.record.constants import HEADER_BYTES, ControlType
from mainstem.record.header import BatchHeader, read_header, verify
from mainstem.record.key_offsets.batches import Batch, emptied
from mainstem.record.key_offsets.plain_map import PlainKeyOffsets
from mainstem.record.reader import read_control_type, read_records
from mainstem.record.writer import NewRecord, rebuild_batch

if TYPE_CHECKING:
    from mainstem.record.key_offsets.native_map import NativeKeyOffsets

KeyOffsets: TypeAlias = "NativeKeyOffsets | PlainKeyOffsets"
_READ_BYTES: Final = 4 << 20


def compact(disk: Disk, job: CompactionJob) -> Iterator[CleanedSegment | CompactionResult]:
    """Run a job; each new segment when it is written, and the result at the end.

    Raises CorruptBatchError, StorageError; what was yielded before may be used.
    """
    yield from _Run(disk, job).steps()


def key_offsets(memory_bytes: int, keys_expected: int) -> KeyOffsets:
    """The map of keys in native code where that is installed (the extra ``native``), else in plain Python."""
    try:
        from mainstem.record.key_offsets.native_map import NativeKeyOffsets
    except ModuleNotFoundError as error:
        if error.name not in ("numba", "numpy"):
            raise
        return PlainKeyOffsets(memory_bytes, keys_expected)
    return NativeKeyOffsets(memory_bytes, keys_expected)


class _Run:
    """One run."""

    def __init__(self, disk: Disk, job: CompactionJob) -> None:
        self._disk = disk
        self._job = job
        self._directory = PurePath(job.directory)
        self._ends = TransactionEnds()
        self._dirty_records = 0
        self._records = [0, 0]
        self._bytes = [0, 0]
        self._leader_epoch = 0
        self._open = OpenTransactions()
        self._keys: KeyOffsets = PlainKeyOffsets(0, 0)

    def steps(self) -> Iterator[CleanedSegment | CompactionResult]:
        self._remove_left_over()
        self._look()
        self._map_keys()
        cleaned_offset = (
            min(self._keys.covered + 1, self._job.end_offset) if self._keys.is_full else self._job.end_offset
        )
        if self._keys.is_full and cleaned_offset <= self._job.first_dirty_offset:
            raise StorageError("log.cleaner.dedupe.buffer.size has no room for the keys of one batch")
        touched = [each for each in self._job.segments if each.base_offset < cleaned_offset]
        for group in self._groups(touched):
            cleaned = self._write_group(group)
            if cleaned is not None:
                yield cleaned
        yield CompactionResult(cleaned_offset, *self._bytes, *self._records)

    def _remove_left_over(self) -> None:
        for name in self._disk.list(self._directory):
            if name.endswith(CLEANED):
                self._disk.remove(self._directory / name)

    # Steps 1 and 2

    def _look(self) -> None:
        """Find the ends of all transactions in the range, and count the dirty records.

        Transactions before the last stable offset have ended; but their markers may come after it, up to the high
        watermark.
        """
        job = self._job
        for segment in job.segments:
            for header, data in self._walk(segment, self._end_of(segment)):
                self._note_transaction(header, data)
                if header.next_offset > job.first_dirty_offset:
                    self._dirty_records += header.record_count
        for segment in job.later:
            for header, data in self._walk(segment, None):
                if not self._ends.has_open:
                    return
                if header.is_control or header.base_offset < job.last_stable_offset:
                    self._note_transaction(header, data)

    def _note_transaction(self, header: BatchHeader, data: memoryview) -> None:
        if not header.is_transactional:
            return
        if not header.is_control:
            self._ends.note_batch(header)
            return
        control_type = _control_type(data)
        if control_type is not None:
            self._ends.note_marker(header, control_type)

    def _map_keys(self) -> None:
        job = self._job
        self._keys = key_offsets(job.map_bytes, self._dirty_records)
        for segment in job.segments:
            if self._end_of(segment) <= job.first_dirty_offset:
                continue
            pending: list[Batch] = []
            pending_bytes = 0
            for header, data in self._walk(segment, self._end_of(segment)):
                if header.is_control or self._ends.is_aborted(header) or header.record_count == 0:
                    self._add_keys(pending)
                    pending, pending_bytes = [], 0
                    self._keys.pass_over(header)
                else:
                    pending.append(Batch(header, data))
                    pending_bytes += len(data)
                if pending_bytes >= _READ_BYTES:
                    self._add_keys(pending)
                    pending, pending_bytes = [], 0
                if self._keys.is_full:
                    return
            self._add_keys(pending)
            if self._keys.is_full:
                return

    def _add_keys(self, batches: Sequence[Batch]) -> None:
        if batches and not self._keys.is_full:
            self._keys.add(batches, self._job.first_dirty_offset)

    # Reading

    def _end_of(self, segment: SegmentFile) -> int:
        """Where the next segment begins."""
        bases = [each.base_offset for each in self._job.segments]
        slot = bases.index(segment.base_offset) + 1
        return bases[slot] if slot < len(bases) else self._job.end_offset

    def _walk(self, segment: SegmentFile, end_offset: int | None) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch of a segment, proven. With ``end_offset``, also that the segment has all that it should."""
        path = self._directory / offset_file(segment.base_offset, LOG)
        file = self._disk.open(path)
        try:
            at, next_offset = 0, segment.base_offset
            while at < segment.size_bytes:
                data = memoryview(file.read(at, min(_READ_BYTES, segment.size_bytes - at)))
                size = read_header(data).size_bytes
                if size > len(data):
                    data = memoryview(file.read(at, min(size, segment.size_bytes - at)))
                start = 0
                while start + HEADER_BYTES <= len(data):
                    header = read_header(data, start)
                    if start and start + header.size_bytes > len(data):
                        break
                    verify(data, start, header)
                    if header.base_offset != next_offset:
                        raise CorruptBatchError(
                            f"{path.name} at file position {at + start}: offset {next_offset} is missing"
                        )
                    yield header, data[start : start + header.size_bytes]
                    start, next_offset = start + header.size_bytes, header.next_offset
                at += start
        except CorruptBatchError as error:
            raise CorruptBatchError(f"{path}: {error}") from error
        finally:
            file.close()
        if end_offset is not None:
            self._check_end(segment, next_offset, end_offset)

    def _check_end(self, segment: SegmentFile, next_offset: int, end_offset: int) -> None:
        """Records that were lost from a segment's end must not pass for compacted ones."""
        seal = read_seal(self._disk, self._directory, segment.base_offset)
        if next_offset > end_offset or (seal is not None and seal.log_bytes > segment.size_bytes):
            raise CorruptBatchError(
                f"{offset_file(segment.base_offset, LOG)} ends at offset {next_offset}, not {end_offset}"
            )

    # Step 3

    def _groups(self, segments: Sequence[SegmentFile]) -> Iterator[Sequence[SegmentFile]]:
        """As many segments at a time as fit one."""
        group: list[SegmentFile] = []
        size = index = 0
        for segment in segments:
            segment_index = self._index_bytes(segment)
            if group and (
                size + segment.size_bytes > self._job.segment_bytes
                or index + segment_index > self._job.index_bytes
                or self._end_of(segment) - group[0].base_offset > RELATIVE_OFFSET_MAX
            ):
                yield group
                group, size, index = [], 0, 0
            group.append(segment)
            size, index = size + segment.size_bytes, index + segment_index
        if group:
            yield group

    def _index_bytes(self, segment: SegmentFile) -> int:
        data = read_file(self._disk, self._directory / offset_file(segment.base_offset, OFFSET_INDEX))
        return (
            len(data)
            if data is not None
            else segment.size_bytes // max(1, self._job.index_interval_bytes) * ENTRY_BYTES
        )

    def _write_group(self, group: Sequence[SegmentFile]) -> CleanedSegment | None:
        """The new segment for these; None when it would be what is there."""
        job, end_offset = self._job, self._end_of(group[-1])
        base_offset = group[0].base_offset
        output = CleanedOutput(self._disk, self._directory, base_offset, job.index_interval_bytes, self._open)
        try:
            for segment in group:
                for header, data in self._kept_of(segment):
                    output.write(header, data)
            output.fill_up(end_offset, self._leader_epoch)
            is_same = len(group) == 1 and output.is_verbatim and output.size_bytes == group[0].size_bytes
            if not is_same:
                output.finish(job.durable_offset)
        finally:
            output.close()
        self._bytes[0] += sum(segment.size_bytes for segment in group)
        self._bytes[1] += output.size_bytes
        self._open = output.open_transactions
        if is_same:
            output.remove()
            return None
        return CleanedSegment(base_offset, end_offset, [each.base_offset for each in group], output.size_bytes)

    def _kept_of(self, segment: SegmentFile) -> Iterator[tuple[BatchHeader, Buffer]]:
        """The batches that stay of a segment, as they are to be stored."""
        pending: list[Batch] = []
        pending_bytes = 0
        for header, data in self._walk(segment, self._end_of(segment)):
            self._records[0] += header.record_count
            self._leader_epoch = header.leader_epoch
            if header.is_control or header.record_count == 0 or self._ends.is_aborted(header):
                yield from self._filtered(pending)
                pending, pending_bytes = [], 0
                kept = self._without_keys(header, data)
                if kept is not None:
                    yield kept
                continue
            if header.is_transactional:
                self._ends.saw_batch(header)
            pending.append(Batch(header, data))
            pending_bytes += len(data)
            if pending_bytes >= _READ_BYTES:
                yield from self._filtered(pending)
                pending, pending_bytes = [], 0
        yield from self._filtered(pending)

    def _filtered(self, batches: Sequence[Batch]) -> Iterator[tuple[BatchHeader, Buffer]]:
        if not batches:
            return
        kept = self._keys.filtered(batches, self._job.now_ms, self._job.delete_retention_ms)
        for batch, data in zip(batches, kept, strict=True):
            if data is not None:
                header = read_header(data)
                self._records[1] += header.record_count
                yield header, data
            elif self._is_last_of_producer(batch.header):
                yield _emptied(batch.header)

    def _without_keys(self, header: BatchHeader, data: memoryview) -> tuple[BatchHeader, Buffer] | None:
        """The rest of a batch whose keys do not matter: a marker, an aborted or an empty one. None removes it."""
        is_last = self._is_last_of_producer(header)
        if not header.is_control:
            if header.is_transactional:
                self._ends.saw_batch(header)
            return _emptied(header) if is_last else None
        if header.record_count == 0 or _control_type(data) is None:
            return (header, data) if is_last else None
        if self._ends.is_needed(header):
            self._records[1] += 1
            return header, data
        if header.has_delete_horizon and header.base_timestamp <= self._job.now_ms:
            return _emptied(header) if is_last else None
        self._records[1] += 1
        return (header, data) if header.has_delete_horizon else self._with_horizon(header, data)

    def _with_horizon(self, header: BatchHeader, data: memoryview) -> tuple[BatchHeader, Buffer]:
        """A marker that is not needed any more, with the time from which it may be removed (delete horizon)."""
        horizon_ms = self._job.now_ms + self._job.delete_retention_ms
        rows = [
            (row.offset, NewRecord(row.key, row.value, row.headers, row.timestamp_ms)) for row in read_records(data)
        ]
        changed = rebuild_batch(header, rows, delete_horizon_ms=horizon_ms)
        return read_header(changed), changed

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether the sequence, or the epoch, of an active producer is rebuilt from this batch."""
        last = self._job.producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch


def _control_type(data: memoryview) -> ControlType | None:
    records = read_records(data)
    return read_control_type(records[0]) if records else None


def _emptied(header: BatchHeader) -> tuple[BatchHeader, Buffer]:
    data = emptied(header)
    return read_header(data), data
