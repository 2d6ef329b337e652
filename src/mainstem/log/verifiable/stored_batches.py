"""The record batches of a partition as they are stored, proven one by one, in file order.

``open_spans``, on the owner's thread, opens the segments' files by handles of their own: so a file may be renamed or
removed meanwhile. ``read_batches`` then reads them in any thread, and ``close_spans`` closes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mainstem.errors import CorruptBatchError, StorageError
from mainstem.log.files.disk import Disk, DiskFile
from mainstem.log.files.names import LOG
from mainstem.log.segments.log_segments import LogSegments
from mainstem.record.constants import HEADER_BYTES, INT64_MAX
from mainstem.record.header import BatchHeader, read_header, verify

_CHUNK_BYTES: Final = 1 << 20


class Span(NamedTuple):
    """A range of a segment's file, which begins with a batch."""

    file: DiskFile
    start: int
    end: int


def open_spans(
    disk: Disk, segments: LogSegments, offset: int, end_offset: int, max_bytes: int = INT64_MAX
) -> list[Span]:
    """The files that hold the batches from ``offset`` on, up to ``end_offset`` or about ``max_bytes``.

    Raises StorageError, CorruptBatchError (the place of ``offset`` is damaged).
    """
    place = segments.find(offset)
    spans: list[Span] = []
    try:
        for segment in segments:
            if segment.base_offset < place.segment.base_offset:
                continue
            if segment.base_offset >= end_offset or max_bytes <= 0:
                break
            start = place.file_position if segment is place.segment else 0
            if segment.size_bytes > start:
                spans.append(Span(disk.open(segment.path(LOG)), start, segment.size_bytes))
                max_bytes -= segment.size_bytes - start
    except StorageError:
        close_spans(spans)
        raise
    return spans


def close_spans(spans: Sequence[Span]) -> None:
    """Close the files."""
    for span in spans:
        span.file.close()


def read_batches(spans: Sequence[Span], end_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch that ends before ``end_offset``, proven. Raises CorruptBatchError, StorageError."""
    for span in spans:
        at, data, data_at = span.start, memoryview(b""), span.start
        while at < span.end:
            if len(data) - (at - data_at) < HEADER_BYTES:
                data, data_at = _read(span, at, _CHUNK_BYTES), at
            header = read_header(data, at - data_at)
            if header.size_bytes > span.end - at:
                raise CorruptBatchError(f"a batch at file position {at} of {span.file.path} ends after the file")
            if header.last_offset >= end_offset:
                return
            if len(data) - (at - data_at) < header.size_bytes:
                data, data_at = _read(span, at, max(_CHUNK_BYTES, header.size_bytes)), at
            verify(data, at - data_at, header)
            yield header, data[at - data_at : at - data_at + header.size_bytes]
            at += header.size_bytes


def _read(span: Span, at: int, length: int) -> memoryview:
    return memoryview(span.file.read(at, min(length, span.end - at)))
