"""Reading and checking the 61-byte header of a record batch, without touching its records.

Contract: ``read_header`` believes nothing but that the header's bytes are there; ``verify`` proves the whole batch by
its lengths, counts and CRC32C. Both raise CorruptBatchError, whose text names the file position. Pure functions over
the caller's buffer: nothing is copied, kept or written; safe from any thread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from mainstem.errors import CorruptBatchError
from mainstem.record.checksum import crc32c
from mainstem.record.constants import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_MIN,
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_COVERS_FROM,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    INT32_MAX,
    INT64_MAX,
    LENGTH_PREFIX,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_PRODUCER_ID,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_BIT,
    Buffer,
    Compression,
)

HEADER = struct.Struct(">qiibIhiqqqhii")
_STAMP = struct.Struct(">qii")
_new_tuple = tuple.__new__
assert HEADER.size == HEADER_BYTES
assert ATTRIBUTES_AT == CRC_COVERS_FROM


class BatchHeader(NamedTuple):
    """The header's fields, in the order of their bytes, under Kafka's names."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, length prefix included."""
        return LENGTH_PREFIX + self.batch_length

    @property
    def last_offset(self) -> int:
        """The offset of the last record that the batch was written with (compaction may have taken it)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """Raises CorruptBatchError for a codec id that does not exist."""
        codec = self.attributes & COMPRESSION_MASK
        if codec > Compression.ZSTD:
            raise CorruptBatchError(f"record batch at offset {self.base_offset}: unknown compression codec {codec}")
        return Compression(codec)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether its records are transaction markers and not data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_log_append_time(self) -> bool:
        """Whether every record's timestamp is ``max_timestamp``, set by the broker."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether ``base_timestamp`` is the time after which compaction may drop the batch's tombstones."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def has_producer(self) -> bool:
        """Whether an idempotent or transactional producer wrote it."""
        return self.producer_id != NO_PRODUCER_ID

    @property
    def is_dense(self) -> bool:
        """Whether it holds a record for each of its offsets, as every batch does that no compaction has seen."""
        return self.record_count == self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, which wraps at 2**31; -1 when there is none."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & INT32_MAX


def read_header(buffer: Buffer, file_position: int = 0) -> BatchHeader:
    """Read the header that starts at ``file_position``; the records after it need not be there.

    Raises CorruptBatchError when fewer than 61 bytes are left, when the magic is not 2, or when the length is one that
    no batch can have.
    """
    if file_position < 0 or len(buffer) - file_position < HEADER_BYTES:
        raise CorruptBatchError(f"record batch at file position {file_position}: its header is cut off")
    header = _new_tuple(BatchHeader, HEADER.unpack_from(buffer, file_position))  # as ``_make`` does, in half the time
    if header.magic != MAGIC:
        raise CorruptBatchError(f"record batch at file position {file_position}: {other_magic(header.magic)}")
    if header.batch_length < BATCH_LENGTH_MIN:
        raise CorruptBatchError(f"record batch at file position {file_position}: length {header.batch_length}")
    return header


def other_magic(magic: int) -> str:
    """The error text for a batch of another format."""
    if 0 <= magic < MAGIC:
        return f"magic {magic}, the format of Kafka before 0.11; only {MAGIC} is read: copy the topic to rewrite it"
    return f"magic {magic}, only {MAGIC} is supported"


def verify(buffer: Buffer, file_position: int, header: BatchHeader) -> None:
    """Prove the batch at ``file_position``, whose header was read from there.

    Checks that all of it is there, its magic, codec, offsets and counts, and its CRC32C. The records are not parsed:
    the checksum says that they are as they were written, not that their writer wrote sense.
    Raises CorruptBatchError.
    """
    problem = _inconsistency(header)
    end = file_position + header.size_bytes
    if problem is None and len(buffer) < end:
        problem = f"{header.size_bytes} bytes long, but only {len(buffer) - file_position} are there"
    if problem is None and batch_crc(buffer, file_position, header) != header.crc:
        problem = "its checksum does not match"
    if problem is not None:
        raise CorruptBatchError(
            f"record batch at file position {file_position}, offset {header.base_offset}: {problem}"
        )


def _inconsistency(header: BatchHeader) -> str | None:
    """The contradiction in the header, or None. Compaction leaves fewer records than offsets, or none; never more."""
    if header.magic != MAGIC:
        return other_magic(header.magic)
    if header.batch_length < BATCH_LENGTH_MIN:
        return f"length {header.batch_length}"
    if header.last_offset_delta < 0 or header.base_offset < 0 or header.last_offset >= INT64_MAX:
        return f"offsets {header.base_offset} + {header.last_offset_delta}"
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        return f"{header.record_count} records for {header.last_offset_delta + 1} offsets"
    codec = header.attributes & COMPRESSION_MASK
    if codec > Compression.ZSTD:
        return f"unknown compression codec {codec}"
    if codec == Compression.NONE and header.record_count * RECORD_BYTES_MIN > header.size_bytes - HEADER_BYTES:
        return f"{header.record_count} records in {header.size_bytes - HEADER_BYTES} bytes"
    return None


def batch_crc(buffer: Buffer, file_position: int, header: BatchHeader) -> int:
    """The CRC32C of what the checksum covers: from ``attributes`` to the end of the batch."""
    covered = memoryview(buffer)[file_position + CRC_COVERS_FROM : file_position + header.size_bytes]
    return int(crc32c(covered))


def iter_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (file position, header) of each whole batch; stop before an incomplete one at the end.

    Reads headers only (``verify`` proves a batch). Raises CorruptBatchError at the first header that cannot be one.
    """
    file_position, size = 0, len(buffer)
    while size - file_position >= HEADER_BYTES:
        header = read_header(buffer, file_position)
        if size - file_position < header.size_bytes:
            return
        yield file_position, header
        file_position += header.size_bytes


def stamped_header(sent: BatchHeader, base_offset: int, leader_epoch: int) -> BatchHeader:
    """The header as the log stores it: with the batch's offset and the leader's epoch."""
    return _new_tuple(BatchHeader, (base_offset, sent[1], leader_epoch, *sent[3:]))


def stamped_prefix(base_offset: int, batch_length: int, leader_epoch: int) -> bytes:
    """The 16 bytes outside the checksum, so that a broker writes ``[prefix, batch[16:]]`` without copying the batch."""
    return _STAMP.pack(base_offset, batch_length, leader_epoch)
