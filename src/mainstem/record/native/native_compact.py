"""The native part of compaction: each key's latest offset, and the records that are kept. ``key_offsets`` calls it.

A source is the plain (decompressed) records of several batches side by side, with a table row for each batch. Keys are
compared by SipHash-2-4 of 128 bits with a random secret for each run, so a producer cannot choose two keys that
collide. The map uses open addressing over two arrays, 24 bytes a slot; a slot whose offset is -1 is free.

Invariant: no read outside the source, no write outside the arrays, for any bytes. A kernel stops at a damaged batch and
reports it.
"""

from __future__ import annotations

import numpy as np
from numba import types

from mainstem.record.constants import INT64_MIN
from mainstem.record.native.native_kernel import (
    BYTES,
    INT64_TABLE,
    INT64S,
    READ_ONLY_BYTES,
    Native,
    address_of,
    copy_bytes,
    helper,
    int64s,
    kernel,
    load_byte,
    load_word,
    rare,
    store_byte,
)
from mainstem.record.native.native_varint import delta_fits, put_varint, varint_bytes
from mainstem.record.native.native_walk import walk_record

# Columns of the table: what is known of a batch …
AT, SIZE, COUNT, BASE_OFFSET, LAST_DELTA, BASE_TIME, HAS_RECORD_TIME, DROPS_TOMBSTONES, NEW_BASE_TIME = range(9)
# … and what was kept of it: ``choose_records`` fills these. NEW_BASE_TIME is used if a tombstone was kept.
KEPT, KEPT_TOMBSTONES, KEPT_MAX_TIME, OUTPUT_AT, OUTPUT_END = range(9, 14)
TABLE_COLUMNS = 14

NO_NEW_BASE_TIME = INT64_MIN

UINT64S = types.Array(types.uint64, 1, "C")
_GROWTH_OF_A_RECORD = 9 + 4
"""How much longer a record may get by another base timestamp: its timestamp's delta, and its length's length."""


@helper
def _rotate(word: Native, bits: Native) -> Native:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@helper
def _round(v0: Native, v1: Native, v2: Native, v3: Native) -> Native:
    v0 += v1
    v2 += v3
    v1 = _rotate(v1, 13) ^ v0
    v3 = _rotate(v3, 16) ^ v2
    v0 = _rotate(v0, 32) + v3
    v2 += v1
    v3 = _rotate(v3, 21) ^ v0
    v1 = _rotate(v1, 17) ^ v2
    return v0, v1, _rotate(v2, 32), v3


@rare
def _siphash(at: Native, size: Native, key0: Native, key1: Native) -> Native:
    """SipHash-2-4 with 128 bits of output, on a little-endian machine as it is published."""
    v0 = key0 ^ np.uint64(0x736F6D6570736575)
    v1 = key1 ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
    v2 = key0 ^ np.uint64(0x6C7967656E657261)
    v3 = key1 ^ np.uint64(0x7465646279746573)
    end = at + size
    while end - at >= 8:
        word = load_word(at)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        at += 8
    word = np.uint64(size) << np.uint64(56)
    for i in range(end - at):
        word |= np.uint64(load_byte(at + i)) << np.uint64(8 * i)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(0xEE)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= np.uint64(0xDD)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


@kernel(READ_ONLY_BYTES, UINT64S, UINT64S, returns=types.void)
def hash_key(data: Native, key: Native, digest: Native) -> None:
    """The hash of all of ``data``, for tests."""
    digest[0], digest[1] = _siphash(address_of(data), data.size, key[0], key[1])


@rare
def _slot_of(low: Native, high: Native, hashes: Native, offsets: Native) -> Native:
    """The slot of a key, or the free one where it belongs. There always is a free one."""
    mask = np.uint64(offsets.size - 1)
    slot = low & mask
    while offsets[slot] >= 0 and (
        hashes[slot * np.uint64(2)] != low or hashes[slot * np.uint64(2) + np.uint64(1)] != high
    ):
        slot = (slot + np.uint64(1)) & mask
    return slot


@rare
def _walk_record(at: Native, end: Native, row: Native, delta_before: Native) -> Native:
    """(its end, -1 if it is bad; timestamp, offset delta, where that stands, key's address and size, value's size)."""
    at, timestamp, time_fits, delta, delta_at, key_at, key_size, value_size = walk_record(at, end, row[BASE_TIME])
    if time_fits == 0 or delta <= delta_before or delta > row[LAST_DELTA]:
        at = np.int64(-1)
    return at, timestamp, delta, delta_at, key_at, key_size, value_size


@kernel(READ_ONLY_BYTES, INT64_TABLE, int64s(2), UINT64S, UINT64S, INT64S, returns=int64s(4))
def map_keys(source: Native, table: Native, limits: Native, key: Native, hashes: Native, offsets: Native) -> Native:
    """Note the offset of each keyed record that is at or after ``start`` in the map, of ``limits`` = (start, room).

    Returns (batches walked to their end, keys added, the last offset that is covered or -1, the first offset for which
    there was no room or -1). A bad batch ends it with fewer batches and -1 last.
    """
    start_offset, room = limits
    origin = address_of(source)
    added: Native = np.int64(0)
    covered: Native = np.int64(-1)
    for batch in range(table.shape[0]):
        row = table[batch]
        at = origin + row[AT]
        end = at + row[SIZE]
        delta: Native = np.int64(-1)
        for _ in range(row[COUNT]):
            at, _, delta, _, key_at, key_size, _ = _walk_record(at, end, row, delta)
            if at < 0:
                return np.int64(batch), added, covered, np.int64(-1)
            offset = row[BASE_OFFSET] + delta
            if offset < start_offset:
                continue
            if key_size >= 0:
                low, high = _siphash(key_at, key_size, key[0], key[1])
                slot = _slot_of(low, high, hashes, offsets)
                if offsets[slot] < 0:
                    if added == room:
                        return np.int64(batch), added, covered, offset
                    added += 1
                    hashes[slot * np.uint64(2)], hashes[slot * np.uint64(2) + np.uint64(1)] = low, high
                offsets[slot] = offset
            covered = offset
        if at != end:
            return np.int64(batch), added, covered, np.int64(-1)
        covered = max(covered, row[BASE_OFFSET] + row[LAST_DELTA])
    return np.int64(table.shape[0]), added, covered, np.int64(-1)


@rare
def _choose(
    origin: Native,
    row: Native,
    covered: Native,
    key: Native,
    hashes: Native,
    offsets: Native,
    spans: Native,
) -> Native:
    """Note where the records of one batch lie that are kept, and count them in ``row``; false for a bad batch."""
    at = origin + row[AT]
    end = at + row[SIZE]
    delta: Native = np.int64(-1)
    kept: Native = np.int64(0)
    tombstones: Native = np.int64(0)
    max_time: Native = np.int64(NO_NEW_BASE_TIME)
    for _ in range(row[COUNT]):
        start = at
        at, timestamp, delta, delta_at, key_at, key_size, value_size = _walk_record(start, end, row, delta)
        if at < 0:
            return False
        offset = row[BASE_OFFSET] + delta
        if offset <= covered:
            if key_size < 0 or (value_size < 0 and row[DROPS_TOMBSTONES] != 0):
                continue
            low, high = _siphash(key_at, key_size, key[0], key[1])
            if offsets[_slot_of(low, high, hashes, offsets)] > offset:
                continue
        spans[0, kept], spans[1, kept], spans[2, kept], spans[3, kept] = start, at, timestamp, delta_at
        kept += 1
        tombstones += np.int64(value_size < 0)
        max_time = max(max_time, timestamp)
    row[KEPT], row[KEPT_TOMBSTONES], row[KEPT_MAX_TIME] = kept, tombstones, max_time
    return at == end


@rare
def _write_rebased(target: Native, spans: Native, kept: Native, base_time: Native) -> Native:
    """Write records with another base timestamp; the address after them, -1 when a timestamp is too far off it."""
    for n in range(kept):
        if not delta_fits(spans[2, n], base_time):
            return np.int64(-1)
        time_delta = spans[2, n] - base_time
        rest = spans[1, n] - spans[3, n]
        target = put_varint(target, 1 + varint_bytes(time_delta) + rest)
        store_byte(target, np.int64(0))
        target = put_varint(target + 1, time_delta)
        copy_bytes(target, spans[3, n], rest)
        target += rest
    return target


@kernel(
    READ_ONLY_BYTES,
    INT64_TABLE,
    types.int64,
    UINT64S,
    UINT64S,
    INT64S,
    INT64_TABLE,
    BYTES,
    returns=types.int64,
)
def choose_records(
    source: Native,
    table: Native,
    covered: Native,
    key: Native,
    hashes: Native,
    offsets: Native,
    spans: Native,
    output: Native,
) -> Native:
    """Write the records that are kept of each batch into ``output``, and fill the columns from KEPT on.

    A record after ``covered`` is kept. Any other is kept if it has a key of which the map knows no later offset, and
    a value unless the batch's tombstones may stay. Returns the batches walked to their end: fewer than there are when
    the next one is bad.
    """
    origin, target_origin = address_of(source), address_of(output)
    target = target_origin
    for batch in range(table.shape[0]):
        row = table[batch]
        if not _choose(origin, row, covered, key, hashes, offsets, spans):
            return np.int64(batch)
        row[OUTPUT_AT] = target - target_origin
        if row[KEPT_TOMBSTONES] > 0 and row[NEW_BASE_TIME] != NO_NEW_BASE_TIME and row[HAS_RECORD_TIME] != 0:
            target = _write_rebased(target, spans, row[KEPT], row[NEW_BASE_TIME])
            if target < 0:
                return np.int64(batch)
        else:
            for n in range(row[KEPT]):
                copy_bytes(target, spans[0, n], spans[1, n] - spans[0, n])
                target += spans[1, n] - spans[0, n]
        row[OUTPUT_END] = target - target_origin
    return np.int64(table.shape[0])


def output_bytes_max(source_bytes: int, records: int) -> int:
    """The most bytes that ``choose_records`` can write."""
    return source_bytes + records * _GROWTH_OF_A_RECORD
