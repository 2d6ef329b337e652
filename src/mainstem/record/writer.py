"""Building record batches, record by record, in plain Python. ``arrow_encode`` is the fast way for columns.

Contract: a batch is what Kafka's Java client would build from the same records: dense offset deltas from 0, base
timestamp = the first record's, maximum timestamp = the greatest. Pure functions; safe from any thread.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

from mainstem.errors import InputError
from mainstem.model import Headers
from mainstem.record.checksum import crc32c
from mainstem.record.compress import compress
from mainstem.record.constants import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    INT32_MAX,
    INT64_MAX,
    INT64_MIN,
    LENGTH_PREFIX,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    Buffer,
    Compression,
    ControlType,
)
from mainstem.record.header import HEADER, BatchHeader

_CONTROL_KEY = struct.Struct(">hh")
_END_TRANSACTION_VALUE = struct.Struct(">hi")
_UINT32 = struct.Struct(">I")
_NULL = b"\x01"  # the varint of -1
RECORD_OVERHEAD_MAX = 5 + 1 + 10 + 5 + 5 + 5
"""Of one record beside key, value and headers: its length, attributes, two deltas, the lengths of key and value."""


class NewRecord(NamedTuple):
    """A record to be written. ``timestamp_ms`` -1 means that it has none."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = NO_TIMESTAMP


class ProducerStamp(NamedTuple):
    """The idempotent or transactional producer that a batch is from."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool = False


NO_PRODUCER = ProducerStamp(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    producer: ProducerStamp | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    log_append_time_ms: int | None = None,
) -> bytes:
    """One record batch of ``records``, checksum included.

    Raises InputError when there is no record, or when the batch would not fit the format's 2 GiB.
    """
    rows = list(records)
    if not rows:
        raise InputError("a record batch needs a record")
    header = _header(compression, producer or NO_PRODUCER, len(rows), rows[0].timestamp_ms, rows[0].timestamp_ms)
    header = header._replace(base_offset=base_offset, leader_epoch=leader_epoch)
    if log_append_time_ms is not None:
        attributes = header.attributes | LOG_APPEND_TIME_BIT
        header = header._replace(attributes=attributes, max_timestamp=log_append_time_ms)
    else:
        header = header._replace(max_timestamp=max(row.timestamp_ms for row in rows))
    return _assemble(header, rows, range(len(rows)))


class BatchField(IntEnum):
    """The numbers of a batch that is being built, which native code reads and writes.

    ``SEEN``: how many of its bytes the owner knows of; native code has added the others.
    """

    ADDRESS = 0
    ROOM = 1
    SIZE = 2
    COUNT = 3
    BASE_TIME = 4
    MAX_TIME = 5
    SEEN = 6


_ADDRESS, _ROOM, _SIZE, _COUNT, _BASE_TIME, _MAX_TIME, _SEEN = map(int, BatchField)
_ROOM_MIN = 1 << 16
_AT_START = ctypes.c_char * 0


class BatchBuilder:
    """One record batch, each record encoded when it comes into a buffer, where native code may add records, too.

    Owned by one thread.
    """

    def __init__(self, fields: Any | None = None) -> None:
        """``fields``: an array of ``len(BatchField)`` 64-bit integers."""
        self.fields = fields if fields is not None else (ctypes.c_int64 * len(BatchField))()
        self._buffer = bytearray()

    @property
    def count(self) -> int:
        """How many records there are."""
        count: int = self.fields[_COUNT]
        return count

    @property
    def size_bytes(self) -> int:
        """The size of the batch before it is compressed."""
        size: int = self.fields[_SIZE]
        return HEADER_BYTES + size

    @property
    def room_bytes(self) -> int:
        """How large the batch may get before it needs another buffer."""
        return HEADER_BYTES + len(self._buffer)

    def make_room(self, size_bytes: int) -> None:
        """Take a buffer for a batch of this size before compression, or with 0 give the buffer of an empty one back."""
        fields = self.fields
        buffer = bytearray(max(size_bytes - HEADER_BYTES, 0))
        size = fields[_SIZE]
        buffer[:size] = memoryview(self._buffer)[:size]
        self._buffer = buffer
        fields[_ADDRESS] = ctypes.addressof(_AT_START.from_buffer(buffer)) if buffer else 0
        fields[_ROOM] = len(buffer)

    def add(self, key: bytes | None, value: bytes | None, headers: bytes, timestamp_ms: int) -> None:
        """Add a record. ``headers`` are those of ``encoded_headers``; the timestamps lie within 63 bits."""
        fields = self.fields
        size, count = fields[_SIZE], fields[_COUNT]
        if count == 0:
            fields[_BASE_TIME] = fields[_MAX_TIME] = timestamp_ms
        elif timestamp_ms > fields[_MAX_TIME]:
            fields[_MAX_TIME] = timestamp_ms
        record = _record(key, value, headers, timestamp_ms - fields[_BASE_TIME], count)
        end = size + len(record)
        if end > len(self._buffer):
            self.make_room(HEADER_BYTES + max(_ROOM_MIN, 2 * len(self._buffer), end))
        self._buffer[size:end] = record
        fields[_SIZE] = fields[_SEEN] = end
        fields[_COUNT] = count + 1

    def take_added(self) -> bytes:
        """The records that native code has added since the last call."""
        fields = self.fields
        size = fields[_SIZE]
        added = bytes(memoryview(self._buffer)[fields[_SEEN] : size])
        fields[_SEEN] = size
        return added

    def build(self, *, compression: Compression, producer: ProducerStamp) -> bytes:
        """The batch, checksum included. Raises InputError when it would not fit the format's 2 GiB."""
        _, _, size, count, base_time, max_time, _ = self.fields
        header = _header(compression, producer, count, base_time, max_time)
        return assemble_batch(header, compress(compression, memoryview(self._buffer)[:size]))

    def clear(self) -> None:
        """Begin another batch in the same buffer."""
        self.fields[_SIZE] = self.fields[_COUNT] = self.fields[_SEEN] = 0


def _header(
    compression: Compression, producer: ProducerStamp, count: int, base_timestamp: int, max_timestamp: int
) -> BatchHeader:
    return BatchHeader(
        0,
        0,
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        int(compression) | (TRANSACTIONAL_BIT if producer.is_transactional else 0),
        count - 1,
        base_timestamp,
        max_timestamp,
        producer.producer_id,
        producer.producer_epoch,
        producer.base_sequence,
        count,
    )


def build_control_batch(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """The batch of one transaction marker, which commits or aborts what the producer has open in this partition."""
    marker = NewRecord(
        _CONTROL_KEY.pack(0, control_type), _END_TRANSACTION_VALUE.pack(0, coordinator_epoch), (), timestamp_ms
    )
    header = BatchHeader(
        base_offset,
        0,
        leader_epoch,
        MAGIC,
        0,
        TRANSACTIONAL_BIT | CONTROL_BIT,
        0,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,
    )
    return _assemble(header, [marker], range(1))


def rebuild_batch(
    original: BatchHeader,
    records: Sequence[tuple[int, NewRecord]],
    *,
    compression: Compression | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """The batch ``original`` with only ``records``, as (offset, record), left in it, as compaction writes it.

    Offsets, producer and sequence stay, also when no record is left: they are what the log's continuity and its
    producers' state are rebuilt from. With a delete horizon, that takes the place of the base timestamp.
    """
    attributes = original.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT)
    rows = [record for _, record in records]
    if rows:  # an empty batch holds no bytes to compress
        attributes |= original.compression if compression is None else compression
    base_timestamp = rows[0].timestamp_ms if rows else original.base_timestamp
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = delete_horizon_ms
    max_timestamp = original.max_timestamp
    if rows and not original.has_log_append_time:
        max_timestamp = max(row.timestamp_ms for row in rows)
    header = original._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=len(rows)
    )
    return _assemble(header, rows, [offset - original.base_offset for offset, _ in records])


def assemble_batch(header: BatchHeader, payload: Buffer) -> bytes:
    """Header and (compressed) records as one batch; the length and the checksum are computed here.

    Raises InputError when it would not fit the format's 2 GiB.
    """
    size = HEADER_BYTES + len(payload)
    if size - LENGTH_PREFIX > INT32_MAX:
        raise InputError(f"a record batch of {size} bytes: the format ends at 2 GiB")
    packed = bytearray(HEADER.pack(*header._replace(batch_length=size - LENGTH_PREFIX, crc=0)))
    crc = crc32c(payload, crc32c(memoryview(packed)[ATTRIBUTES_AT:]))
    _UINT32.pack_into(packed, CRC_AT, crc)
    return b"".join((packed, payload))


def _assemble(header: BatchHeader, rows: Sequence[NewRecord], offset_deltas: Iterable[int]) -> bytes:
    base = header.base_timestamp
    if not all(INT64_MIN <= row.timestamp_ms - base <= INT64_MAX for row in rows):
        raise InputError("the timestamps of a record batch differ by more than 63 bits")
    payload = b"".join(
        _record(row.key, row.value, encoded_headers(row.headers), row.timestamp_ms - base, offset_delta)
        for row, offset_delta in zip(rows, offset_deltas, strict=True)
    )
    return assemble_batch(header, compress(header.compression, payload))


def _record(key: bytes | None, value: bytes | None, headers: bytes, timestamp_delta: int, offset_delta: int) -> bytes:
    body = b"".join(
        (
            b"\x00",
            _varint(timestamp_delta),
            _varint(offset_delta),
            _NULL if key is None else _varint(len(key)),
            key or b"",
            _NULL if value is None else _varint(len(value)),
            value or b"",
            headers,
        )
    )
    return _varint(len(body)) + body


def encode_record(key: bytes, value: bytes) -> bytes:
    """The only record of a batch, at its base offset and base timestamp."""
    return _record(key, value, encoded_headers(()), 0, 0)


def encoded_headers(headers: Headers) -> bytes:
    """The headers of a record, as they stand at its end."""
    parts = [_varint(len(headers))]
    for name, value in headers:
        data = name.encode()
        parts += (_varint(len(data)), data, _NULL if value is None else _varint(len(value)), value or b"")
    return b"".join(parts)


def varint(number: int) -> bytes:
    """Zigzag variable-length form of a signed number of at most 64 bits."""
    zigzag = (number << 1) ^ (number >> 63)
    if zigzag < 0x80:
        return _ONE_BYTE[zigzag]
    output = bytearray()
    while zigzag >= 0x80:
        output.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    output.append(zigzag)
    return bytes(output)


_ONE_BYTE = tuple(bytes((n,)) for n in range(0x80))
_varint = lru_cache(1 << 14)(varint)
