"""The headers and checksums of what a producer sends, checked before any of it is written. No I/O.

Every batch is checked as a whole; a batch that the topic does not accept is refused, with the error that names the
reason. The order of the checks, and the error of each, are Apache Kafka's. ``append_validation`` checks the records
then.

Deliberate: Kafka answers a codec that does not exist with UNKNOWN_SERVER_ERROR; here it is INVALID_RECORD. A batch with
a delete horizon, or of a producer without an epoch, is refused; Kafka takes it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from mainstem.errors import (
    CorruptBatchError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordListTooLargeError,
    RecordTooLargeError,
)
from mainstem.log.files.disk import Buffer
from mainstem.log.partition.config import LogConfig
from mainstem.record.checksum import crc32c
from mainstem.record.constants import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_AT,
    CRC_COVERS_FROM,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    RECORD_BYTES_MIN,
    STAMPED_BYTES,
    TRANSACTIONAL_BIT,
    Compression,
)
from mainstem.record.header import HEADER, BatchHeader, read_header, stamped_header, stamped_prefix
from mainstem.record.writer import rebuild_batch

_UINT32 = struct.Struct(">I")
_NOT_FROM_PRODUCERS: Final = CONTROL_BIT | DELETE_HORIZON_BIT | LOG_APPEND_TIME_BIT


_NAMED_RECORDS_MAX: Final = 1000


def check_batches(data: memoryview, config: LogConfig, *, needs_sequence: bool = True) -> list[tuple[int, BatchHeader]]:
    """The (file position, header) of each batch in ``data``, whose headers are fit to be appended.

    With ``needs_sequence`` a producer's batch has one; a coordinator's, in a producer's name, has none.

    Raises CorruptBatchError, RecordTooLargeError, InvalidRecordError, InvalidTimestampError.
    """
    batches: list[tuple[int, BatchHeader]] = []
    at, end = 0, len(data)
    while at < end:
        header = read_header(data, at)
        size = header.size_bytes
        if size > config.max_message_bytes:
            raise RecordTooLargeError(
                f"a record batch of {size} bytes is over max.message.bytes={config.max_message_bytes}"
            )
        if size > end - at:
            raise CorruptBatchError(f"a record batch of {size} bytes, but only {end - at} are there")
        if crc32c(data[at + CRC_COVERS_FROM : at + size]) != header.crc:
            raise CorruptBatchError("the record batch's checksum does not match")
        _check_batch(header, size)
        if needs_sequence and header.producer_id >= 0 and header.base_sequence < 0:
            raise InvalidRecordError(f"producer {header.producer_id} without a sequence")
        batches.append((at, header))
        at += size
    if not batches:
        raise InvalidRecordError("no record batch to append")
    if end > config.segment_bytes:
        raise RecordListTooLargeError(
            f"{end} bytes in one append, but a segment holds segment.bytes={config.segment_bytes}"
        )
    return batches


def _check_batch(header: BatchHeader, size: int) -> None:
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise InvalidRecordError(
            f"{header.record_count} records for {header.last_offset_delta + 1} offsets: a producer sends one for each"
        )
    codec = header.attributes & COMPRESSION_MASK
    if codec > Compression.ZSTD:
        raise InvalidRecordError(f"unknown compression codec {codec}")
    if codec == Compression.NONE and header.record_count * RECORD_BYTES_MIN > size - HEADER_BYTES:
        raise InvalidRecordError(f"{header.record_count} records in {size - HEADER_BYTES} bytes")
    if header.attributes & _NOT_FROM_PRODUCERS:
        _refuse_attributes(header)
    if header.producer_id >= 0 and header.producer_epoch < 0:
        raise InvalidRecordError(f"producer {header.producer_id} without an epoch")
    if header.producer_id < 0 and header.attributes & TRANSACTIONAL_BIT:
        raise InvalidRecordError("a transactional batch without a producer id")


def _refuse_attributes(header: BatchHeader) -> None:
    if header.attributes & CONTROL_BIT:
        raise InvalidRecordError("control records are the log's to write, not the producer's")
    if header.attributes & DELETE_HORIZON_BIT:
        raise InvalidRecordError("a delete horizon is compaction's to set, not the producer's")
    text = "timestamp type LogAppendTime is the log's to set, not the producer's"
    named = range(min(header.record_count, _NAMED_RECORDS_MAX))
    raise InvalidTimestampError(text, records=dict.fromkeys(named, text))


def stamp_batches(
    data: memoryview,
    batches: Sequence[tuple[int, BatchHeader]],
    base_offset: int,
    leader_epoch: int,
    log_append_time_ms: int | None,
) -> tuple[list[BatchHeader], list[Buffer]]:
    """Give the batches their offsets and epoch: their final headers, and the buffers to write, records uncopied."""
    headers: list[BatchHeader] = []
    buffers: list[Buffer] = []
    for at, sent in batches:
        header = stamped_header(sent, base_offset, leader_epoch)
        end = at + header.size_bytes
        if log_append_time_ms is None:
            buffers.append(stamped_prefix(base_offset, header.batch_length, leader_epoch))
            buffers.append(data[at + STAMPED_BYTES : end])
        else:
            records = data[at + HEADER_BYTES : end]
            header, packed = with_log_append_time(header, records, log_append_time_ms)
            buffers += (packed, records)
        headers.append(header)
        base_offset = header.next_offset
    return headers, buffers


def empty_batch(header: BatchHeader, timestamp_ms: int) -> bytes:
    """A batch without records, which takes the offsets and the sequence numbers that ``header`` asks for."""
    return rebuild_batch(header._replace(base_timestamp=timestamp_ms, max_timestamp=timestamp_ms), ())


def with_log_append_time(header: BatchHeader, records: memoryview, now_ms: int) -> tuple[BatchHeader, bytes]:
    """The header with the log's timestamp for all records, and its bytes with the checksum that this needs."""
    header = header._replace(attributes=header.attributes | LOG_APPEND_TIME_BIT, max_timestamp=now_ms)
    packed = bytearray(HEADER.pack(*header))
    crc = crc32c(records, crc32c(memoryview(packed)[ATTRIBUTES_AT:]))
    _UINT32.pack_into(packed, CRC_AT, crc)
    return header._replace(crc=crc), bytes(packed)
