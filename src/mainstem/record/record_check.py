"""Walking a batch's records strictly, without copying any: for topics that ask the log to look at each of them.

Contract: every length is checked, so that what passes can be decoded, compacted and compressed anew. Raises
CorruptBatchError for records that do not add up, and nothing else. Pure functions; safe from any thread.
"""

from __future__ import annotations

from typing import NamedTuple

from mainstem.errors import CorruptBatchError
from mainstem.record.constants import RECORD_BYTES_MIN
from mainstem.record.header import BatchHeader


class RecordFacts(NamedTuple):
    """What the log asks of a record: its deltas, and whether it has a key."""

    timestamp_delta: int
    offset_delta: int
    has_key: bool


def walk_records(header: BatchHeader, records: bytes) -> list[RecordFacts]:
    """The facts of each record in ``records``, which are the batch's, decompressed."""
    found = []
    at, end = 0, len(records)
    try:
        for _ in range(header.record_count):
            size, at = _varint(records, at)
            stop = at + size
            if size < RECORD_BYTES_MIN - 1 or stop > end:
                raise CorruptBatchError(f"a record of {size} bytes, where {end - at} are left")
            timestamp_delta, at = _varint(records, at + 1)
            offset_delta, at = _varint(records, at)
            key_size, at = _field(records, at, stop)
            _, at = _field(records, at, stop)
            at = _headers_end(records, at, stop)
            if at != stop:
                raise CorruptBatchError(f"a record's fields end {at - stop} bytes off its length")
            found.append(RecordFacts(timestamp_delta, offset_delta, key_size >= 0))
    except IndexError:
        raise CorruptBatchError("the last record is cut off") from None
    if at != end:
        raise CorruptBatchError(f"{end - at} bytes behind the last record")
    return found


def _headers_end(records: bytes, at: int, stop: int) -> int:
    count, at = _varint(records, at)
    if not 0 <= count <= (stop - at) // 2:
        raise CorruptBatchError(f"{count} headers, where {stop - at} bytes are left")
    for _ in range(count):
        size, at = _field(records, at, stop)
        if size < 0:
            raise CorruptBatchError("a header without a name")
        _, at = _field(records, at, stop)
    return at


def _field(records: bytes, at: int, stop: int) -> tuple[int, int]:
    """The size of a nullable field, and where it ends."""
    size, at = _varint(records, at)
    if not -1 <= size <= stop - at:
        raise CorruptBatchError(f"a length of {size}, where {stop - at} bytes are left")
    return size, at + size if size > 0 else at


def _varint(records: bytes, at: int) -> tuple[int, int]:
    """The signed number at ``at``, and where it ends. Raises IndexError past the end."""
    byte = records[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    result, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = records[at]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise CorruptBatchError("a number of more than 64 bits")
    if result >> 64:
        raise CorruptBatchError("a number of more than 64 bits")
    return (result >> 1) ^ -(result & 1), at + 1
