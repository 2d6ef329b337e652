"""Finding records by time: exactly, to the record, not to the batch. Functions over a partition's segments.

The time index leads to the first batch that can hold the record; only that batch is decoded. That may be long, so
``begin_search`` leaves it to the caller, who may do it in a thread. Raises CorruptBatchError
when the place of the answer is damaged: they give no wrong answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mainstem.errors import CorruptBatchError
from mainstem.log.segments.log_segments import LogPlace
from mainstem.log.segments.segment import BatchPlace, Segment
from mainstem.record.compress import decompress
from mainstem.record.constants import (
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    Buffer,
    Compression,
)
from mainstem.record.header import BatchHeader, read_header
from mainstem.record.reader import read_varint

_QUICK_RECORDS: Final = 100


class TimestampOffset(NamedTuple):
    """A record by its offset, with its timestamp and the leader epoch that wrote it."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class UnreadBatch(NamedTuple):
    """A proven batch that may hold the record; its records are not read yet. ``search`` may run in any thread."""

    header: BatchHeader
    data: memoryview
    timestamp_ms: int
    start_offset: int

    @property
    def next_offset(self) -> int:
        """Where to search on when this batch does not hold the record."""
        return self.header.next_offset

    def search(self) -> TimestampOffset | None:
        """The first record from the start offset on with at least this timestamp. Raises CorruptBatchError."""
        for offset, record_timestamp_ms in _record_timestamps(self.header, self.data):
            if record_timestamp_ms >= self.timestamp_ms and offset >= self.start_offset:
                return TimestampOffset(offset, record_timestamp_ms, self.header.leader_epoch)
        return None

    def is_quick(self) -> bool:
        """Whether ``search`` is short: there are few records, or the first one is the answer."""
        header = self.header
        if header.record_count <= _QUICK_RECORDS and header.compression is Compression.NONE:
            return True
        first = _first_record(header)
        return first is not None and first[0] >= self.start_offset and first[1] >= self.timestamp_ms


def begin_search(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, end_offset: int
) -> TimestampOffset | UnreadBatch | None:
    """The first record in [start, end) with at least this timestamp, or the batch to read for it if that is long."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            return None
        if not segment.may_have_timestamp(timestamp_ms):
            continue
        for place in segment.locate_timestamp(timestamp_ms):
            if place.header.base_offset >= end_offset:
                return None
            if place.header.last_offset < start_offset:
                continue
            batch = _unread(segment, place, timestamp_ms, start_offset)
            if not batch.is_quick():
                return batch
            found = batch.search()
            if found is not None:
                return found
    return None


def search_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, end_offset: int
) -> TimestampOffset | None:
    """The first record in [start, end) with at least this timestamp."""
    found = begin_search(segments, timestamp_ms, start_offset, end_offset)
    while isinstance(found, UnreadBatch):
        found = found.search() or begin_search(segments, timestamp_ms, found.next_offset, end_offset)
    return found


def greatest_timestamp(segments: Sequence[Segment], last: LogPlace, start_offset: int) -> UnreadBatch | None:
    """The batch that holds the first record with the greatest timestamp of all before ``last``."""
    best, best_segment, best_offset = NO_TIMESTAMP, None, -1
    for segment in segments:
        end = last.file_position if segment is last.segment else segment.size_bytes
        timestamp_ms, batch_last_offset = segment.greatest_timestamp(end)
        if timestamp_ms > best and batch_last_offset >= start_offset:
            best, best_segment, best_offset = timestamp_ms, segment, batch_last_offset
        if segment is last.segment:
            break
    if best_segment is None:
        return None
    place = best_segment.locate(best_offset)
    return _unread(best_segment, place, best, start_offset) if place is not None else None


def _unread(segment: Segment, place: BatchPlace, timestamp_ms: int, start_offset: int) -> UnreadBatch:
    data = segment.read_batch(place)
    # The header is proven now, which the one that led here need not have been.
    return UnreadBatch(read_header(data), data, timestamp_ms, start_offset)


def _first_record(header: BatchHeader) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record, if the header has them."""
    if header.has_log_append_time or header.has_delete_horizon or not header.is_dense:
        return None
    return header.base_offset, header.base_timestamp


def _record_timestamps(header: BatchHeader, batch: memoryview) -> Iterator[tuple[int, int]]:
    """(offset, timestamp) of each record, without decoding the rest of it. Raises CorruptBatchError."""
    first = _first_record(header)
    if first is not None:
        yield first  # often all that is asked for
    data: Buffer = batch[HEADER_BYTES : header.size_bytes]
    if header.compression is not Compression.NONE:
        data = decompress(header.compression, data, limit_bytes=DECOMPRESSED_BYTES_MAX)
    at = 0
    for _ in range(header.record_count):
        length, at = read_varint(data, at)
        timestamp_delta, delta_end = read_varint(data, at + 1)
        offset_delta, _ = read_varint(data, delta_end)
        at += length
        if length < RECORD_BYTES_MIN - 1 or at > len(data):
            raise CorruptBatchError(f"record batch at offset {header.base_offset}: a record of {length} bytes")
        timestamp_ms = header.max_timestamp if header.has_log_append_time else header.base_timestamp + timestamp_delta
        yield header.base_offset + offset_delta, timestamp_ms
