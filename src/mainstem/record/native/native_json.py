"""The native scanner of JSON values: whether each is one JSON object, and where the fields asked for lie in it.

Grammar: RFC 8259, at most ``DEPTH_MAX`` levels deep, without half a surrogate pair. Forgiven, because many writers
emit them: a comma after the last element, and NaN and Infinity in any case. Of a name that occurs twice the last
counts. UTF-8 itself is checked by the caller.

A cell is (where its text begins, where it ends, its kind); positions count from the data's begin. The text of a string
includes its quotes. ``native_json_cells`` makes values of cells.

Invariant: no read outside of a value, no write outside of the tables, whatever the bytes say.
"""

from __future__ import annotations

import numpy as np
from numba import types

from mainstem.json_depth import DEPTH_MAX
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
    load_word,
    rare,
    store_byte,
)

MISSING, NULL, TEXT, ESCAPED, INTEGER, FRACTION, TRUE, FALSE, LIST, OBJECT, SPECIAL = range(11)
"""Kinds of cells. ``ESCAPED``: text with a backslash in it. ``SPECIAL``: NaN or an infinity."""
GOOD, NO_JSON, NO_OBJECT, TOO_DEEP, LONE_SURROGATE = range(5)
"""The kinds of values."""

_DEEP, _SURROGATE = -1, -2  # an address is never so low: any other negative number is where the text goes wrong
_BAD = -3
_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_BELOW = np.uint64(0x2020202020202020)
_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _PLUS, _POINT = 0x22, 0x5C, 0x2C, 0x3A, 0x2D, 0x2B, 0x2E
_OPEN_LIST, _CLOSE_LIST, _OPEN_OBJECT, _CLOSE_OBJECT = 0x5B, 0x5D, 0x7B, 0x7D


@helper
def skip_space(at: Native, end: Native) -> Native:
    """The first byte that is not white space."""
    while at < end:
        byte = load_byte(at)
        if byte > 0x20 or (byte != 0x20 and byte != 0x0A and byte != 0x0D and byte != 0x09):
            break
        at += 1
    return at


@helper
def skip_plain(at: Native, end: Native) -> Native:
    """The first byte from here on that may end a string, escape something or be refused in it."""
    while end - at >= 8:
        word = load_word(at)
        quote, backslash = word ^ _QUOTES, word ^ _BACKSLASHES
        found = ((quote - _ONES) & ~quote) | ((backslash - _ONES) & ~backslash) | ((word - _BELOW) & ~word)
        if found & _HIGHS:
            break
        at += 8
    while at < end:
        byte = load_byte(at)
        if byte in (_QUOTE, _BACKSLASH) or byte < 0x20:
            break
        at += 1
    return at


@helper
def hex_digit(byte: Native) -> Native:
    """The value of a hexadecimal digit; -1 of any other byte."""
    if 0x30 <= byte <= 0x39:
        return byte - 0x30
    lower = byte | 0x20
    if 0x61 <= lower <= 0x66:
        return lower - 0x57
    return np.int64(-1)


@rare
def code_unit(at: Native, end: Native) -> Native:
    """The number that four hexadecimal digits give; -1 where they are not there."""
    if end - at < 4:
        return np.int64(-1)
    number: Native = np.int64(0)
    for i in range(4):
        digit = hex_digit(load_byte(at + i))
        if digit < 0:
            return np.int64(-1)
        number = number * 16 + digit
    return number


@rare
def _skip_escape(at: Native, end: Native) -> Native:
    """The address after the escape whose backslash is here; negative when there is none."""
    if end - at < 2:
        return -at
    byte = load_byte(at + 1)
    if byte == 0x75:  # u
        unit = code_unit(at + 2, end)
        if unit < 0:
            return -at
        if unit < 0xD800 or unit > 0xDFFF:
            return at + 6
        if unit > 0xDBFF or end - at < 12 or load_byte(at + 6) != _BACKSLASH or load_byte(at + 7) != 0x75:
            return np.int64(_SURROGATE)
        low = code_unit(at + 8, end)
        return at + 12 if 0xDC00 <= low <= 0xDFFF else np.int64(_SURROGATE)
    if byte in (0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74):
        return at + 2
    return -at


@rare
def _skip_string(at: Native, end: Native) -> Native:
    """(after the string whose first quote is here, or negative; whether something is escaped in it)."""
    begin = at
    escaped = False
    at += 1
    while True:
        at = skip_plain(at, end)
        if at >= end:
            return -begin, escaped
        byte = load_byte(at)
        if byte == _QUOTE:
            return at + 1, escaped
        if byte != _BACKSLASH:
            return -at, escaped
        escaped = True
        at = _skip_escape(at, end)
        if at < 0:
            return at, escaped


@helper
def _skip_digits(at: Native, end: Native) -> Native:
    while at < end and 0x30 <= load_byte(at) <= 0x39:
        at += 1
    return at


@rare
def _skip_word(at: Native, end: Native) -> Native:
    """(after NaN, inf or infinity in any case, its kind); a negative address where there is none."""
    begin = at
    if load_byte(at) == _MINUS:
        at += 1
    if end - at < 3:
        return -begin, np.int64(MISSING)
    first, second, third = load_byte(at) | 0x20, load_byte(at + 1) | 0x20, load_byte(at + 2) | 0x20
    if first == 0x6E and second == 0x61 and third == 0x6E:
        return at + 3, np.int64(SPECIAL)
    if first != 0x69 or second != 0x6E or third != 0x66:
        return -begin, np.int64(MISSING)
    if (
        end - at >= 8
        and load_byte(at + 3) | 0x20 == 0x69
        and load_byte(at + 4) | 0x20 == 0x6E
        and load_byte(at + 5) | 0x20 == 0x69
        and load_byte(at + 6) | 0x20 == 0x74
        and load_byte(at + 7) | 0x20 == 0x79
    ):
        return at + 8, np.int64(SPECIAL)
    return at + 3, np.int64(SPECIAL)


@rare
def _skip_number(at: Native, end: Native) -> Native:
    """(after the number that begins here, its kind); a negative address where there is none."""
    begin = at
    kind = np.int64(INTEGER)
    if load_byte(at) == _MINUS:
        at += 1
    if at < end and load_byte(at) == 0x30:
        after = at + 1
    else:
        after = _skip_digits(at, end)
    if after == at:
        return _skip_word(begin, end)
    at = after
    if at < end and load_byte(at) == _POINT:
        kind = np.int64(FRACTION)
        after = _skip_digits(at + 1, end)
        if after == at + 1:
            return -at, kind
        at = after
    if at < end and (load_byte(at) | 0x20) == 0x65:
        kind = np.int64(FRACTION)
        at += 1
        if at < end and load_byte(at) in (_PLUS, _MINUS):
            at += 1
        after = _skip_digits(at, end)
        if after == at:
            return -at, kind
        at = after
    return at, kind


@helper
def _are(at: Native, a: Native, b: Native, c: Native) -> Native:
    return load_byte(at) == a and load_byte(at + 1) == b and load_byte(at + 2) == c


@rare
def skip_scalar(at: Native, end: Native) -> Native:
    """(after what begins here and is neither list nor object, its kind); a negative address where there is none."""
    byte = load_byte(at)
    if byte == _QUOTE:
        after, escaped = _skip_string(at, end)
        return after, np.int64(ESCAPED) if escaped else np.int64(TEXT)
    left = end - at
    if byte == 0x74 and left >= 4 and _are(at + 1, 0x72, 0x75, 0x65):
        return at + 4, np.int64(TRUE)
    if byte == 0x66 and left >= 5 and load_byte(at + 1) == 0x61 and _are(at + 2, 0x6C, 0x73, 0x65):
        return at + 5, np.int64(FALSE)
    if byte == 0x6E and left >= 4 and _are(at + 1, 0x75, 0x6C, 0x6C):
        return at + 4, np.int64(NULL)
    return _skip_number(at, end)


@helper
def _close_of(stack: Native, depth: Native) -> Native:
    return np.int64(_CLOSE_OBJECT) if load_byte(stack + depth) == 1 else np.int64(_CLOSE_LIST)


@helper
def _skip_name(at: Native, end: Native) -> Native:
    """The value after the name and the colon that begin here; negative where they do not."""
    if load_byte(at) != _QUOTE:
        return -at
    at, _ = _skip_string(at, end)
    if at < 0:
        return at
    at = skip_space(at, end)
    if at >= end or load_byte(at) != _COLON:
        return -at
    at = skip_space(at + 1, end)
    return at if at < end else -at


@rare
def _skip_container(at: Native, end: Native, depth: Native, stack: Native) -> Native:
    """The address after the list or object whose bracket is here; negative where it is not well-formed."""
    base = depth
    opens = True
    while True:
        if opens:
            depth += 1
            if depth > DEPTH_MAX:
                return np.int64(_DEEP)
            store_byte(stack + depth, np.int64(1) if load_byte(at) == _OPEN_OBJECT else np.int64(0))
            at = skip_space(at + 1, end)
            opens = False
        if at >= end:
            return -at
        if load_byte(at) == _close_of(stack, depth):
            at += 1
            depth -= 1
            if depth == base:
                return at
        else:
            if load_byte(stack + depth) == 1:
                at = _skip_name(at, end)
                if at < 0:
                    return at
            if load_byte(at) in (_OPEN_LIST, _OPEN_OBJECT):
                opens = True
                continue
            at, _ = skip_scalar(at, end)
            if at < 0:
                return at
        at = skip_space(at, end)
        if at >= end:
            return -at
        if load_byte(at) == _COMMA:
            at = skip_space(at + 1, end)
        elif load_byte(at) != _close_of(stack, depth):
            return -at


@rare
def skip_value(at: Native, end: Native, depth: Native, stack: Native) -> Native:
    """(after the value that begins here, its kind); a negative address where it is not well-formed."""
    byte = load_byte(at)
    if byte == _OPEN_OBJECT:
        return _skip_container(at, end, depth, stack), np.int64(OBJECT)
    if byte == _OPEN_LIST:
        return _skip_container(at, end, depth, stack), np.int64(LIST)
    return skip_scalar(at, end)


@helper
def put_code_point(code: Native, to: Native) -> Native:
    """Write a code point in UTF-8; the address after it."""
    if code < 0x80:
        store_byte(to, code)
        return to + 1
    if code < 0x800:
        store_byte(to, 0xC0 | code >> 6)
        store_byte(to + 1, 0x80 | code & 0x3F)
        return to + 2
    if code < 0x10000:
        store_byte(to, 0xE0 | code >> 12)
        store_byte(to + 1, 0x80 | code >> 6 & 0x3F)
        store_byte(to + 2, 0x80 | code & 0x3F)
        return to + 3
    store_byte(to, 0xF0 | code >> 18)
    store_byte(to + 1, 0x80 | code >> 12 & 0x3F)
    store_byte(to + 2, 0x80 | code >> 6 & 0x3F)
    store_byte(to + 3, 0x80 | code & 0x3F)
    return to + 4


@rare
def read_escape(at: Native, end: Native) -> Native:
    """(the code point of a valid escape; the address after it)."""
    byte = load_byte(at + 1)
    if byte == 0x75:
        code = code_unit(at + 2, end)
        if 0xD800 <= code <= 0xDBFF:
            return 0x10000 + ((code - 0xD800) << 10) + code_unit(at + 8, end) - 0xDC00, at + 12
        return code, at + 6
    if byte == 0x62:
        byte = np.int64(0x08)
    elif byte == 0x66:
        byte = np.int64(0x0C)
    elif byte == 0x6E:
        byte = np.int64(0x0A)
    elif byte == 0x72:
        byte = np.int64(0x0D)
    elif byte == 0x74:
        byte = np.int64(0x09)
    return byte, at + 2


@rare
def _unescaped_is(at: Native, end: Native, name: Native, name_end: Native, scratch: Native) -> Native:
    """Whether the text between the addresses, once its escapes are read, is the name."""
    while at < end and name < name_end:
        after = scratch + 1
        if load_byte(at) == _BACKSLASH:
            code, at = read_escape(at, end)
            after = put_code_point(code, scratch)
        else:
            store_byte(scratch, load_byte(at))
            at += 1
        for place in range(scratch, after):
            if name >= name_end or load_byte(place) != load_byte(name):
                return False
            name += 1
    return at == end and name == name_end


@helper
def _same(at: Native, name: Native, size: Native) -> Native:
    i: Native = 0
    while i < size and load_byte(at + i) == load_byte(name + i):
        i += 1
    return i == size


@helper
def _column_of(
    at: Native, end: Native, escaped: Native, names: Native, name_ends: Native, expected: Native, scratch: Native
) -> Native:
    """The column of the name between the addresses, searched from ``expected`` on; -1 when none has it."""
    count = name_ends.size - 1
    column = expected
    for _ in range(count):
        if column >= count:
            column = np.int64(0)
        name, name_end = names + name_ends[column], names + name_ends[column + 1]
        if escaped:
            if _unescaped_is(at, end, name, name_end, scratch):
                return column
        elif end - at == name_end - name and _same(at, name, end - at):
            return column
        column += 1
    return np.int64(-1)


@helper
def _verdict(failed: Native) -> Native:
    if failed == _DEEP:
        return np.uint8(TOO_DEEP)
    return np.uint8(LONE_SURROGATE) if failed == _SURROGATE else np.uint8(NO_JSON)


@helper
def _scan_object(  # noqa: PLR0913 - what a kernel works on are its parameters
    at: Native,
    end: Native,
    origin: Native,
    stack: Native,
    names: Native,
    name_ends: Native,
    firsts: Native,
    lasts: Native,
    kinds: Native,
    n: Native,
) -> Native:
    """Note the cells of the object whose bracket is here; negative where it is not one to its last byte, else 0."""
    scratch = stack + DEPTH_MAX + 4
    at = skip_space(at + 1, end)
    expected = np.int64(0)
    while at < end:
        if load_byte(at) == _CLOSE_OBJECT:
            return np.int64(0) if skip_space(at + 1, end) == end else np.int64(_BAD)
        if load_byte(at) != _QUOTE:
            break
        name = at + 1
        at, escaped = _skip_string(at, end)
        if at < 0:
            return at
        name_end = at - 1
        at = skip_space(at, end)
        if at >= end or load_byte(at) != _COLON:
            break
        at = skip_space(at + 1, end)
        if at >= end:
            break
        first = at
        at, kind = skip_value(at, end, np.int64(1), stack)
        if at < 0:
            return at
        column = _column_of(name, name_end, escaped, names, name_ends, expected, scratch)
        if column >= 0:
            firsts[column, n] = first - origin
            lasts[column, n] = at - origin
            kinds[column, n] = np.uint8(kind)
            expected = column + 1
        at = skip_space(at, end)
        if at < end and load_byte(at) == _COMMA:
            at = skip_space(at + 1, end)
        elif at >= end or load_byte(at) != _CLOSE_OBJECT:
            break
    return np.int64(_BAD)


@helper
def _other_verdict(at: Native, end: Native, stack: Native) -> Native:
    """The kind of a value that does not begin like an object."""
    if at >= end:
        return np.uint8(NO_JSON)
    after, _ = skip_value(at, end, np.int64(0), stack)
    if after < 0:
        return _verdict(after)
    return np.uint8(NO_OBJECT) if skip_space(after, end) == end else np.uint8(NO_JSON)


@kernel(
    READ_ONLY_BYTES,
    INT64S,
    INT64S,
    READ_ONLY_BYTES,
    INT64S,
    INT64_TABLE,
    INT64_TABLE,
    types.Array(types.uint8, 2, "C"),
    BYTES,
    returns=types.void,
)
def scan_objects(  # noqa: PLR0913 - a kernel's tables are its parameters
    data: Native,
    starts: Native,
    ends: Native,
    names: Native,
    name_ends: Native,
    firsts: Native,
    lasts: Native,
    kinds: Native,
    verdicts: Native,
) -> None:
    """Of each value (``data`` between start and end): its verdict, and the cell of each column.

    ``names``: the columns' names, one after the other, and ``name_ends`` where each ends, after a 0. The tables have
    a row for each column; ``kinds`` must be MISSING everywhere before.
    """
    origin, names_at = address_of(data), address_of(names)
    scratch_bytes = np.empty(DEPTH_MAX + 16, np.uint8)
    stack = address_of(scratch_bytes)
    for n in range(starts.size):
        end = origin + ends[n]
        at = skip_space(origin + starts[n], end)
        if at >= end or load_byte(at) != _OPEN_OBJECT:
            verdicts[n] = _other_verdict(at, end, stack)
            continue
        failed = _scan_object(at, end, origin, stack, names_at, name_ends, firsts, lasts, kinds, n)
        verdicts[n] = np.uint8(GOOD)
        if failed < 0:
            verdicts[n] = _verdict(failed)
            for column in range(name_ends.size - 1):
                kinds[column, n] = np.uint8(MISSING)


@kernel(READ_ONLY_BYTES, INT64S, INT64S, INT64S, types.int64, returns=types.void)
def count_elements(data: Native, starts: Native, ends: Native, counts: Native, is_map: Native) -> None:
    """How many elements each list, or pairs each object has; all are known to be well-formed, or empty."""
    origin = address_of(data)
    stack_bytes = np.empty(DEPTH_MAX + 16, np.uint8)
    stack = address_of(stack_bytes)
    for n in range(starts.size):
        end = origin + ends[n]
        at = skip_space(origin + starts[n] + 1, end)
        count = 0
        while at < end - 1:
            if is_map != 0:
                at = _skip_name(at, end)
            at, _ = skip_value(at, end, np.int64(0), stack)
            count += 1
            at = skip_space(at, end)
            if load_byte(at) == _COMMA:
                at = skip_space(at + 1, end)
        counts[n] = count


@kernel(READ_ONLY_BYTES, INT64S, INT64S, INT64_TABLE, INT64_TABLE, BYTES, types.int64, returns=types.void)
def note_elements(
    data: Native, starts: Native, ends: Native, names: Native, values: Native, kinds: Native, is_map: Native
) -> None:
    """The cells of all elements; ``names`` and ``values`` have a row of firsts and one of lasts."""
    origin = address_of(data)
    stack_bytes = np.empty(DEPTH_MAX + 16, np.uint8)
    stack = address_of(stack_bytes)
    element = 0
    for n in range(starts.size):
        end = origin + ends[n]
        at = skip_space(origin + starts[n] + 1, end)
        while at < end - 1:
            if is_map != 0:
                names[0, element] = at - origin
                after, _ = _skip_string(at, end)
                names[1, element] = after - origin
                at = _skip_name(at, end)
            values[0, element] = at - origin
            at, kind = skip_value(at, end, np.int64(0), stack)
            values[1, element] = at - origin
            kinds[element] = np.uint8(kind)
            element += 1
            at = skip_space(at, end)
            if load_byte(at) == _COMMA:
                at = skip_space(at + 1, end)


@kernel(READ_ONLY_BYTES, INT64S, INT64S, BYTES, BYTES, returns=types.void)
def note_kinds(data: Native, starts: Native, ends: Native, kinds: Native, unquoted: Native) -> None:
    """The kind of each text that should be one scalar to its last byte; MISSING where it is not.

    Where ``unquoted`` is 1, the place of a string is between its quotes.
    """
    origin = address_of(data)
    for n in range(starts.size):
        at, end = origin + starts[n] + unquoted[n], origin + ends[n] - unquoted[n]
        kinds[n] = np.uint8(MISSING)
        if at < end:
            after, kind = skip_scalar(at, end)
            if after == end:
                kinds[n] = np.uint8(kind)
