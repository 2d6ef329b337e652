"""The native decoder: record batches to columns. ``arrow_decode`` calls it; nothing else should.

Three steps, so that every position is checked once and kept in memory of our own before anything is copied by it
(the source may be a mapped file that changes under us):
1. ``scan_batches`` reads and proves headers into a table, one row a batch;
2. ``parse_records`` walks the records of those rows, and notes where each field lies (``note_headers``: each header's);
3. ``fill_offsets`` and ``copy_fields`` make Arrow's buffers of one column, whose sizes are known by then.

Invariant: no read outside ``data``, no write outside the output arrays, whatever the bytes say. A kernel that meets
bytes that do not add up stops before that batch and says so; what the plain reader accepts, it accepts, and nothing
else (but headers that are not asked for are passed over unread).
"""

from __future__ import annotations

import numpy as np
from numba import types

from mainstem.record.constants import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    BATCH_LENGTH_AT,
    BATCH_LENGTH_MIN,
    COMPRESSION_MASK,
    CRC_AT,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    INT64_MAX,
    LAST_OFFSET_DELTA_AT,
    LENGTH_PREFIX,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_ID_AT,
    RECORD_BYTES_MIN,
    RECORD_COUNT_AT,
)
from mainstem.record.native.native_kernel import (
    BYTES,
    INT32S,
    INT64_TABLE,
    INT64S,
    READ_ONLY_BYTES,
    Native,
    address_of,
    copy_bytes,
    crc32c,
    helper,
    int64s,
    kernel,
    load_byte,
)
from mainstem.record.native.native_walk import length_of, parse_fields, varint

# Columns of the table of batches.
AT, SIZE, PAYLOAD_AT, PAYLOAD_BYTES, BASE_OFFSET, LAST_DELTA, BASE_TIME, MAX_TIME, ATTRIBUTES, PRODUCER, COUNT = range(
    11
)
TABLE_COLUMNS = 11

# Why scan_batches stopped.
AT_TAIL, AT_END_OFFSET, AT_BAD_BATCH = range(3)

# Rows of the notes on records: a column for each record. A size of -1 is null; so is a header count of none.
OFFSET, TIMESTAMP, KEY_AT, KEY_SIZE, VALUE_AT, VALUE_SIZE, HEADERS_AT, HEADERS_END, HEADER_COUNT = range(9)
NOTE_ROWS = 9
# Rows of the notes on headers: a column for each header.
NAME_AT, NAME_SIZE, HEADER_AT, HEADER_SIZE = range(4)
HEADER_NOTE_ROWS = 4

_CODEC_MAX = 4
_MICROSECONDS = 1000
_MILLISECONDS_MAX = INT64_MAX // _MICROSECONDS


@helper
def _big_endian(address: Native, count: Native) -> Native:
    """A signed number of so many bytes."""
    number: Native = np.int64(np.int8(load_byte(address)))
    for i in range(1, count):
        number = (number << 8) | load_byte(address + i)
    return number


@kernel(READ_ONLY_BYTES, returns=types.int64)
def count_batches(data: Native) -> Native:
    """How many whole batches the lengths give: the table that ``scan_batches`` needs at most."""
    at = address_of(data)
    end = at + data.size
    count: Native = np.int64(0)
    while end - at >= HEADER_BYTES:
        length = _big_endian(at + BATCH_LENGTH_AT, 4)
        if length < BATCH_LENGTH_MIN or length > end - at - LENGTH_PREFIX:
            break
        count += 1
        at += LENGTH_PREFIX + length
    return count


@helper
def _header_fits(row: Native) -> Native:
    """Whether the header in ``row`` is possible (``header.verify`` says the same, in words)."""
    codec = row[ATTRIBUTES] & COMPRESSION_MASK
    if codec > _CODEC_MAX:
        return False
    if row[LAST_DELTA] < 0 or row[BASE_OFFSET] < 0 or row[BASE_OFFSET] > INT64_MAX - 1 - row[LAST_DELTA]:
        return False
    if row[COUNT] < 0 or row[COUNT] > row[LAST_DELTA] + 1:
        return False
    return codec != 0 or row[COUNT] * RECORD_BYTES_MIN <= row[PAYLOAD_BYTES]


@kernel(READ_ONLY_BYTES, INT64_TABLE, types.int64, types.int64, types.boolean, returns=int64s(3))
def scan_batches(data: Native, table: Native, start_offset: Native, end_offset: Native, verify_crc: Native) -> Native:
    """Fill ``table`` with the batches that hold offsets in [start, end), proven; (rows, why it stopped, where).

    A batch that lies before ``start_offset`` gets no row. Offsets must ascend from batch to batch.
    """
    origin = address_of(data)
    at = origin
    end = at + data.size
    rows: Native = np.int64(0)
    expected_offset: Native = np.int64(0)
    while end - at >= HEADER_BYTES:
        length = _big_endian(at + BATCH_LENGTH_AT, 4)
        if load_byte(at + MAGIC_AT) != MAGIC or length < BATCH_LENGTH_MIN:
            return rows, AT_BAD_BATCH, at - origin
        size = LENGTH_PREFIX + length
        if size > end - at or rows == table.shape[0]:
            break
        row = table[rows]
        row[AT], row[SIZE] = at - origin, size
        row[PAYLOAD_AT], row[PAYLOAD_BYTES] = at - origin + HEADER_BYTES, size - HEADER_BYTES
        row[BASE_OFFSET] = _big_endian(at + BASE_OFFSET_AT, 8)
        row[LAST_DELTA] = _big_endian(at + LAST_OFFSET_DELTA_AT, 4)
        row[BASE_TIME] = _big_endian(at + BASE_TIMESTAMP_AT, 8)
        row[MAX_TIME] = _big_endian(at + MAX_TIMESTAMP_AT, 8)
        row[ATTRIBUTES] = _big_endian(at + ATTRIBUTES_AT, 2)
        row[PRODUCER] = _big_endian(at + PRODUCER_ID_AT, 8)
        row[COUNT] = _big_endian(at + RECORD_COUNT_AT, 4)
        if not _header_fits(row) or row[BASE_OFFSET] < expected_offset:
            return rows, AT_BAD_BATCH, at - origin
        if row[BASE_OFFSET] >= end_offset:
            return rows, AT_END_OFFSET, at - origin
        expected_offset = row[BASE_OFFSET] + row[LAST_DELTA] + 1
        if expected_offset > start_offset:
            crc = _big_endian(at + CRC_AT, 4) & 0xFFFFFFFF
            if verify_crc and crc32c(at + CRC_COVERS_FROM, at + size) != crc:
                return rows, AT_BAD_BATCH, at - origin
            rows += 1
        at += size
    return rows, AT_TAIL, at - origin


@helper
def _saturated_microseconds(milliseconds: Native) -> Native:
    if milliseconds > _MILLISECONDS_MAX:
        return np.int64(INT64_MAX)
    if milliseconds < -_MILLISECONDS_MAX:
        return np.int64(-INT64_MAX)
    return milliseconds * _MICROSECONDS


@helper
def _parse_batch(
    origin: Native, row: Native, offset_range: Native, with_headers: Native, notes: Native, first: Native
) -> Native:
    """(where the notes end now, the first offset for which they had no room or -1); (-1, -1) for a bad batch."""
    bad = (np.int64(-1), np.int64(-1))
    at = origin + row[PAYLOAD_AT]
    end = at + row[PAYLOAD_BYTES]
    base_offset, last_delta, base_time, max_time = row[BASE_OFFSET], row[LAST_DELTA], row[BASE_TIME], row[MAX_TIME]
    has_log_append_time = row[ATTRIBUTES] & LOG_APPEND_TIME_BIT != 0
    start_offset, end_offset = offset_range
    delta_before: Native = np.int64(-1)
    n = first
    for _ in range(row[COUNT]):
        size, at = varint(at, end)
        if at < 0 or size < RECORD_BYTES_MIN - 1 or size > end - at:
            return bad
        record_end = at + size
        time_delta, at = varint(at + 1, record_end)
        if at < 0:
            return bad
        delta, at = varint(at, record_end)
        if at < 0 or delta <= delta_before or delta > last_delta:
            return bad
        delta_before = delta
        timestamp = base_time + time_delta
        if has_log_append_time:
            timestamp = max_time
        elif ((base_time ^ timestamp) & (time_delta ^ timestamp)) < 0:
            return bad
        key_at, key_size, value_at, value_size, headers_at, count = parse_fields(at, record_end, with_headers)
        if key_at < 0:
            return bad
        at = record_end
        offset = base_offset + delta
        if offset < start_offset or offset >= end_offset:
            continue
        if n == notes.shape[1]:
            return n, offset
        notes[OFFSET, n], notes[TIMESTAMP, n] = offset, _saturated_microseconds(timestamp)
        notes[KEY_AT, n], notes[KEY_SIZE, n] = key_at - origin, key_size
        notes[VALUE_AT, n], notes[VALUE_SIZE, n] = value_at - origin, value_size
        notes[HEADERS_AT, n], notes[HEADERS_END, n] = headers_at - origin, record_end - origin
        notes[HEADER_COUNT, n] = count if count > 0 else np.int64(-1)
        n += 1
    if at != end:
        return bad
    return n, np.int64(-1)


@kernel(READ_ONLY_BYTES, INT64_TABLE, int64s(2), types.boolean, INT64_TABLE, returns=int64s(3))
def parse_records(data: Native, table: Native, offset_range: Native, with_headers: Native, notes: Native) -> Native:
    """Note the records of the batches in ``table`` with offsets in [start, end) = ``offset_range``.

    Stops at the first batch that does not add up, or when the notes are full. Returns (batches walked to their end,
    records noted, the first offset for which there was no room or -1); COUNT in ``table`` becomes the number of records
    noted of each batch.
    """
    origin = address_of(data)
    noted: Native = np.int64(0)
    for batch in range(table.shape[0]):
        row = table[batch]
        if row[COUNT] > row[PAYLOAD_BYTES] // RECORD_BYTES_MIN:
            return np.int64(batch), noted, np.int64(-1)
        now_noted, no_room_for = _parse_batch(origin, row, offset_range, with_headers, notes, noted)
        if now_noted < 0:
            return np.int64(batch), noted, np.int64(-1)
        row[COUNT] = now_noted - noted
        noted = now_noted
        if no_room_for >= 0:
            return np.int64(batch), noted, no_room_for
    return np.int64(table.shape[0]), noted, np.int64(-1)


@kernel(READ_ONLY_BYTES, INT64_TABLE, types.int64, INT64_TABLE, returns=types.boolean)
def note_headers(data: Native, notes: Native, noted: Native, header_notes: Native) -> Native:
    """Note where the headers of the first ``noted`` records lie; false when the bytes have changed since."""
    origin = address_of(data)
    total: Native = np.int64(0)
    for n in range(noted):
        at, end = origin + notes[HEADERS_AT, n], origin + notes[HEADERS_END, n]
        for _ in range(notes[HEADER_COUNT, n]):
            size, at = varint(at, end)
            if at < 0 or size < 0 or size > end - at or total == header_notes.shape[1]:
                return False
            header_notes[NAME_AT, total], header_notes[NAME_SIZE, total] = at - origin, size
            size, at = varint(at + size, end)
            if at < 0 or size < -1 or size > end - at:
                return False
            header_notes[HEADER_AT, total], header_notes[HEADER_SIZE, total] = at - origin, size
            at += length_of(size)
            total += 1
    return total == header_notes.shape[1]


@kernel(INT64S, INT32S, BYTES, returns=types.int64)
def fill_offsets(sizes: Native, offsets: Native, validity: Native) -> Native:
    """Arrow's offsets and validity bits from sizes; the number of nulls. ``validity`` starts as all ones.

    The sum of the sizes fits 31 bits, as they lie side by side in a source of less than 2 GiB.
    """
    nulls: Native = np.int64(0)
    total: Native = np.int64(0)
    offsets[0] = 0
    for n in range(sizes.size):
        size = sizes[n]
        if size < 0:
            nulls += 1
            validity[n >> 3] &= np.uint8(0xFF ^ (1 << (n & 7)))
        else:
            total += size
        offsets[n + 1] = total
    return nulls


@kernel(READ_ONLY_BYTES, INT64S, INT32S, BYTES, returns=types.void)
def copy_fields(data: Native, places: Native, offsets: Native, target: Native) -> None:
    """Copy each noted field to where the offsets say."""
    source, to = address_of(data), address_of(target)
    for n in range(places.size):
        start = np.int64(offsets[n])
        copy_bytes(to + start, source + places[n], np.int64(offsets[n + 1]) - start)
