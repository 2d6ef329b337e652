"""The native decoder of Protobuf: messages of one type into tables of numbers, from which columns are made.

A program has a row for each field of the message, sorted by the field's number; its columns are the constants below.
For each message and field with a place, ``first`` and ``second`` get a number and 0, or where bytes lie and how many
they are; a second of -1 is a field that is not there. Of repeated fields ``scan_messages`` counts the elements, and
``list_elements`` notes them. Messages inside of messages are bytes here: the caller scans them in the same way.

Invariants: no read outside of a message, no write outside of the tables, whatever the bytes say. A message is ``good``
only if its bytes are well-formed and in no way unusual. All others are left to Protobuf's own library: damaged ones,
groups, a message field that occurs twice (they would be merged), two fields of one oneof.
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
    helper,
    kernel,
    load_byte,
    load_little_endian,
    load_word,
    rare,
)
from mainstem.record.native.native_varint import from_zigzag, read_plain_varint

NUMBER, KIND, WIRE, PLACE, REPEATED, ONEOF, PROGRAM_COLUMNS = range(7)
"""A field's number, kind, wire type, row in the tables (-1: none; of a repeated field its row in the counts), whether
it is repeated, and the number of its oneof (-1: none)."""
BITS64, SIGNED32, UNSIGNED32, ZIGZAG32, ZIGZAG64, BOOLEAN, BYTES_KIND, TEXT, MESSAGE = range(9)
VARINT, FIXED64, LENGTH, _START_GROUP, _END_GROUP, FIXED32 = range(6)

_BAD = -1
_TAG_MAX = (1 << 32) - 1
_SHORT_BYTES = 5
"""The bytes that a tag or a size may have. Protobuf's library refuses longer ones, also of small numbers."""
_HIGH_BITS = 0x8080808080808080


@rare
def _is_utf8_slowly(at: Native, end: Native) -> Native:
    while at < end:
        lead = load_byte(at)
        at += 1
        if lead < 0x80:
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        count = np.int64(1) if lead < 0xE0 else (np.int64(2) if lead < 0xF0 else np.int64(3))
        if end - at < count:
            return False
        second = load_byte(at)
        least = 0xA0 if lead == 0xE0 else (0x90 if lead == 0xF0 else 0x80)
        most = 0x9F if lead == 0xED else (0x8F if lead == 0xF4 else 0xBF)
        if second < least or second > most:
            return False
        for i in range(1, count):
            if load_byte(at + i) & 0xC0 != 0x80:
                return False
        at += count
    return True


@helper
def _is_utf8(at: Native, size: Native) -> Native:
    end = at + size
    while end - at >= 8:
        if load_word(at) & np.uint64(_HIGH_BITS) != np.uint64(0):
            return _is_utf8_slowly(at, end)
        at += 8
    while at < end:
        if load_byte(at) >= 0x80:
            return _is_utf8_slowly(at, end)
        at += 1
    return True


@helper
def _next(at: Native, end: Native) -> Native:
    """(field's number, wire type, number or size, its bytes' address, address after it); that is -1 for a bad one."""
    zero: Native = np.int64(0)
    bad = (zero, zero, zero, zero, np.int64(_BAD))
    first = at
    tag, at = read_plain_varint(at, end)
    if at < 0 or at - first > _SHORT_BYTES or tag < 8 or tag > _TAG_MAX:
        return bad
    number, wire = tag >> 3, tag & 7
    if wire == VARINT:
        content, behind = read_plain_varint(at, end)
        return (number, wire, content, at, behind) if behind >= 0 else bad
    if wire == LENGTH:
        first = at
        size, at = read_plain_varint(at, end)
        if at < 0 or at - first > _SHORT_BYTES or size < 0 or size > end - at:
            return bad
        return number, wire, size, at, at + size
    if wire == FIXED64:
        return (number, wire, load_little_endian(at, np.int64(8)), at, at + 8) if end - at >= 8 else bad
    if wire == FIXED32:
        return (number, wire, load_little_endian(at, np.int64(4)), at, at + 4) if end - at >= 4 else bad
    return bad


@helper
def _row_of(program: Native, number: Native, likely: Native) -> Native:
    """The field's row in the program; -1 for an unknown field. Fields mostly come in the order of their numbers."""
    if likely < program.shape[0] and program[likely, NUMBER] == number:
        return likely
    low: Native = np.int64(0)
    high: Native = np.int64(program.shape[0])
    while low < high:
        middle = (low + high) >> 1
        if program[middle, NUMBER] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < program.shape[0] and program[low, NUMBER] == number else np.int64(-1)


@helper
def _number_of(kind: Native, bits: Native) -> Native:
    low = bits & np.int64(_TAG_MAX)
    if kind == SIGNED32:
        return (low ^ np.int64(1 << 31)) - np.int64(1 << 31)
    if kind == UNSIGNED32:
        return low
    if kind == ZIGZAG32:
        return from_zigzag(low)
    if kind == ZIGZAG64:
        return from_zigzag(bits)
    if kind == BOOLEAN:
        return np.int64(1) if bits != 0 else np.int64(0)
    return bits


@helper
def _packed_count(wire: Native, at: Native, end: Native) -> Native:
    """How many numbers are packed there; -1 when the bytes do not add up."""
    if wire in (FIXED32, FIXED64):
        width = np.int64(4) if wire == FIXED32 else np.int64(8)
        return (end - at) // width if (end - at) % width == 0 else np.int64(_BAD)
    count: Native = np.int64(0)
    while at < end:
        _, at = read_plain_varint(at, end)
        if at < 0:
            return np.int64(_BAD)
        count += 1
    return count


@helper
def _has_other_of_oneof(program: Native, row: Native, second: Native, n: Native) -> Native:
    oneof = program[row, ONEOF]
    if oneof >= 0:
        for other in range(program.shape[0]):
            if other != row and program[other, ONEOF] == oneof and second[program[other, PLACE], n] >= 0:
                return True
    return False


@helper
def _scan(
    origin: Native,
    at: Native,
    end: Native,
    program: Native,
    first: Native,
    second: Native,
    counts: Native,
    n: Native,
) -> Native:
    """Whether the bytes are a message that is read here."""
    likely: Native = np.int64(0)
    while at < end:
        number, wire, content, place, at = _next(at, end)
        if at < 0:
            return False
        row = _row_of(program, number, likely)
        if row < 0:
            continue
        likely = row + 1
        kind, own_wire, target = program[row, KIND], program[row, WIRE], program[row, PLACE]
        if wire != own_wire:
            if program[row, REPEATED] and wire == LENGTH:
                added = _packed_count(own_wire, place, at)
                if added < 0:
                    return False
                if target >= 0:
                    counts[target, n] += added
            continue  # a wrong wire type is an unknown field
        if kind == TEXT and not _is_utf8(place, content):
            return False
        if program[row, REPEATED]:
            if target >= 0:
                counts[target, n] += 1
            continue
        if target < 0:
            continue
        if (kind == MESSAGE and second[target, n] >= 0) or _has_other_of_oneof(program, row, second, n):
            return False
        if own_wire == LENGTH:
            first[target, n] = place - origin
            second[target, n] = content
        else:
            first[target, n] = _number_of(kind, content)
            second[target, n] = 0
    return True


@kernel(
    READ_ONLY_BYTES,
    INT64S,
    INT64S,
    INT64_TABLE,
    INT64_TABLE,
    INT64_TABLE,
    INT64_TABLE,
    BYTES,
    returns=types.void,
)
def scan_messages(
    data: Native,
    starts: Native,
    ends: Native,
    program: Native,
    first: Native,
    second: Native,
    counts: Native,
    good: Native,
) -> None:
    """Read each message (``data`` from its start to its end) into the tables, which come zeroed, ``second`` as -1.

    What the tables have of a message that is not ``good`` means nothing; its counts are 0.
    """
    origin = address_of(data)
    for n in range(good.size):
        start, end = starts[n], ends[n]
        fits = start >= 0 and start <= end and end <= data.size
        if fits:
            fits = _scan(origin, origin + start, origin + end, program, first, second, counts, n)
        good[n] = np.uint8(1) if fits else np.uint8(0)
        if not fits:
            for row in range(counts.shape[0]):
                counts[row, n] = 0


@helper
def _note(
    kind: Native, wire: Native, content: Native, place: Native, first: Native, second: Native, to: Native
) -> None:
    if wire == LENGTH:
        first[to] = place
        second[to] = content
    else:
        first[to] = _number_of(kind, content)
        second[to] = 0


@helper
def _unpack(kind: Native, wire: Native, at: Native, end: Native, first: Native, second: Native, to: Native) -> Native:
    """Note the numbers that are packed there; the place after the last of them."""
    while at < end:
        if wire == VARINT:
            content, at = read_plain_varint(at, end)
        else:
            width = np.int64(4) if wire == FIXED32 else np.int64(8)
            content = load_little_endian(at, width)
            at += width
        first[to] = _number_of(kind, content)
        second[to] = 0
        to += 1
    return to


@kernel(
    READ_ONLY_BYTES,
    INT64S,
    INT64S,
    INT64_TABLE,
    BYTES,
    INT64_TABLE,
    INT64S,
    INT64S,
    returns=types.void,
)
def list_elements(
    data: Native,
    starts: Native,
    ends: Native,
    program: Native,
    good: Native,
    places: Native,
    first: Native,
    second: Native,
) -> None:
    """Note the elements of repeated fields of the messages that ``scan_messages`` found good.

    ``places`` has where those of a field and message begin in ``first`` and ``second``, and is moved after them.
    """
    origin = address_of(data)
    for n in range(good.size):
        at, end = origin + starts[n], origin + ends[n]
        likely: Native = np.int64(0)
        while good[n] and at < end:
            number, wire, content, place, at = _next(at, end)
            row = _row_of(program, number, likely)
            if row < 0:
                continue
            likely = row + 1
            target = program[row, PLACE]
            if not program[row, REPEATED] or target < 0:
                continue
            kind, own_wire = program[row, KIND], program[row, WIRE]
            to = places[target, n]
            if wire == own_wire:
                _note(kind, wire, content, place - origin, first, second, to)
                places[target, n] = to + 1
            elif wire == LENGTH:
                places[target, n] = _unpack(kind, own_wire, place, at, first, second, to)
