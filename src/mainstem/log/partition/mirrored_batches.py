"""The batches that a mirror appends, cut into runs that one write takes. They keep all that they came with.

A follower of Kafka appends in the same way: offsets, leader epochs, producers, sequences and transaction markers are
those of the source, and only the checksum of each batch is checked. This log's files have no gaps, so a gap of the
source (compaction, deleted records) is filled by a batch that holds no records. Pure functions over the caller's bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mainstem.errors import InvalidRecordError
from mainstem.log.files.disk import Buffer
from mainstem.record.constants import Compression
from mainstem.record.header import BatchHeader, iter_headers, read_header, verify
from mainstem.record.key_offsets.batches import filler
from mainstem.record.reader import EndMarker, read_end_marker

_RUN_BYTES: Final = 1 << 20
_RUN_BATCHES: Final = 1000
_RUN_OFFSETS: Final = 1 << 30
"""So many offsets fit the relative offsets of one segment, wherever in the run the segment begins."""
_GAP_MAX: Final = 1 << 44
_LEADER_EPOCH_MAX: Final = 1 << 30
_PRODUCER_ID_MAX: Final = 1 << 62
"""Greater ones are no log's: this node could not go on after them."""


_STEP_BATCHES: Final = 1000
_STEP_OFFSETS: Final = _RUN_OFFSETS << 4


class CheckedBatch(NamedTuple):
    """A batch whose checksum was proven, and its bytes."""

    header: BatchHeader
    data: memoryview


@dataclass(slots=True)
class MirroredRun:
    """Batches for one write. ``marker`` is what the only batch holds if it is a control batch."""

    headers: list[BatchHeader] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    size: int = 0
    marker: EndMarker | None = None

    def add(self, header: BatchHeader, data: Buffer) -> None:
        """Take the next batch."""
        self.headers.append(header)
        self.buffers.append(data)
        self.size += header.size_bytes

    def has_room_for(self, header: BatchHeader) -> bool:
        """Whether ``header``'s batch may be written together with these."""
        if not self.headers:
            return True
        fits = self.size + header.size_bytes <= _RUN_BYTES and len(self.headers) < _RUN_BATCHES
        return fits and header.last_offset - self.headers[0].base_offset < _RUN_OFFSETS


def check_mirrored(data: memoryview) -> list[CheckedBatch]:
    """All batches of ``data``, each proven. May take as long as the checksums take; in any thread.

    Raises CorruptBatchError, and InvalidRecordError where offsets do not rise, the last batch is cut off, or a control
    batch is one that no log writes: the log reads those later, where it has no time to decompress.
    """
    batches: list[CheckedBatch] = []
    end, next_offset = 0, 0
    for at, header in iter_headers(data):
        verify(data, at, header)
        if header.leader_epoch > _LEADER_EPOCH_MAX or header.producer_id > _PRODUCER_ID_MAX:
            raise InvalidRecordError(
                f"a batch of leader epoch {header.leader_epoch} and producer {header.producer_id}: one is out of range"
            )
        if header.is_control and (header.compression is not Compression.NONE or header.record_count > 1):
            raise InvalidRecordError(
                f"the control batch at offset {header.base_offset} is compressed, or has many records"
            )
        if header.base_offset < next_offset:
            raise InvalidRecordError(f"a batch at offset {header.base_offset} after one that ends at {next_offset}")
        end, next_offset = at + header.size_bytes, header.next_offset
        batches.append(CheckedBatch(header, data[at:end]))
    if end != len(data):
        raise InvalidRecordError(f"{len(data) - end} bytes after the last whole record batch")
    return batches


def mirrored_steps(
    batches: Sequence[CheckedBatch], log_end_offset: int, fill_to: int
) -> Iterator[tuple[list[CheckedBatch], int]]:
    """The work of one request in steps that are short each: batches, and the offset to fill up to after them.

    Raises InvalidRecordError, before the first step, for more offsets than a log can have.
    """
    end = max(fill_to, batches[-1].header.next_offset if batches else 0)
    if end - log_end_offset > _GAP_MAX:
        raise InvalidRecordError(f"{end - log_end_offset} offsets at once, at most {_GAP_MAX}")
    step: list[CheckedBatch] = []
    at, step_from, size = log_end_offset, log_end_offset, 0
    for batch in batches:
        header = batch.header
        is_full = len(step) >= _STEP_BATCHES or size + header.size_bytes > _RUN_BYTES
        if step and (is_full or header.next_offset - step_from > _STEP_OFFSETS):
            yield step, -1
            step, step_from, size = [], at, 0
        for to in range(at + _STEP_OFFSETS, header.base_offset, _STEP_OFFSETS):
            yield [], to
            step_from = to
        step.append(batch)
        at, size = header.next_offset, size + header.size_bytes
    yield step, -1
    for to in range(at + _STEP_OFFSETS, fill_to, _STEP_OFFSETS):
        yield [], to
    if fill_to > at:
        yield [], fill_to


def mirrored_runs(
    batches: list[CheckedBatch], log_end_offset: int, fill_to: int, leader_epoch: int
) -> Iterator[MirroredRun]:
    """The batches as runs, with fillers for the offsets that are missing, from ``log_end_offset`` up to ``fill_to``.

    ``leader_epoch`` is that of the log's last batch, -1 for none. A filler has the epoch of the batch before it, so
    that no epoch seems to end before it did.
    """
    run = MirroredRun()
    for header, data in _without_gaps(batches, log_end_offset, fill_to, leader_epoch):
        if header.is_control or not run.has_room_for(header):
            if run.headers:
                yield run
            run = MirroredRun()
        run.add(header, data)
        if header.is_control:
            run.marker = read_end_marker(data)
            yield run
            run = MirroredRun()
    if run.headers:
        yield run


def _without_gaps(
    batches: list[CheckedBatch], log_end_offset: int, fill_to: int, leader_epoch: int
) -> Iterator[tuple[BatchHeader, Buffer]]:
    next_offset, epoch = log_end_offset, leader_epoch
    for batch in batches:
        before = epoch if epoch >= 0 else max(batch.header.leader_epoch, 0)
        yield from _fillers(next_offset, batch.header.base_offset, before)
        yield batch
        next_offset, epoch = batch.header.next_offset, max(epoch, batch.header.leader_epoch)
    yield from _fillers(next_offset, fill_to, max(epoch, 0))


def _fillers(start: int, end: int, leader_epoch: int) -> Iterator[tuple[BatchHeader, bytes]]:
    for base_offset in range(start, end, _RUN_OFFSETS):
        data = filler(base_offset, min(end, base_offset + _RUN_OFFSETS) - 1, leader_epoch)
        yield read_header(data), data
