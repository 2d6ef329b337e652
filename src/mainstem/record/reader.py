"""The plain reader of record batches: record by record, every length checked. ``arrow_decode`` is the fast one.

Contract: raises CorruptBatchError, and nothing else, for any inconsistent bytes; uses only as much memory as the batch
and ``limit_bytes`` allow. The caller verifies the batch's checksum (``header.verify``) once, where the bytes come in;
the reader is safe without it. Pure functions, safe from any thread; an ``AbortedRecords`` belongs to one
read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from mainstem.errors import CorruptBatchError
from mainstem.model import Headers
from mainstem.record.compress import decompress
from mainstem.record.constants import (
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    INT64_MAX,
    INT64_MIN,
    RECORD_BYTES_MIN,
    Buffer,
    Compression,
    ControlType,
)
from mainstem.record.header import BatchHeader, iter_headers, read_header

_CONTROL_KEY = struct.Struct(">hh")
_END_TRANSACTION_VALUE = struct.Struct(">hi")
_LATER_SHIFTS = range(7, 70, 7)
Wanted: TypeAlias = Callable[[int], int]
"""From an offset, the first wanted one at or after it."""


class DecodedRecord(NamedTuple):
    """A record as it stands in a batch; key, value and headers are copies."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class EndMarker(NamedTuple):
    """How a control batch ends its producer's transaction, and its coordinator's epoch."""

    control_type: ControlType
    coordinator_epoch: int


class AbortedTransaction(NamedTuple):
    """A reader of committed records leaves out this producer's from here to its next abort marker."""

    producer_id: int
    first_offset: int


def read_records(
    batch: Buffer, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX, wanted: Wanted | None = None
) -> list[DecodedRecord]:
    """The records of the batch at the start of ``batch``, those of a control batch included.

    With ``wanted``, records between the wanted ones may be left out: they are passed over by their lengths, which is
    some thirty times as fast. Bytes after the batch are ignored. Raises CorruptBatchError.
    """
    header = read_header(batch)
    if len(batch) < header.size_bytes:
        raise CorruptBatchError(f"record batch at offset {header.base_offset}: its end is cut off")
    stored = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    if header.compression is Compression.NONE:
        return parse_records(header, stored, wanted)
    if header.record_count == 0 and not stored:
        return []  # compaction took every record and kept the header
    return parse_records(header, memoryview(decompress(header.compression, stored, limit_bytes=limit_bytes)), wanted)


def iter_records(buffer: Buffer, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[DecodedRecord]:
    """The data records of all whole batches in ``buffer``; control batches are passed over."""
    view = memoryview(buffer)
    for file_position, header in iter_headers(buffer):
        if not header.is_control:
            yield from read_records(view[file_position : file_position + header.size_bytes], limit_bytes=limit_bytes)


def read_control_type(record: DecodedRecord) -> ControlType | None:
    """How the transaction ended that this control record closes; None for a control record of another kind."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise CorruptBatchError(f"control record at offset {record.offset}: its key is cut off")
    version, control_type = _CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptBatchError(f"control record at offset {record.offset}: version {version}")
    return ControlType(control_type) if control_type in (ControlType.ABORT, ControlType.COMMIT) else None


def read_end_marker(batch: Buffer) -> EndMarker | None:
    """The end of a transaction in the control batch at the start of ``batch``; None if compaction emptied the batch, or
    it ends none.

    Raises CorruptBatchError.
    """
    records = read_records(batch)
    control_type = read_control_type(records[0]) if records else None
    if control_type is None:
        return None
    value = records[0].value
    if value is None or len(value) < _END_TRANSACTION_VALUE.size:
        raise CorruptBatchError(f"transaction marker at offset {records[0].offset}: its value is cut off")
    version, coordinator_epoch = _END_TRANSACTION_VALUE.unpack_from(value)
    if version < 0:
        raise CorruptBatchError(f"transaction marker at offset {records[0].offset}: version {version}")
    return EndMarker(control_type, coordinator_epoch)


def read_varint(data: Buffer, at: int) -> tuple[int, int]:
    """The zigzag number at ``at``, and where it ends. Raises CorruptBatchError."""
    try:
        byte = data[at]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        result = byte & 0x7F
        for shift in _LATER_SHIFTS:
            at += 1
            byte = data[at]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                if result >> 64:
                    break
                return (result >> 1) ^ -(result & 1), at + 1
    except IndexError:
        raise CorruptBatchError("a number runs over the end of the records") from None
    raise CorruptBatchError("a number of more than 64 bits")


class _Cursor:
    """Reads forward through one buffer and refuses to pass its end. Owned by one call."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0
        self.end = len(data)

    def varint(self) -> int:
        number, self.at = read_varint(self.data, self.at)
        return number

    def pass_records(self, count: int) -> None:
        """Go past whole records by their lengths alone. Written out for lengths of two bytes, which most have."""
        data, at, end = self.data, self.at, self.end
        try:
            for _ in range(count):
                low, high = data[at], data[at + 1]
                if low >= 0x80 > high:
                    size, at = (high << 6 | (low & 0x7F) >> 1) ^ -(low & 1), at + 2
                else:
                    size, at = read_varint(data, at)
                if not RECORD_BYTES_MIN - 1 <= size <= end - at:
                    raise CorruptBatchError(f"a record of {size} bytes, where {end - at} are left")
                at += size
        except IndexError:
            raise CorruptBatchError("the records are cut off") from None
        self.at = at

    def nullable_bytes(self) -> bytes | None:
        size = self.varint()
        if size == -1:
            return None
        if not 0 <= size <= self.end - self.at:
            raise CorruptBatchError(f"a length of {size}, where {self.end - self.at} bytes are left")
        start = self.at
        self.at = start + size
        return bytes(self.data[start : self.at])

    def headers(self) -> Headers:
        count = self.varint()
        # The shortest header is an empty name and a null value: two bytes.
        if not 0 <= count <= (self.end - self.at) // 2:
            raise CorruptBatchError(f"{count} headers, where {self.end - self.at} bytes are left")
        return tuple(self._header() for _ in range(count))

    def _header(self) -> tuple[str, bytes | None]:
        name = self.nullable_bytes()
        if name is None:
            raise CorruptBatchError("a header without a name")
        # Kafka's own clients read a name that is not UTF-8 with replacement characters: no reason to stop a reader.
        return name.decode("utf-8", "replace"), self.nullable_bytes()


def parse_records(header: BatchHeader, data: memoryview, wanted: Wanted | None = None) -> list[DecodedRecord]:
    """The records of the batch whose plain (decompressed) records these are. Raises CorruptBatchError."""
    return list(iter_parsed(header, data, wanted=wanted))


def iter_parsed(
    header: BatchHeader, data: memoryview, *, ignores_time: bool = False, wanted: Wanted | None = None
) -> Iterator[DecodedRecord]:
    """``parse_records``, one after the other: what it raises may come after good records.

    With ``ignores_time`` a timestamp may be one that 64 bits do not hold. ``wanted`` as in ``read_records``.
    """
    if not 0 <= header.record_count <= len(data) // RECORD_BYTES_MIN:
        raise CorruptBatchError(
            f"record batch at offset {header.base_offset}: {header.record_count} records in {len(data)} bytes"
        )
    cursor = _Cursor(data)
    delta_before = -1
    index = 0
    try:
        while index < header.record_count:
            if wanted is not None and header.is_dense:
                next_index = wanted(header.base_offset + index) - header.base_offset
                if next_index >= header.record_count:
                    return
                cursor.pass_records(next_index - index)
                index, delta_before = next_index, next_index - 1
            record = _parse_record(header, cursor, ignores_time)
            if not delta_before < record.offset - header.base_offset <= header.last_offset_delta:
                raise CorruptBatchError(f"offset {record.offset} is out of order")
            delta_before = record.offset - header.base_offset
            yield record
            index += 1
        if cursor.at != cursor.end:
            raise CorruptBatchError(f"{cursor.end - cursor.at} bytes after the last record")
    except CorruptBatchError as error:
        raise CorruptBatchError(f"record batch at offset {header.base_offset}, record {index}: {error}") from None


def _parse_record(header: BatchHeader, cursor: _Cursor, ignores_time: bool) -> DecodedRecord:
    size = cursor.varint()
    end = cursor.at + size
    if not RECORD_BYTES_MIN - 1 <= size <= cursor.end - cursor.at:
        raise CorruptBatchError(f"a record of {size} bytes, where {cursor.end - cursor.at} are left")
    cursor.at += 1  # the record's attributes, unused by the format
    timestamp_ms = header.base_timestamp + cursor.varint()
    if header.has_log_append_time:
        timestamp_ms = header.max_timestamp
    if not INT64_MIN <= timestamp_ms <= INT64_MAX and not ignores_time:
        raise CorruptBatchError("a timestamp of more than 64 bits")
    offset = header.base_offset + cursor.varint()
    record = DecodedRecord(offset, timestamp_ms, cursor.nullable_bytes(), cursor.nullable_bytes(), cursor.headers())
    if cursor.at != end:
        raise CorruptBatchError(f"a record's fields end {cursor.at - end} bytes off its length")
    return record


class AbortedRecords:
    """Which producers' records are aborted at the batch that is being read; batches come in the order of offsets."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._to_come = sorted(transactions, key=lambda aborted: aborted.first_offset, reverse=True)
        self._open: set[int] = set()

    def holds(self, header: BatchHeader) -> bool:
        """Whether the batch is to be left out."""
        while self._to_come and self._to_come[-1].first_offset <= header.last_offset:
            self._open.add(self._to_come.pop().producer_id)
        return header.is_transactional and header.producer_id in self._open

    def pass_marker(self, header: BatchHeader, batch: Buffer) -> None:
        """An abort marker ends its producer's aborted transaction; what follows is the next one's.

        Raises CorruptBatchError.
        """
        self.holds(header)  # transactions that begin before the marker are open by now
        if header.producer_id in self._open and any(
            read_control_type(record) is ControlType.ABORT for record in read_records(batch)
        ):
            self._open.discard(header.producer_id)
