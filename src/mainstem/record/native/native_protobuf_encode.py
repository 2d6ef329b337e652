"""The native encoder of Protobuf: columns as tables of numbers into messages of one type.

A program has a row for each field, sorted by the field's number: (tag, wire type of a value, form). For each field and
message, ``first`` and ``second`` have a number and 0, or where bytes lie in ``source`` and how many they are; a second
of -1 is a field that is not written. Of a repeated field they have where its elements begin in ``elements``, and their
number. Messages inside of messages are bytes here, made in the same way. A float's number is its bits.

Invariant: ``write_messages`` writes exactly the bytes that ``measure_messages`` has counted. The caller has checked
that all places lie in the source and in the elements.
"""

from __future__ import annotations

import numpy as np
from numba import types

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
from mainstem.record.native.native_protobuf import FIXED32, LENGTH, VARINT
from mainstem.record.native.native_varint import plain_varint_bytes, put_plain_varint

SINGLE, REPEATED, PACKED = range(3)


@helper
def _value_bytes(wire: Native, first: Native, second: Native) -> Native:
    if wire == VARINT:
        return plain_varint_bytes(first)
    if wire == LENGTH:
        return plain_varint_bytes(second) + second
    return np.int64(4) if wire == FIXED32 else np.int64(8)


@helper
def _put_value(at: Native, source: Native, wire: Native, first: Native, second: Native) -> Native:
    if wire == VARINT:
        return put_plain_varint(at, first)
    if wire == LENGTH:
        at = put_plain_varint(at, second)
        copy_bytes(at, source + first, second)
        return at + second
    count = np.int64(4) if wire == FIXED32 else np.int64(8)
    for i in range(count):
        store_byte(at + i, (first >> np.int64(8 * i)) & 0xFF)
    return at + count


@helper
def _elements_bytes(tag_bytes: Native, wire: Native, elements: Native, start: Native, count: Native) -> Native:
    total: Native = np.int64(0)
    for i in range(start, start + count):
        total += tag_bytes + _value_bytes(wire, elements[0, i], elements[1, i])
    return total


@helper
def _field_bytes(tag: Native, wire: Native, form: Native, first: Native, second: Native, elements: Native) -> Native:
    tag_bytes = plain_varint_bytes(tag)
    if form == SINGLE:
        return tag_bytes + _value_bytes(wire, first, second)
    if form == REPEATED:
        return _elements_bytes(tag_bytes, wire, elements, first, second)
    payload = _elements_bytes(np.int64(0), wire, elements, first, second)
    return tag_bytes + plain_varint_bytes(payload) + payload if second > 0 else np.int64(0)


@helper
def _put_field(
    at: Native,
    source: Native,
    tag: Native,
    wire: Native,
    form: Native,
    first: Native,
    second: Native,
    elements: Native,
) -> Native:
    if form == SINGLE:
        return _put_value(put_plain_varint(at, tag), source, wire, first, second)
    if form == PACKED and second > 0:
        at = put_plain_varint(at, tag)
        at = put_plain_varint(at, _elements_bytes(np.int64(0), wire, elements, first, second))
    for i in range(first, first + second):
        if form == REPEATED:
            at = put_plain_varint(at, tag)
        at = _put_value(at, source, wire, elements[0, i], elements[1, i])
    return at


@kernel(types.int64, INT64_TABLE, INT64_TABLE, INT64_TABLE, INT64_TABLE, INT64S, returns=types.void)
def measure_messages(
    prefix_bytes: Native, program: Native, first: Native, second: Native, elements: Native, ends: Native
) -> None:
    """Where each message ends in the output: ``ends`` has a place for each message."""
    total: Native = np.int64(0)
    for n in range(ends.size):
        total += prefix_bytes
        for row in range(program.shape[0]):
            if second[row, n] >= 0:
                tag, wire, form = program[row, 0], program[row, 1], program[row, 2]
                total += _field_bytes(tag, wire, form, first[row, n], second[row, n], elements)
        ends[n] = total


@kernel(
    READ_ONLY_BYTES,
    READ_ONLY_BYTES,
    INT64_TABLE,
    INT64_TABLE,
    INT64_TABLE,
    INT64_TABLE,
    types.int64,
    BYTES,
    returns=types.void,
)
def write_messages(
    prefix: Native,
    data: Native,
    program: Native,
    first: Native,
    second: Native,
    elements: Native,
    count: Native,
    output: Native,
) -> None:
    """Write the messages one after the other, each after the prefix."""
    source, at, head = address_of(data), address_of(output), address_of(prefix)
    for n in range(count):
        copy_bytes(at, head, np.int64(prefix.size))
        at += prefix.size
        for row in range(program.shape[0]):
            if second[row, n] >= 0:
                tag, wire, form = program[row, 0], program[row, 1], program[row, 2]
                at = _put_field(at, source, tag, wire, form, first[row, n], second[row, n], elements)
