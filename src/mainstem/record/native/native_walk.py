"""The native walk over the records of one batch: the one that the decoder, compaction and the check of appends share.

A walk reads the length of each field and steps over the rest. Only kernels call these functions (``native_decode``,
``native_compact``, ``native_check``).

Invariant: no read outside the records, whatever the bytes say. What the plain reader (``reader``) accepts, a walk
accepts, and nothing else.
"""

from __future__ import annotations

import numpy as np

from mainstem.record.constants import RECORD_BYTES_MIN
from mainstem.record.native.native_kernel import Native, helper, load_byte, rare

_HIGH_BIT = 0x80


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
    """(number, address after it); the address is -1 when it runs over ``end`` or has more than 64 bits."""
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
