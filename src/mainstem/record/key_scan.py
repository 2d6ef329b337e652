"""Keys, starts of values, and headers of some names, out of a record batch, without decoding the rest.

Contract: raises CorruptBatchError for records that do not add up where it looks, and nothing else; decompresses at most
``limit_bytes``. Values are stepped over. Keys and headers are copies. Pure functions; safe from any thread.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from mainstem.errors import CorruptBatchError
from mainstem.record.compress import decompress
from mainstem.record.constants import DECOMPRESSED_BYTES_MAX, HEADER_BYTES, RECORD_BYTES_MIN, Buffer, Compression
from mainstem.record.header import BatchHeader
from mainstem.record.reader import read_varint

ScannedKey: TypeAlias = tuple[int, bytes | None]
"""Where a record stands in its batch (its offset delta), and its key. A plain tuple: there is one for each record."""


class ScannedHeader(NamedTuple):
    """One header of a record, which is the ``record``-th of its batch."""

    record: int
    name: bytes
    value: bytes | None


def records_of(header: BatchHeader, batch: Buffer) -> bytes:
    """The batch's records as bytes, decompressed. Raises CorruptBatchError."""
    stored = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    if header.compression is Compression.NONE or not stored:
        return bytes(stored)
    return bytes(decompress(header.compression, stored, limit_bytes=DECOMPRESSED_BYTES_MAX))


def scan_keys(header: BatchHeader, records: bytes) -> list[ScannedKey]:
    """The keys of the batch whose records these are, in order. Raises CorruptBatchError.

    Written out for numbers of one byte and of two, which most are: this runs for each record of an indexed topic.
    """
    found: list[ScannedKey] = []
    add = found.append
    at, end = 0, len(records)
    try:
        for _ in range(header.record_count):
            low = records[at]
            if low < 0x80:
                length, at = (low >> 1) ^ -(low & 1), at + 1
            elif (high := records[at + 1]) < 0x80:
                length, at = (high << 6 | (low & 0x7F) >> 1) ^ -(low & 1), at + 2
            else:
                length, at = read_varint(records, at)
            stop = at + length
            if length < RECORD_BYTES_MIN - 1 or stop > end:
                raise CorruptBatchError(f"a record of {length} bytes, where {end - at} are left")
            at += 1  # its attributes, unused by the format
            while records[at] >= 0x80:  # its timestamp delta
                at += 1
            low = records[at + 1]
            if low < 0x80:
                offset_delta, at = (low >> 1) ^ -(low & 1), at + 2
            elif (high := records[at + 2]) < 0x80:
                offset_delta, at = (high << 6 | (low & 0x7F) >> 1) ^ -(low & 1), at + 3
            else:
                offset_delta, at = read_varint(records, at + 1)
            low = records[at]
            if low < 0x80:
                size, at = (low >> 1) ^ -(low & 1), at + 1
            else:
                size, at = read_varint(records, at)
            if size > stop - at:
                raise CorruptBatchError(f"a key of {size} bytes, where {stop - at} are left")
            add((offset_delta, records[at : at + size] if size >= 0 else None))
            at = stop
    except IndexError:
        raise CorruptBatchError(f"record batch at offset {header.base_offset}: its records are cut off") from None
    return found


def scan_starts(header: BatchHeader, records: bytes, size_bytes: int) -> list[tuple[bytes | None, bytes | None]]:
    """The first ``size_bytes`` bytes of each record's key and value, in order; None for null. Raises CorruptBatchError.

    Numbers of one byte are written out: this runs for each record of a topic that validates schemas.
    """
    found: list[tuple[bytes | None, bytes | None]] = []
    at, end = 0, len(records)
    try:
        for _ in range(header.record_count):
            stop, at = _record(records, at, end)
            while records[at] >= 0x80:  # the offset delta
                at += 1
            at += 1
            starts: list[bytes | None] = []
            for _ in ("key", "value"):
                low = records[at]
                if low < 0x80:
                    size, at = (low >> 1) ^ -(low & 1), at + 1
                else:
                    size, at = read_varint(records, at)
                if size > stop - at:
                    raise CorruptBatchError(f"a key or value of {size} bytes, where {stop - at} are left")
                starts.append(records[at : at + min(size, size_bytes)] if size >= 0 else None)
                at += max(size, 0)
            found.append((starts[0], starts[1]))
            at = stop
    except IndexError:
        raise CorruptBatchError(f"record batch at offset {header.base_offset}: its records are cut off") from None
    return found


def scan_headers(header: BatchHeader, records: bytes, prefix: bytes) -> list[ScannedHeader]:
    """All headers whose names begin with ``prefix``; one search through the bytes when there are none.

    Raises CorruptBatchError.
    """
    if prefix not in records:
        return []
    found: list[ScannedHeader] = []
    at, end = 0, len(records)
    try:
        for index in range(header.record_count):
            stop, at = _record(records, at, end)
            _, at = read_varint(records, at)  # the offset delta
            for _ in ("key", "value"):
                size, at = read_varint(records, at)
                at += max(size, 0)
            _headers(records, at, stop, index, prefix, found)
            at = stop
    except IndexError:
        raise CorruptBatchError(f"record batch at offset {header.base_offset}: its records are cut off") from None
    return found


def _record(records: bytes, at: int, end: int) -> tuple[int, int]:
    """Where the record at ``at`` ends, and where its offset delta stands."""
    length, at = read_varint(records, at)
    stop = at + length
    if length < RECORD_BYTES_MIN - 1 or stop > end:
        raise CorruptBatchError(f"a record of {length} bytes, where {end - at} are left")
    at += 1  # its attributes, unused by the format
    while records[at] >= 0x80:  # its timestamp delta
        at += 1
    return stop, at + 1


def _headers(records: bytes, at: int, stop: int, index: int, prefix: bytes, found: list[ScannedHeader]) -> None:
    count, at = read_varint(records, at)
    if not 0 <= count <= stop - at:
        raise CorruptBatchError(f"{count} headers, where {stop - at} bytes are left")
    for _ in range(count):
        size, at = read_varint(records, at)
        if not 0 <= size <= stop - at:
            raise CorruptBatchError(f"a header's name of {size} bytes, where {stop - at} are left")
        name = records[at : at + size]
        size, at = read_varint(records, at + size)
        if size > stop - at:
            raise CorruptBatchError(f"a header's value of {size} bytes, where {stop - at} are left")
        if name.startswith(prefix):
            found.append(ScannedHeader(index, name, records[at : at + size] if size >= 0 else None))
        at += max(size, 0)
