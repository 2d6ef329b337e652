"""The native decoder of Avro values: records of flat fields into two tables of numbers, from which columns are made.

A program has a row for each field of the writer's record, in order: (kind, column or -1, which branch of a union is
null or -1, the size of a fixed or the number of an enum's symbols). For each value and column, ``first`` and ``second``
get a number and 0, or where bytes lie and how many they are; a second of -1 is null.

Invariant: no read outside of a value, no write outside of the tables, whatever the bytes say. A value that its program
does not read to the last byte is not ``good``, and null in all columns.
"""

from __future__ import annotations

import numpy as np
from numba import types

from mainstem.record.native.native_kernel import (
    BYTES,
    INT32S,
    INT64_TABLE,
    READ_ONLY_BYTES,
    Native,
    address_of,
    helper,
    kernel,
    load_little_endian,
)
from mainstem.record.native.native_varint import from_zigzag, read_plain_varint

NULL, BOOLEAN, LONG, FLOAT, DOUBLE, BYTES_KIND, FIXED, ENUM = range(8)
_BAD = -1


@helper
def _number(at: Native, end: Native) -> Native:
    """(number, address after it); the address is -1 when it runs over ``end`` or has more than 64 bits."""
    number, at = read_plain_varint(at, end)
    return from_zigzag(number), at


@helper
def _field(kind: Native, size: Native, at: Native, end: Native) -> Native:
    """(first, second, address after the field); the address is -1 when the bytes do not add up."""
    bad = (np.int64(0), np.int64(_BAD), np.int64(_BAD))
    if kind == NULL:
        return np.int64(0), np.int64(_BAD), at
    if kind in (LONG, ENUM):
        number, at = _number(at, end)
        if at < 0 or (kind == ENUM and (number < 0 or number >= size)):
            return bad
        return number, np.int64(0), at
    if kind == BYTES_KIND:
        size, at = _number(at, end)
        if at < 0 or size < 0:
            return bad
    elif kind == BOOLEAN:
        size = np.int64(1)
    elif kind == FLOAT:
        size = np.int64(4)
    elif kind == DOUBLE:
        size = np.int64(8)
    if size > end - at:
        return bad
    if kind in (BYTES_KIND, FIXED):
        return at, size, at + size
    number = load_little_endian(at, size)
    if kind == BOOLEAN and number > 1:
        return bad
    return number, np.int64(0), at + size


@helper
def _value(
    origin: Native, at: Native, end: Native, program: Native, first: Native, second: Native, n: Native
) -> Native:
    """Whether the bytes are a record of the program's, to the last."""
    for row in range(program.shape[0]):
        kind, column, null_branch, size = program[row, 0], program[row, 1], program[row, 2], program[row, 3]
        if null_branch >= 0:
            branch, at = _number(at, end)
            if at < 0 or branch < 0 or branch > 1:
                return False
            if branch == null_branch:
                kind = np.int64(NULL)
        number, length, at = _field(kind, size, at, end)
        if at < 0:
            return False
        if column >= 0:
            is_place = kind in (BYTES_KIND, FIXED)
            first[column, n] = number - origin if is_place else number
            second[column, n] = length
    return at == end


@kernel(
    READ_ONLY_BYTES,
    INT32S,
    types.int64,
    INT64_TABLE,
    INT64_TABLE,
    INT64_TABLE,
    BYTES,
    returns=types.void,
)
def decode_values(
    data: Native, offsets: Native, skipped: Native, program: Native, first: Native, second: Native, good: Native
) -> None:
    """Read each value (``data`` between its offsets, without the first ``skipped`` bytes) into the tables."""
    origin = address_of(data)
    for n in range(good.size):
        start, end = np.int64(offsets[n]), np.int64(offsets[n + 1])
        fits = end - start >= skipped and end <= data.size and start >= 0
        if fits:
            fits = _value(origin, origin + start + skipped, origin + end, program, first, second, n)
        good[n] = np.uint8(1) if fits else np.uint8(0)
        if not fits:
            for column in range(first.shape[0]):
                first[column, n] = 0
                second[column, n] = _BAD
