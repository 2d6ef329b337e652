"""The native encoder of Avro values: columns as two tables of numbers into records of flat fields.

A program has a row for each field, in order: (kind, which branch of a union is null or -1). For each field and value,
``first`` has a number, or where its bytes lie in ``source``; ``second`` has how many bytes there are, 0 for a number,
and -1 for null. Kinds are those of ``native_avro``; a float's number is its bits. ``RAW`` is bytes that are encoded
already: records, arrays and maps, which the caller has made in the same way.

Invariant: ``write_values`` writes exactly the bytes that ``measure_values`` has counted. The caller has checked that
the places of bytes lie in the source, and that a field without a null branch has no null.
"""

from __future__ import annotations

import numpy as np
from numba import types

from mainstem.record.native.native_avro import BOOLEAN, BYTES_KIND, DOUBLE, FLOAT, LONG
from mainstem.record.native.native_kernel import (
    BYTES,
    INT64_TABLE,
    INT64S,
    READ_ONLY_BYTES,
    Native,
    address_of,
    copy_bytes,
    helper,
    kernel,
    store_byte,
)
from mainstem.record.native.native_varint import put_varint, varint_bytes

RAW = 8
"""A kind beside those of ``native_avro``."""


@helper
def _put_little_endian(at: Native, number: Native, count: Native) -> Native:
    for i in range(count):
        store_byte(at + i, (number >> np.int64(8 * i)) & 0xFF)
    return at + count


@helper
def _field_bytes(kind: Native, first: Native, second: Native) -> Native:
    if kind == LONG:
        return varint_bytes(first)
    if kind == BYTES_KIND:
        return varint_bytes(second) + second
    if kind == RAW:
        return second
    if kind == FLOAT:
        return np.int64(4)
    return np.int64(8) if kind == DOUBLE else np.int64(1)


@helper
def _put_field(at: Native, source: Native, kind: Native, first: Native, second: Native) -> Native:
    if kind == LONG:
        return put_varint(at, first)
    if kind in (BYTES_KIND, RAW):
        if kind == BYTES_KIND:
            at = put_varint(at, second)
        copy_bytes(at, source + first, second)
        return at + second
    if kind == FLOAT:
        return _put_little_endian(at, first, np.int64(4))
    if kind == DOUBLE:
        return _put_little_endian(at, first, np.int64(8))
    if kind == BOOLEAN:
        store_byte(at, first)
    return at + 1


@kernel(types.int64, INT64_TABLE, INT64_TABLE, INT64_TABLE, INT64S, returns=types.void)
def measure_values(prefix_bytes: Native, program: Native, first: Native, second: Native, ends: Native) -> None:
    """Where each value ends in the output: ``ends`` has a place for each value."""
    total: Native = np.int64(0)
    for n in range(ends.size):
        total += prefix_bytes
        for row in range(program.shape[0]):
            if program[row, 1] >= 0:
                total += 1
            if second[row, n] >= 0:
                total += _field_bytes(program[row, 0], first[row, n], second[row, n])
        ends[n] = total


@kernel(READ_ONLY_BYTES, READ_ONLY_BYTES, INT64_TABLE, INT64_TABLE, INT64_TABLE, types.int64, BYTES, returns=types.void)
def write_values(
    prefix: Native, data: Native, program: Native, first: Native, second: Native, count: Native, output: Native
) -> None:
    """Write the values one after the other, each after the prefix."""
    source, at, head = address_of(data), address_of(output), address_of(prefix)
    for n in range(count):
        copy_bytes(at, head, np.int64(prefix.size))
        at += prefix.size
        for row in range(program.shape[0]):
            null_branch, is_null = program[row, 1], second[row, n] < 0
            if null_branch >= 0:
                store_byte(at, np.int64(2) * (null_branch if is_null else 1 - null_branch))
                at += 1
            if not is_null:
                at = _put_field(at, source, program[row, 0], first[row, n], second[row, n])
