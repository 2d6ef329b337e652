"""Batches as compaction reads and stores them: given whole, rebuilt with fewer records, or emptied."""

from __future__ import annotations

from typing import Final, NamedTuple

from mainstem.errors import CorruptBatchError
from mainstem.record.compress import compress, decompress
from mainstem.record.constants import (
    COMPRESSION_MASK,
    DECOMPRESSED_BYTES_MAX,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    INT64_MIN,
    MAGIC,
    RECORD_BYTES_MIN,
    Buffer,
)
from mainstem.record.header import BatchHeader
from mainstem.record.writer import assemble_batch

NO_NEW_BASE_TIME: Final = INT64_MIN


class Batch(NamedTuple):
    """A batch's header and all its bytes."""

    header: BatchHeader
    data: memoryview


class KeptRecords(NamedTuple):
    """The records kept of a batch: how many, how many of them tombstones, and the greatest timestamp."""

    records: int
    tombstones: int
    max_timestamp: int


class KeyCoverage:
    """How far a map of keys has come.

    ``covered`` is the last offset up to which every record is in it, -1 before the first; ``is_full`` ends its filling.
    """

    def __init__(self) -> None:
        self.covered = -1
        self.is_full = False

    def pass_over(self, header: BatchHeader) -> None:
        """A batch whose records need not be in the map: it is covered all the same."""
        self.covered = max(self.covered, header.last_offset)


def plain_records(batch: Batch) -> Buffer:
    """The decompressed records. Raises CorruptBatchError."""
    header = batch.header
    records = batch.data[HEADER_BYTES : header.size_bytes]
    if header.record_count == 0:
        return b""
    plain = decompress(header.compression, records, limit_bytes=DECOMPRESSED_BYTES_MAX)
    if header.record_count > len(plain) // RECORD_BYTES_MIN:
        raise bad_records(header)
    return plain


def horizon(header: BatchHeader, now_ms: int, delete_retention_ms: int) -> tuple[bool, int]:
    """Whether the batch's tombstones go now, and the base timestamp that it gets if one stays."""
    if header.has_delete_horizon:
        return header.base_timestamp <= now_ms, NO_NEW_BASE_TIME
    return False, now_ms + delete_retention_ms


def stored(batch: Batch, kept: KeptRecords, new_base_time: int, payload: Buffer) -> bytes | memoryview | None:
    """The batch as it is to be stored: as it was, with the records of ``payload``, or None where none is left."""
    header = batch.header
    gets_horizon = kept.tombstones > 0 and new_base_time != NO_NEW_BASE_TIME
    if kept.records == 0:
        return None
    if kept.records == header.record_count and not gets_horizon:
        return batch.data
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if gets_horizon:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = new_base_time
    max_timestamp = header.max_timestamp if header.has_log_append_time else kept.max_timestamp
    changed = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=kept.records
    )
    return assemble_batch(changed, compress(header.compression, payload))


def emptied(header: BatchHeader) -> bytes:
    """The batch without its records: offsets, producer and sequence are left, which a producer's state needs."""
    return assemble_batch(header._replace(attributes=header.attributes & ~COMPRESSION_MASK, record_count=0), b"")


def filler(base_offset: int, last_offset: int, leader_epoch: int) -> bytes:
    """A batch that says that nothing is left of these offsets, which lie at most 31 bits apart."""
    header = BatchHeader(base_offset, 0, leader_epoch, MAGIC, 0, 0, last_offset - base_offset, -1, -1, -1, -1, -1, 0)
    return assemble_batch(header, b"")


def bad_records(header: BatchHeader) -> CorruptBatchError:
    """The error for a batch whose records do not add up."""
    return CorruptBatchError(
        f"record batch at offset {header.base_offset}: its checksum matches, but its records do not add up"
    )
