"""Walking the record batches of a ``.log`` file, from one batch start to the next.

``walk_headers`` reads headers only; ``walk_verified`` proves every byte. Both yield (file position, header). They stop
with CorruptBatchError at the first place that holds no whole batch, or another batch than the expected next one. The
checksum does not cover base offset and length; so each batch must begin at the offset where the batch before it ends.
The walk stopped at the end of the last batch that it yielded. Stateless; the owner of the file calls them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeAlias

from mainstem.errors import CorruptBatchError
from mainstem.log.files.disk import ReadableFile
from mainstem.record.constants import (
    BATCH_LENGTH_AT,
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    LENGTH_PREFIX,
    MAGIC,
    MAGIC_AT,
)
from mainstem.record.header import BatchHeader, read_header, verify

_HEADER_CHUNK_BYTES = 16 * 1024
_VERIFY_CHUNK_BYTES = 1024 * 1024
_MAGIC_BYTE = b"\x02"
_OFFSETS_AHEAD_MAX = 2**32
_STEP_CHUNK_BYTES = 8 * 1024
_STEP = struct.Struct(">qi4xb6xi")  # base offset, batch length, magic, last offset delta

Search: TypeAlias = Callable[[int, int, int], tuple[int, BatchHeader] | None]
"""From a file position, an end and an offset to the batch that ``find_valid_batch`` finds."""


class Start(NamedTuple):
    """A batch start, and what is known of the batch there: the offset that it begins with, or ends with."""

    file_position: int
    base_offset: int | None
    last_offset: int | None = None

    def fits(self, header: BatchHeader) -> bool:
        """Whether ``header`` is of that batch."""
        if self.base_offset is not None:
            return header.base_offset == self.base_offset
        return header.last_offset == self.last_offset

    @property
    def offset_min(self) -> int:
        """No batch from here on has a lower base offset than this, short of its own length."""
        return self.base_offset if self.base_offset is not None else (self.last_offset or 0)


def walk_headers(
    file: ReadableFile, start: Start, end: int, *, prove: bool = False
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield each batch from ``start`` on that ends by ``end``; with ``prove`` each is proven by its checksum first.

    Reads a chunk at a time, so that small batches share a read. The records of batches that are larger are skipped,
    unless they are to be proven.
    """
    chunk, chunk_start = b"", start.file_position
    chunk_bytes = _VERIFY_CHUNK_BYTES if prove else _HEADER_CHUNK_BYTES
    while start.file_position < end:
        file_position = start.file_position
        at = file_position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = file.read(file_position, min(chunk_bytes, end - file_position))
            chunk_start, at = file_position, 0
        header = _header_at(chunk, at, start, end)
        if prove:
            if at + header.size_bytes > len(chunk):
                chunk = file.read(file_position, min(max(chunk_bytes, header.size_bytes), end - file_position))
                chunk_start, at = file_position, 0
            verify(chunk, at, header)
        yield file_position, header
        start = Start(file_position + header.size_bytes, header.next_offset)


walk_verified = partial(walk_headers, prove=True)
"""``walk_headers`` that proves each batch."""


def _header_at(chunk: bytes, at: int, start: Start, end: int) -> BatchHeader:
    header = read_header(chunk, at)
    if start.file_position + header.size_bytes > end:
        raise CorruptBatchError(
            f"record batch at file position {start.file_position}: {header.size_bytes} bytes, "
            f"{end - start.file_position} are there"
        )
    if not start.fits(header):
        raise CorruptBatchError(
            f"record batch at file position {start.file_position}: offsets {header.base_offset} to "
            f"{header.last_offset}, where others come next"
        )
    return header


def skip_before(file: ReadableFile, start: Start, end: int, offset: int) -> Start:
    """The first batch from ``start`` on that does not plainly end before ``offset``: a quick walk.

    The caller checks what it was led to, which may be the end, or no batch at all.
    """
    chunk, chunk_start = b"", start.file_position
    file_position, next_offset, last_offset = start.file_position, start.base_offset, start.last_offset
    while file_position + _STEP.size <= end:
        at = file_position - chunk_start
        if at + _STEP.size > len(chunk):
            chunk = file.read(file_position, min(_STEP_CHUNK_BYTES, end - file_position))
            chunk_start, at = file_position, 0
            if len(chunk) < _STEP.size:
                break  # the file ends before it should
        base_offset, batch_length, magic, last_offset_delta = _STEP.unpack_from(chunk, at)
        batch_last_offset = base_offset + last_offset_delta
        if batch_last_offset >= offset or magic != MAGIC or batch_length < BATCH_LENGTH_MIN:
            break
        if base_offset != next_offset if next_offset is not None else batch_last_offset != last_offset:
            break
        file_position += LENGTH_PREFIX + batch_length
        next_offset = batch_last_offset + 1
    return Start(file_position, next_offset, last_offset)


def last_batch_end(file: ReadableFile, start: int, limit: int) -> int:
    """The end of the last batch from ``start`` on that ends by ``limit``, in bytes that are proven."""
    chunk, chunk_start, file_position = b"", start, start
    while file_position + _STEP.size <= limit:
        at = file_position - chunk_start
        if at + _STEP.size > len(chunk):
            length = min(_STEP_CHUNK_BYTES, limit - file_position)
            chunk, chunk_start, at = file.read(file_position, length), file_position, 0
        if len(chunk) < _STEP.size:
            break  # the file ends before it should
        next_position = (
            file_position + LENGTH_PREFIX + int.from_bytes(chunk[at + BATCH_LENGTH_AT : at + LENGTH_PREFIX], "big")
        )
        if next_position > limit:
            break
        file_position = next_position
    return file_position


def walk_past_damage(
    file: ReadableFile, start: Start, end: int, *, prove: bool, search: Search | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """As ``walk_headers`` or, with ``prove``, ``walk_verified``; but after damage it continues at the next valid batch.

    If a batch starts after the end of the one before it, there is damage between the two. ``search`` finds the next
    valid batch, if the owner remembers it: by default ``find_valid_batch``, which may have to read the whole file.
    """
    while start.file_position < end:
        with suppress(CorruptBatchError):  # looked for below; the caller sees the gap
            for at, header in walk_headers(file, start, end, prove=prove):
                yield at, header
                start = Start(at + header.size_bytes, header.next_offset)
            return
        found = (search or partial(find_valid_batch, file))(start.file_position, end, start.offset_min)
        if found is None:
            return
        yield found
        start = Start(found[0] + found[1].size_bytes, found[1].next_offset)


def find_valid_batch(file: ReadableFile, start: int, end: int, first_offset: int) -> tuple[int, BatchHeader] | None:
    """The first whole, verified batch that starts in (start, end) and whose offsets are from ``first_offset`` on.

    Use it after damage, where every byte may be a batch's start. It searches for the magic byte.
    """
    chunk_start = start + 1
    while chunk_start + HEADER_BYTES <= end:
        chunk = file.read(chunk_start, min(_VERIFY_CHUNK_BYTES, end - chunk_start))
        found = _find_in_chunk(file, chunk, chunk_start, end, first_offset)
        if found is not None:
            return found
        chunk_start += max(1, len(chunk) - HEADER_BYTES + 1)
    return None


def _find_in_chunk(
    file: ReadableFile, chunk: bytes, chunk_start: int, end: int, first_offset: int
) -> tuple[int, BatchHeader] | None:
    magic_at = chunk.find(_MAGIC_BYTE, MAGIC_AT)
    while magic_at >= 0:
        at = magic_at - MAGIC_AT
        if at + HEADER_BYTES > len(chunk):
            return None
        base_offset = int.from_bytes(chunk[at : at + 8], "big")
        if first_offset <= base_offset < first_offset + _OFFSETS_AHEAD_MAX:  # else not worth a read of its "records"
            header = _proven(file, chunk, at, chunk_start + at, end)
            if header is not None:
                return chunk_start + at, header
        magic_at = chunk.find(_MAGIC_BYTE, magic_at + 1)
    return None


def _proven(file: ReadableFile, chunk: bytes, at: int, file_position: int, end: int) -> BatchHeader | None:
    """The header of the batch at ``file_position`` if all of it is there and its checksum matches, else None."""
    try:
        header = read_header(chunk, at)
        if file_position + header.size_bytes > end:
            return None
        verify(file.read(file_position, header.size_bytes), 0, header)
    except CorruptBatchError:
        return None
    return header
