"""The native encoder: columns to the payloads of record batches, and Kafka's key hash. ``arrow_encode`` and
``arrow_partition`` call it; nothing else should.

The source is given as notes: where each field lies in memory and how long it is, which the caller has checked against
the buffers. Invariant: the result equals that of ``writer.build_batch`` for the same records, and is never longer than
the bound that ``arrow_encode`` computes for the output.
"""

from __future__ import annotations

import numpy as np
from numba import types

from mainstem.record.constants import HEADER_BYTES
from mainstem.record.native.native_kernel import (
    BYTES,
    INT32S,
    INT64_TABLE,
    INT64S,
    Native,
    address_of,
    copy_bytes,
    helper,
    int64s,
    kernel,
    key_partition,
    store_byte,
)
from mainstem.record.native.native_varint import delta_fits, put_varint, varint_bytes

# Rows of the notes on records: a column for each. A size of -1 is null. Headers are a range of the notes on headers.
KEY_AT, KEY_SIZE, VALUE_AT, VALUE_SIZE, TIMESTAMP, FIRST_HEADER, HEADERS_END = range(7)
# Rows of the notes on headers.
NAME_AT, NAME_SIZE, HEADER_AT, HEADER_SIZE = range(4)
HEADER_NOTE_ROWS = 4
# Columns of the table of payloads that ``write_payloads`` fills, a row a batch.
START, END, RECORDS, BASE_TIME, MAX_TIME = range(5)
PAYLOAD_COLUMNS = 5

RECORD_OVERHEAD_MAX = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""Of one record: its length, attributes, two deltas, the lengths of key and value, the number of headers."""
HEADER_OVERHEAD_MAX = 5 + 5


@helper
def _field_bytes(size: Native) -> Native:
    return varint_bytes(size) + (size if size > 0 else np.int64(0))


@helper
def _put_field(at: Native, source: Native, size: Native) -> Native:
    """Write length and bytes of a key, a value or a header's; the address after it."""
    at = put_varint(at, size)
    if size <= 0:
        return at
    copy_bytes(at, source, size)
    return at + size


@helper
def _headers_bytes(header_notes: Native, first: Native, end: Native) -> Native:
    total = varint_bytes(end - first)
    for header in range(first, end):
        total += _field_bytes(header_notes[NAME_SIZE, header]) + _field_bytes(header_notes[HEADER_SIZE, header])
    return total


@kernel(INT64_TABLE, INT64_TABLE, types.int64, BYTES, INT64_TABLE, returns=int64s(2))
def write_payloads(
    notes: Native, header_notes: Native, max_batch_bytes: Native, output: Native, payloads: Native
) -> Native:
    """Write the records one after the other, cut into payloads of batches of at most ``max_batch_bytes``.

    Fills a row of ``payloads`` for each; they lie in ``output`` side by side. Returns (payloads, -1), or (payloads,
    index) at the first record that would be too large for a batch of its own.
    """
    origin = address_of(output)
    at = origin
    batch: Native = np.int64(-1)
    count: Native = np.int64(0)
    room: Native = np.int64(-1)
    base_time: Native = np.int64(0)
    for n in range(notes.shape[1]):
        time = notes[TIMESTAMP, n]
        fixed = 1 + _field_bytes(notes[KEY_SIZE, n]) + _field_bytes(notes[VALUE_SIZE, n])
        fixed += _headers_bytes(header_notes, notes[FIRST_HEADER, n], notes[HEADERS_END, n])
        size = fixed + varint_bytes(time - base_time) + varint_bytes(count)
        if batch < 0 or varint_bytes(size) + size > room or not delta_fits(time, base_time):
            base_time, count, room = time, np.int64(0), max_batch_bytes - HEADER_BYTES
            size = fixed + 2
            if varint_bytes(size) + size > room:
                return batch + 1, np.int64(n)
            batch += 1
            payloads[batch, START] = at - origin
            payloads[batch, BASE_TIME] = payloads[batch, MAX_TIME] = time
        before = at
        at = put_varint(at, size)
        store_byte(at, np.int64(0))
        at = put_varint(at + 1, time - base_time)
        at = put_varint(at, count)
        at = _put_field(at, notes[KEY_AT, n], notes[KEY_SIZE, n])
        at = _put_field(at, notes[VALUE_AT, n], notes[VALUE_SIZE, n])
        at = put_varint(at, notes[HEADERS_END, n] - notes[FIRST_HEADER, n])
        for header in range(notes[FIRST_HEADER, n], notes[HEADERS_END, n]):
            at = _put_field(at, header_notes[NAME_AT, header], header_notes[NAME_SIZE, header])
            at = _put_field(at, header_notes[HEADER_AT, header], header_notes[HEADER_SIZE, header])
        room -= at - before
        count += 1
        payloads[batch, END] = at - origin
        payloads[batch, RECORDS] = count
        payloads[batch, MAX_TIME] = max(payloads[batch, MAX_TIME], time)
    return batch + 1, np.int64(-1)


@kernel(INT64S, INT64S, types.int64, INT32S, returns=types.void)
def partition_keys(addresses: Native, sizes: Native, partition_count: Native, partitions: Native) -> None:
    """The partition of each key, -1 for null."""
    for n in range(addresses.size):
        if sizes[n] < 0:
            partitions[n] = -1
        else:
            partitions[n] = key_partition(addresses[n], sizes[n], partition_count)
