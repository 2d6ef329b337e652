"""The native walk over the records of one batch: the one that the decoder, compaction and the check of appends share.

A walk reads the length of each field and steps over the rest. ``check_records`` is the whole walk for a batch that a
producer sent; it makes no Python object for a record.

Invariant: no read outside the records, no write outside ``found``, whatever the bytes say. What the plain reader
(``reader``) accepts, a walk accepts, and nothing else.
"""

from __future__ import annotations

import numpy as np

from mainstem.record.constants import INT64_MAX, INT64_MIN, NO_TIMESTAMP, RECORD_BYTES_MIN, Buffer
from mainstem.record.native_kernel import (
    INT64_TABLE,
    READ_ONLY_BYTES,
    Native,
    address_of,
    helper,
    int64s,
    kernel,
    load_byte,
    rare,
)

_HIGH_BIT = 0x80

# How ``check_records`` ended.
SOUND, BAD_RECORD, BAD_OFFSET, BAD_TIME, BYTES_LEFT = range(5)
# Rows of ``found``: a column for each record that breaks a rule.
INDEX, HAS_NO_KEY, TIMESTAMP = range(3)
FOUND_ROWS = 3


@rare
def _long_varint(at: Native, end: Native) -> Native:
    result: Native = np.uint64(0)
    for count in range(10):
        if at >= end:
            return np.int64(0), np.int64(-1)
        byte = np.uint64(load_byte(at))
        at += 1
        result |= (byte & np.uint64(0x7F)) << np.uint64(7 * count)
        if byte < _HIGH_BIT:
            if count == 9 and byte > 1:
                return np.int64(0), np.int64(-1)
            return np.int64(result >> np.uint64(1)) ^ -np.int64(result & np.uint64(1)), at
    return np.int64(0), np.int64(-1)


@helper
def varint(at: Native, end: Native) -> Native:
    """(number, address behind it); the address is -1 when it runs over ``end`` or has more than 64 bits."""
    if end - at < 2:
        return _long_varint(at, end)
    first = load_byte(at)
    if first < _HIGH_BIT:
        return (first >> 1) ^ -(first & 1), at + 1
    second = load_byte(at + 1)
    if second < _HIGH_BIT:
        number = (first & 0x7F) | second << 7
        return (number >> 1) ^ -(number & 1), at + 2
    return _long_varint(at, end)


@helper
def length_of(size: Native) -> Native:
    """The bytes of a field of that size, which is -1 for null."""
    return size if size > 0 else np.int64(0)


@rare
def headers_end(at: Native, end: Native, count: Native) -> Native:
    """Where ``count`` headers from ``at`` end; -1 when they do not fit before ``end``."""
    if count < 0 or count > (end - at) // 2:
        return np.int64(-1)
    for _ in range(count):
        size, at = varint(at, end)
        if at < 0 or size < 0 or size > end - at:
            return np.int64(-1)
        size, at = varint(at + size, end)
        if at < 0 or size < -1 or size > end - at:
            return np.int64(-1)
        at += length_of(size)
    return at


@helper
def parse_fields(at: Native, record_end: Native, with_headers: Native) -> Native:
    """(key address and size, value's, headers' and count) from ``at`` on; -1 first when they do not fill the record."""
    bad = (np.int64(-1), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    key_size, key_at = varint(at, record_end)
    if key_at < 0 or key_size < -1 or key_size > record_end - key_at:
        return bad
    value_size, value_at = varint(key_at + length_of(key_size), record_end)
    if value_at < 0 or value_size < -1 or value_size > record_end - value_at:
        return bad
    count, headers_at = varint(value_at + length_of(value_size), record_end)
    if headers_at < 0:
        return bad
    if count == 0:
        if headers_at != record_end:
            return bad
    elif (with_headers or count < 0) and headers_end(headers_at, record_end, count) != record_end:
        return bad
    return key_at, key_size, value_at, value_size, headers_at, count


@helper
def walk_record(at: Native, end: Native, base_time: Native) -> Native:
    """One record from ``at`` on, headers included.

    (its end, or -1 for a bad one; timestamp, whether that fits 64 bits, offset delta, the address of that delta, key's
    address and size, value's size)
    """
    zero: Native = np.int64(0)
    bad = (np.int64(-1), zero, zero, zero, zero, zero, zero, zero)
    size, at = varint(at, end)
    if at < 0 or size < RECORD_BYTES_MIN - 1 or size > end - at:
        return bad
    record_end = at + size
    time_delta, delta_at = varint(at + 1, record_end)
    if delta_at < 0:
        return bad
    timestamp = base_time + time_delta
    time_fits = np.int64(((base_time ^ timestamp) & (time_delta ^ timestamp)) >= 0)
    delta, at = varint(delta_at, record_end)
    if at < 0:
        return bad
    key_at, key_size, _, value_size, _, _ = parse_fields(at, record_end, True)
    if key_at < 0:
        return bad
    return record_end, timestamp, time_fits, delta, delta_at, key_at, key_size, value_size


@kernel(READ_ONLY_BYTES, int64s(5), INT64_TABLE, returns=int64s(4))
def check_records(records: Native, rules: Native, found: Native) -> Native:
    """Walk the plain records of a producer's batch, of which ``rules`` are:

    (record count, base timestamp, whether each record needs a key, the least and the greatest timestamp). Timestamps
    count only where those two are not the least and the greatest that there are; -1, no timestamp, is always taken.
    Offset deltas must be 0, 1, 2 and so on.

    Returns (how it ended, records walked, the greatest timestamp or -1, records that break a rule). The first of those
    are noted in ``found``, as many as it has columns.
    """
    count, base_time, needs_key, oldest, newest = rules
    checks_times = oldest != INT64_MIN or newest != INT64_MAX
    at = address_of(records)
    end = at + records.size
    max_time: Native = np.int64(NO_TIMESTAMP)
    broken: Native = np.int64(0)
    for index in range(count):
        at, timestamp, time_fits, delta, _, _, key_size, _ = walk_record(at, end, base_time)
        if at < 0:
            return np.int64(BAD_RECORD), np.int64(index), max_time, broken
        if delta != index:
            return np.int64(BAD_OFFSET), np.int64(index), max_time, broken
        if checks_times and time_fits == 0:
            return np.int64(BAD_TIME), np.int64(index), max_time, broken
        if checks_times:
            max_time = max(max_time, timestamp)
        has_no_key = needs_key != 0 and key_size < 0
        if has_no_key or (checks_times and timestamp != NO_TIMESTAMP and (timestamp < oldest or timestamp > newest)):
            if broken < found.shape[1]:
                found[INDEX, broken], found[TIMESTAMP, broken] = index, timestamp
                found[HAS_NO_KEY, broken] = np.int64(has_no_key)
            broken += 1
    if at != end:
        return np.int64(BYTES_LEFT), np.int64(count), max_time, broken
    return np.int64(SOUND), np.int64(count), max_time, broken


def check(records: Buffer, rules: tuple[int, ...], found_max: int) -> tuple[int, int, int, int, list[list[int]]]:
    """``check_records`` over any buffer: what it returns, and (index, has no key, timestamp) of what it found."""
    array = np.frombuffer(records, np.uint8)
    array.flags.writeable = False
    status, walked, max_time, broken = check_records(array, rules, _NOTHING_FOUND)
    if status != SOUND or not broken:
        return status, walked, max_time, broken, []
    found = np.empty((FOUND_ROWS, min(broken, found_max)), np.int64)
    check_records(array, rules, found)
    return status, walked, max_time, broken, found.T.tolist()


_NOTHING_FOUND = np.empty((FOUND_ROWS, 0), np.int64)
is_loaded = True
"""Stands last: another thread that sees it may call what is above."""
