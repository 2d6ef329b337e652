"""Changes of rows as records of Kafka, in one pass: what ``rows`` and ``table_writer`` make, at many times their rate.

``python -m mainstem.postgres.native.native_rows`` writes the machine code to its standard output, for ``kept_code``: a
capture that has it never loads numba. ``row_code`` has the layout of the memory.

What is simple goes this way: transactions, and insertions, changes and deletions whose values are all there and have a
form in their column's type. At anything else the code stops, and has done nothing of that message. The code is one
piece without data of its own, so constant texts and tables come with each call.

Invariant: no read outside a message, no write outside the rooms that were given, whatever the bytes say.
"""

from __future__ import annotations

import os
import sys

import numpy as np

from mainstem.postgres.native.native_values import (
    BACKSLASH,
    BYTES,
    COMMA,
    QUOTE,
    TEXT,
    big_endian,
    copy_short,
    get_number,
    put_decimal,
    put_hex,
    put_text,
    put_time,
    put_token,
    set_number,
)
from mainstem.postgres.native.row_code import (
    COLUMN_WORDS,
    HEADERS_MAX,
    LARGE_BYTES,
    PROGRAM_WORDS,
    RESULTS,
    STATE_WORDS,
    CallField,
    ProgramField,
    StateField,
    Stop,
    Text,
)
from mainstem.record.native.native_kernel import Native, helper, key_partition, load_byte, machine_code, store_byte
from mainstem.record.native.native_varint import put_varint, varint_bytes

_NICENESS = 10
_EPOCH_US = 946_684_800_000_000
_LATEST_US = 253_402_300_800_000_000  # the year 10000
_NULL, _UNCHANGED = -1, -2
_BEGIN_BYTES, _COMMIT_BYTES = 21, 26
_INSERT, _UPDATE, _DELETE = 0x49, 0x55, 0x44
_OLD_ROW, _NEW_ROW, _OLD_KEY = 0x4F, 0x4E, 0x4B
_CREATED, _UPDATED, _DELETED, _READ = 0x63, 0x75, 0x64, 0x72
_ENVELOPE_BYTES = 320
"""The most that an envelope has beside both rows and the source's place."""
_RECORD_BYTES = 40
"""The most that a record has beside key, value and headers."""
# Constants of the code: numba takes numbers, not members of an enumeration.
_LINES, _DATA, _LENGTHS, _COUNT = (
    int(CallField.LINES),
    int(CallField.DATA),
    int(CallField.LENGTHS),
    int(CallField.COUNT),
)
_FIRST, _OFFSET, _PROGRAMS = int(CallField.FIRST), int(CallField.OFFSET), int(CallField.PROGRAMS)
_PROGRAM_COUNT, _SPANS, _SCRATCH = int(CallField.PROGRAM_COUNT), int(CallField.SPANS), int(CallField.SCRATCH)
_SCRATCH_BYTES, _NOW_MS, _STATE = int(CallField.SCRATCH_BYTES), int(CallField.NOW_MS), int(CallField.STATE)
_XIDS, _XIDS_MAX, _TEXTS = int(CallField.XIDS), int(CallField.XIDS_MAX), int(CallField.TEXTS)
_IS_INSIDE, _COMMIT_LSN, _COMMIT_US = int(StateField.IS_INSIDE), int(StateField.COMMIT_LSN), int(StateField.COMMIT_US)
_XID, _END_LSN, _RECORDS, _LARGE = (
    int(StateField.XID),
    int(StateField.END_LSN),
    int(StateField.RECORDS),
    int(StateField.LARGE),
)
_TOUCHED, _TOUCHED_AT = int(StateField.TOUCHED), int(StateField.TOUCHED_AT)
_FULL_TARGET, _HEADER_BYTES, _HEADERS = int(StateField.TARGET), int(StateField.HEADER_BYTES), 8 * STATE_WORDS
_RELATION, _COLUMNS, _KEYS = int(ProgramField.RELATION), int(ProgramField.COLUMNS), int(ProgramField.KEYS)
_IS_ENVELOPED, _PLACE, _PLACE_BYTES = (
    int(ProgramField.IS_ENVELOPED),
    int(ProgramField.PLACE),
    int(ProgramField.PLACE_BYTES),
)
_TARGETS, _PARTITIONS, _OVERHEAD = int(ProgramField.TARGETS), int(ProgramField.PARTITIONS), int(ProgramField.OVERHEAD)
_DONE, _OTHER, _FULL, _MANY = map(int, (Stop.DONE, Stop.OTHER, Stop.FULL, Stop.MANY))
_LSN_NAME, _XID_NAME, _TIME_NAME = int(Text.LSN), int(Text.XID), int(Text.COMMIT_TS)
_BEFORE, _AFTER, _SOURCE, _TIME = map(int, (Text.BEFORE, Text.AFTER, Text.SOURCE, Text.TIME))
_NULL_TEXT = int(Text.NULL)
_SOURCE_LSN, _OPERATION, _OPERATION_TIME = int(Text.SOURCE_LSN), int(Text.OPERATION), int(Text.OPERATION_TIME)
_SNAPSHOT, _NO_SNAPSHOT = int(Text.SNAPSHOT), int(Text.NO_SNAPSHOT)
_UNESCAPED = int(Text.UNESCAPED)
_ADDRESS, _ROOM, _SIZE, _RECORD_COUNT, _BASE_TIME, _MAX_TIME, _SEEN = range(7)  # BatchField
_TARGET_BYTES = 8 * 7


@helper
def _begin_transaction(at: Native, state: Native, texts: Native) -> Native:
    """Take in a Begin message, and write the headers of its records; whether its time can be written."""
    lsn = big_endian(at + 1, np.int64(8))
    time_us = big_endian(at + 9, np.int64(8)) + _EPOCH_US
    xid = big_endian(at + 17, np.int64(4))
    if time_us < 0 or time_us >= _LATEST_US or lsn < 0:
        return False
    headers = state + _HEADERS
    place = put_text(headers, texts, _LSN_NAME) + 1
    end = put_hex(place, lsn >> 32)
    store_byte(end, 0x2F)
    end = put_hex(end + 1, lsn & 0xFFFFFFFF)
    store_byte(place - 1, 2 * (end - place))
    place = put_text(end, texts, _XID_NAME) + 1
    end = put_decimal(place, xid)
    store_byte(place - 1, 2 * (end - place))
    place = put_text(end, texts, _TIME_NAME) + 1
    end = put_time(place, time_us)
    store_byte(place - 1, 2 * (end - place))
    set_number(state, _HEADER_BYTES, end - headers)
    set_number(state, _IS_INSIDE, 1)
    set_number(state, _COMMIT_LSN, lsn)
    set_number(state, _COMMIT_US, time_us)
    set_number(state, _XID, xid)
    return True


@helper
def _parse_tuple(at: Native, end: Native, columns: Native, spans: Native) -> Native:
    """Where the values of a row lie; the address after it, or -1."""
    if end - at < 2 or big_endian(at, np.int64(2)) != columns:
        return np.int64(-1)
    at += 2
    for column in range(columns):
        if at >= end:
            return np.int64(-1)
        kind = load_byte(at)
        at += 1
        if kind == 0x74:  # t: text
            if end - at < 4:
                return np.int64(-1)
            size = big_endian(at, np.int64(4))
            at += 4
            if size > end - at:
                return np.int64(-1)
            set_number(spans, 2 * column, at)
            set_number(spans, 2 * column + 1, size)
            at += size
        elif kind == 0x6E:  # n: null
            set_number(spans, 2 * column + 1, _NULL)
        elif kind == 0x75:  # u: unchanged
            set_number(spans, 2 * column + 1, _UNCHANGED)
        else:
            return np.int64(-1)
    return at


@helper
def _parse_line(at: Native, end: Native, columns: Native, spans: Native, scratch: Native, texts: Native) -> Native:
    """The same of a line of COPY; values with escapes are written to ``scratch``. The end of these, or -1."""
    unescaped = get_number(texts, 2 * _UNESCAPED)
    end -= 1
    if end < at or load_byte(end) != 10:
        return np.int64(-1)
    for column in range(columns):
        start = at
        has_escape = False
        while at < end and load_byte(at) != 9:
            if load_byte(at) == BACKSLASH:
                has_escape = True
                at += 1
            at += 1
        if at > end or (at == end) != (column == columns - 1):
            return np.int64(-1)
        size = at - start
        if has_escape and size == 2 and load_byte(start + 1) == 0x4E:
            size = np.int64(_NULL)
        elif has_escape:
            source, start = start, scratch
            while source < at:
                byte = load_byte(source)
                if byte == BACKSLASH:
                    source += 1
                    byte = load_byte(unescaped + load_byte(source))
                store_byte(scratch, byte)
                scratch += 1
                source += 1
            size = scratch - start
        set_number(spans, 2 * column, start)
        set_number(spans, 2 * column + 1, size)
        at += 1
    return scratch


@helper
def _put_row(at: Native, program: Native, spans: Native, texts: Native) -> Native:
    """A row as an object of JSON; -1 when a value is missing or has no form."""
    columns = program + 8 * PROGRAM_WORDS
    store_byte(at, 0x7B)
    at += 1
    for column in range(get_number(program, _COLUMNS)):
        if column > 0:
            store_byte(at, COMMA)
            at += 1
        described = columns + 8 * COLUMN_WORDS * column
        at = copy_short(at, get_number(described, 1), get_number(described, 2))
        size = get_number(spans, 2 * column + 1)
        if size == _NULL:
            at = put_text(at, texts, _NULL_TEXT)
        elif size < 0:
            return np.int64(-1)
        else:
            at = put_token(at, get_number(described, 0), get_number(spans, 2 * column), size, texts)
            if at < 0:
                return at
    store_byte(at, 0x7D)
    return at + 1


@helper
def _put_key(at: Native, program: Native, spans: Native, texts: Native) -> Native:
    """The key of a row; -1 when it has none that is simple."""
    columns = program + 8 * PROGRAM_WORDS
    places = columns + 8 * COLUMN_WORDS * get_number(program, _COLUMNS)
    count = get_number(program, _KEYS)
    start = at
    for key in range(count):
        column = get_number(places, key)
        kind, source, size = (
            get_number(columns, COLUMN_WORDS * column),
            get_number(spans, 2 * column),
            get_number(spans, 2 * column + 1),
        )
        if size < 0:
            return np.int64(-1)
        if count > 1:
            store_byte(at, 0x5B if key == 0 else COMMA)
            at += 1
        end = put_token(at, kind, source, size, texts)
        if end < 0:
            return end
        if count == 1 and kind == TEXT:
            end = copy_short(start, source, size)
        elif count == 1 and load_byte(start) == QUOTE:
            if kind > BYTES:
                return np.int64(-1)
            for i in range(end - start - 2):
                store_byte(start + i, load_byte(start + 1 + i))
            end -= 2
        at = end
    if count > 1:
        store_byte(at, 0x5D)
        at += 1
    return at


@helper
def _put_source(at: Native, program: Native, state: Native, texts: Native, operation: Native, now_ms: Native) -> Native:
    """The end of an envelope, from its source on."""
    at = put_text(at, texts, _SOURCE)
    at = copy_short(at, get_number(program, _PLACE), get_number(program, _PLACE_BYTES))
    at = put_text(at, texts, _TIME)
    at = put_decimal(at, get_number(state, _COMMIT_US) // 1_000)
    at = put_text(at, texts, np.int64(_SNAPSHOT if operation == _READ else _NO_SNAPSHOT))
    at = put_decimal(at, get_number(state, _XID))
    at = put_text(at, texts, _SOURCE_LSN)
    at = put_decimal(at, get_number(state, _COMMIT_LSN))
    at = put_text(at, texts, _OPERATION)
    store_byte(at, operation)
    at = put_text(at + 1, texts, _OPERATION_TIME)
    at = put_decimal(at, now_ms)
    store_byte(at, 0x7D)
    return at + 1


@helper
def _put_record(
    target: Native, key: Native, key_size: Native, value: Native, value_size: Native, state: Native
) -> Native:
    """Add a record to a batch that has room for it. A value of size -1 is null."""
    headers, headers_size = state + _HEADERS, get_number(state, _HEADER_BYTES)
    time_ms = get_number(state, _COMMIT_US) // 1_000
    count, used = get_number(target, _RECORD_COUNT), get_number(target, _SIZE)
    if used == get_number(target, _SEEN):  # the first one that the owner does not know of
        touched = get_number(state, _TOUCHED)
        set_number(get_number(state, _TOUCHED_AT), touched, target)
        set_number(state, _TOUCHED, touched + 1)
    if count == 0:
        set_number(target, _BASE_TIME, time_ms)
        set_number(target, _MAX_TIME, time_ms)
    elif time_ms > get_number(target, _MAX_TIME):
        set_number(target, _MAX_TIME, time_ms)
    delta = time_ms - get_number(target, _BASE_TIME)
    kept: Native = np.int64(0)
    if value_size > 0:
        kept = value_size
    body = 1 + varint_bytes(delta) + varint_bytes(count) + varint_bytes(key_size) + key_size
    body += varint_bytes(value_size) + kept + headers_size
    at = put_varint(get_number(target, _ADDRESS) + used, body)
    store_byte(at, 0)
    at = put_varint(at + 1, delta)
    at = put_varint(at, count)
    at = copy_short(put_varint(at, key_size), key, key_size)
    at = copy_short(put_varint(at, value_size), value, kept)
    at = copy_short(at, headers, headers_size)
    set_number(target, _SIZE, at - get_number(target, _ADDRESS))
    set_number(target, _RECORD_COUNT, count + 1)
    set_number(state, _RECORDS, get_number(state, _RECORDS) + 1)
    if value_size >= LARGE_BYTES:
        set_number(state, _LARGE, get_number(state, _LARGE) + 1)
    return at


@helper
def _same(one: Native, one_size: Native, other: Native, other_size: Native) -> Native:
    if one_size != other_size:
        return False
    end = one + one_size
    while one < end and load_byte(one) == load_byte(other):
        one += 1
        other += 1
    return one == end


@helper
def _read_change(at: Native, end: Native, program: Native, new: Native, old: Native) -> Native:
    """Where the values of a change lie: the new row's, and the old one's. -1, or whether it has an old row."""
    kind, columns = load_byte(at), get_number(program, _COLUMNS)
    part = load_byte(at + 5)
    at += 6
    has_old = kind != _INSERT and part != _NEW_ROW
    if has_old:
        if part != _OLD_ROW and (part != _OLD_KEY or kind != _DELETE):
            return np.int64(-1)
        at = _parse_tuple(at, end, columns, old)
        if at < 0 or kind == _DELETE:
            return np.int64(1) if at == end else np.int64(-1)
        if at >= end:
            return np.int64(-1)
        part = load_byte(at)
        at += 1
    if kind == _DELETE or part != _NEW_ROW or _parse_tuple(at, end, columns, new) != end:
        return np.int64(-1)
    if has_old:
        for column in range(columns):
            if get_number(new, 2 * column + 1) == _UNCHANGED and get_number(old, 2 * column + 1) != _NULL:
                set_number(new, 2 * column, get_number(old, 2 * column))
                set_number(new, 2 * column + 1, get_number(old, 2 * column + 1))
    return np.int64(has_old)


@helper
def _is_complete(program: Native, spans: Native) -> Native:
    """Whether the row has all of its values."""
    unchanged: Native = np.int64(0)
    for column in range(get_number(program, _COLUMNS)):
        unchanged += get_number(spans, 2 * column + 1) == _UNCHANGED
    return unchanged == 0


@helper
def _encode(asked: Native, program: Native, scratch: Native, spans: Native, kind: Native, has_old: Native) -> Native:
    """Write the records of a change, whose values lie at ``spans``: the new row, then the old one. Returns a Stop."""
    texts, state, now_ms = get_number(asked, _TEXTS), get_number(asked, _STATE), get_number(asked, _NOW_MS)
    old = spans + 16 * get_number(program, _COLUMNS)
    is_enveloped = get_number(program, _IS_ENVELOPED) != 0
    is_deleted = kind == _DELETE
    key = scratch
    value = _put_key(key, program, old if is_deleted else spans, texts)
    if value < 0:
        return np.int64(_OTHER)
    key_size = value - key
    at = value
    if has_old and not is_deleted:
        end = _put_key(at, program, old, texts)
        if end < 0 or not _same(key, key_size, at, end - at):
            return np.int64(_OTHER)
    has_before = is_enveloped and has_old and _is_complete(program, old)
    for part in range(2):  # the row before, and the row after
        if is_enveloped:
            at = put_text(at, texts, np.int64(_BEFORE if part == 0 else _AFTER))
        is_there = has_before if part == 0 else not is_deleted
        if is_there:
            at = _put_row(at, program, old if part == 0 else spans, texts)
            if at < 0:
                return np.int64(_OTHER)
        elif is_enveloped:
            at = put_text(at, texts, _NULL_TEXT)
    operation = _CREATED if kind == _INSERT else _UPDATED if kind == _UPDATE else kind
    if is_deleted:
        operation = _DELETED
    if is_enveloped:
        at = _put_source(at, program, state, texts, np.int64(operation), now_ms)
    partition: Native = np.int64(0)
    if get_number(program, _PARTITIONS) > 1:
        partition = key_partition(key, key_size, get_number(program, _PARTITIONS))
    target = get_number(program, _TARGETS) + _TARGET_BYTES * partition
    overhead = _RECORD_BYTES + key_size + get_number(state, _HEADER_BYTES)
    needed = overhead + at - value + (overhead if is_deleted and is_enveloped else 0)
    if needed > get_number(target, _ROOM) - get_number(target, _SIZE):
        set_number(state, _FULL_TARGET, target)
        return np.int64(_FULL)
    if is_enveloped or not is_deleted:
        _put_record(target, key, key_size, value, at - value, state)
    if is_deleted:
        _put_record(target, key, key_size, value, np.int64(_NULL), state)
    return np.int64(_DONE)


@helper
def _program_of(asked: Native, at: Native) -> Native:
    """The program of the table that a change names; 0 when it has none."""
    programs, relation = get_number(asked, _PROGRAMS), big_endian(at + 1, np.int64(4))
    for number in range(get_number(asked, _PROGRAM_COUNT)):
        program = get_number(programs, number)
        if get_number(program, _RELATION) == relation:
            return program
    return np.int64(0)


@helper
def _fits(asked: Native, program: Native, size: Native) -> Native:
    """Whether a key and both rows of a message fit the room for them; each byte takes six at most."""
    bound = 20 * size + 2 * get_number(program, _OVERHEAD) + get_number(program, _PLACE_BYTES) + _ENVELOPE_BYTES
    return bound <= get_number(asked, _SCRATCH_BYTES)


def encode_messages(asked: Native) -> Native:
    """Encode messages, from one on, until one is not simple. At the address ``asked`` lie the numbers of ``CallField``.

    Returns (a ``Stop``, the message that comes next, where it begins in the data, transactions that have ended).
    """
    is_lines = get_number(asked, _LINES) != 0
    data, lengths, count = get_number(asked, _DATA), get_number(asked, _LENGTHS), get_number(asked, _COUNT)
    spans, scratch, state, xids = (
        get_number(asked, _SPANS),
        get_number(asked, _SCRATCH),
        get_number(asked, _STATE),
        get_number(asked, _XIDS),
    )
    index, at = get_number(asked, _FIRST), data + get_number(asked, _OFFSET)
    ended: Native = np.int64(0)
    stop: Native = np.int64(_DONE)
    program: Native = np.int64(0)
    if is_lines:
        program = get_number(get_number(asked, _PROGRAMS), np.int64(0))
    while index < count and stop == _DONE:
        size = get_number(lengths, index)
        end = at + size
        kind: Native = np.int64(_READ)
        if not is_lines and size > 6:
            kind = load_byte(at)
        is_change = kind == _INSERT or kind == _UPDATE or kind == _DELETE  # a tuple would be data
        if is_lines or is_change:
            if not is_lines and (program == 0 or get_number(program, _RELATION) != big_endian(at + 1, np.int64(4))):
                program = _program_of(asked, at)
            stop = np.int64(_OTHER)
            if program != 0 and (is_lines or size > 6) and _fits(asked, program, size):
                room = scratch
                has_old: Native = np.int64(0)
                if is_lines:
                    room = _parse_line(
                        at, end, get_number(program, _COLUMNS), spans, scratch, get_number(asked, _TEXTS)
                    )
                else:
                    has_old = _read_change(at, end, program, spans, spans + 16 * get_number(program, _COLUMNS))
                if room >= 0 and has_old >= 0:
                    stop = _encode(asked, program, room, spans, kind, has_old != 0)
        elif kind == 0x42 and size == _BEGIN_BYTES:
            if not _begin_transaction(at, state, get_number(asked, _TEXTS)):
                stop = np.int64(_OTHER)
        elif kind == 0x43 and size == _COMMIT_BYTES and big_endian(at + 10, np.int64(8)) >= 0:
            if ended == get_number(asked, _XIDS_MAX):
                stop = np.int64(_MANY)
            else:
                set_number(xids, ended, get_number(state, _XID))
                ended += 1
                set_number(state, _END_LSN, max(get_number(state, _END_LSN), big_endian(at + 10, np.int64(8))))
                set_number(state, _IS_INSIDE, 0)
        else:
            stop = np.int64(_OTHER)
        if stop == _DONE:
            index += 1
            at = end
    return stop, np.int64(index), at - data, ended


assert HEADERS_MAX > 3 * 64

if __name__ == "__main__":
    os.nice(_NICENESS)
    sys.stdout.buffer.write(machine_code(encode_messages, 1, RESULTS))
