"""Parses the cells that ``native_json`` has noted as numbers, times and text. All cells are known to be well-formed.

A kernel writes a value for each cell and 1 into ``fits``, or leaves both 0: for null, and for a value of another type.

Invariant: no read outside of a cell, no write outside of the tables.
"""

from __future__ import annotations

import numpy as np
from numba import types

from mainstem.record.native.native_json import (
    ESCAPED,
    FRACTION,
    INTEGER,
    LIST,
    MISSING,
    NULL,
    OBJECT,
    SPECIAL,
    TEXT,
    put_code_point,
    read_escape,
    skip_plain,
    skip_space,
)
from mainstem.record.native.native_kernel import (
    BYTES,
    INT32S,
    INT64S,
    READ_ONLY_BYTES,
    Native,
    address_of,
    copy_bytes,
    helper,
    kernel,
    load_byte,
    rare,
    store_byte,
)

INT64_DIGITS_MAX = 19
_EXPONENT_MAX = 100_000
_FLOAT64S = types.Array(types.float64, 1, "C")
_UINT64_TABLE = types.Array(types.uint64, 2, "C")
_POWERS = 10.0 ** np.arange(23)
_QUOTE, _BACKSLASH = 0x22, 0x5C


@helper
def _put_json_char(code: Native, to: Native) -> Native:
    """Write a character as it stands within a JSON string, escaped as Python's encoder does it."""
    short = np.int64(0)
    if code in (_QUOTE, _BACKSLASH):
        short = code
    elif code == 0x08:
        short = np.int64(0x62)
    elif code == 0x0C:
        short = np.int64(0x66)
    elif code == 0x0A:
        short = np.int64(0x6E)
    elif code == 0x0D:
        short = np.int64(0x72)
    elif code == 0x09:
        short = np.int64(0x74)
    if short != 0:
        store_byte(to, np.int64(_BACKSLASH))
        store_byte(to + 1, short)
        return to + 2
    if code >= 0x20:
        return put_code_point(code, to)
    low = code & 15
    store_byte(to, np.int64(_BACKSLASH))
    store_byte(to + 1, np.int64(0x75))
    store_byte(to + 2, np.int64(0x30))
    store_byte(to + 3, np.int64(0x30))
    store_byte(to + 4, 0x30 + (code >> 4))
    store_byte(to + 5, low + 0x30 if low < 10 else low + 0x57)
    return to + 6


@rare
def _put_string(at: Native, end: Native, to: Native, is_json: Native) -> Native:
    """Write what stands between quotes, its escapes read, or (``is_json``) written in their shortest form."""
    while at < end:
        after = skip_plain(at, end)
        copy_bytes(to, at, after - at)
        to += after - at
        at = after
        if at < end:
            code, at = read_escape(at, end)
            to = _put_json_char(code, to) if is_json else put_code_point(code, to)
    return to


@helper
def _put_run(begin: Native, end: Native, to: Native) -> Native:
    copy_bytes(to, begin, end - begin)
    return to + end - begin


@rare
def _put_json(at: Native, end: Native, to: Native) -> Native:
    """Write a list or an object without white space, without a comma after its last element."""
    run = at  # from here on all bytes are as they shall be written
    while at < end:
        byte = load_byte(at)
        if byte == _QUOTE:
            begin = at + 1
            at = skip_plain(begin, end)
            if load_byte(at) == _BACKSLASH:
                while load_byte(at) == _BACKSLASH:
                    _, at = read_escape(at, end)
                    at = skip_plain(at, end)
                to = _put_string(begin, at, _put_run(run, begin, to), True)
                run = at
            at += 1
        elif byte <= 0x20:
            to = _put_run(run, at, to)
            at = run = skip_space(at, end)
        elif byte == 0x2C:
            after = skip_space(at + 1, end)
            if load_byte(after) in (0x5D, 0x7D):
                to = _put_run(run, at, to)
                run = after
            elif after > at + 1:
                to = _put_run(run, at + 1, to)
                run = after
            at = after
        else:
            at += 1
    return _put_run(run, end, to)


@kernel(READ_ONLY_BYTES, INT64S, INT64S, BYTES, INT32S, BYTES, returns=types.void)
def write_texts(data: Native, starts: Native, ends: Native, kinds: Native, offsets: Native, target: Native) -> None:
    """The text of each cell, one after the other: a string's own, a number as it is written, else compact JSON.

    ``target`` must have room for all cells' bytes; ``offsets`` has one more than there are cells.
    """
    origin, begin = address_of(data), address_of(target)
    to = begin
    offsets[0] = 0
    for n in range(starts.size):
        at, end, kind = origin + starts[n], origin + ends[n], kinds[n]
        if kind == TEXT:
            copy_bytes(to, at + 1, end - at - 2)
            to += end - at - 2
        elif kind == ESCAPED:
            to = _put_string(at + 1, end - 1, to, False)
        elif kind in (LIST, OBJECT):
            to = _put_json(at, end, to)
        elif kind not in (MISSING, NULL):
            copy_bytes(to, at, end - at)
            to += end - at
        offsets[n + 1] = np.int32(to - begin)


@rare
def _parts(at: Native, end: Native) -> Native:
    """Of a number: (its first digit that is not 0, how many digits up to the last such, the power of ten after it).

    The value is those digits as an integer, times that power; no digits are zero.
    """
    if load_byte(at) == 0x2D:
        at += 1
    first = last = np.int64(-1)
    index = whole = np.int64(0)
    begin = at
    has_point = False
    exponent = np.int64(0)
    while at < end:
        byte = load_byte(at)
        if byte == 0x2E:
            has_point = True
        elif byte > 0x39:
            at += 1
            negative = load_byte(at) == 0x2D
            if load_byte(at) in (0x2B, 0x2D):
                at += 1
            while at < end:
                if exponent < _EXPONENT_MAX:
                    exponent = exponent * 10 + load_byte(at) - 0x30
                at += 1
            if negative:
                exponent = -exponent
            break
        else:
            if byte != 0x30:
                if first < 0:
                    first = index
                    begin = at
                last = index
            index += 1
            if not has_point:
                whole += 1
        at += 1
    if first < 0:
        return begin, np.int64(0), np.int64(0)
    return begin, last - first + 1, whole - 1 - last + exponent


@helper
def _digits(at: Native, count: Native) -> Native:
    """The integer that so many digits (at most 19) give; a point among them is passed over."""
    number: Native = np.uint64(0)
    while count > 0:
        byte = load_byte(at)
        if byte != 0x2E:
            number = number * np.uint64(10) + np.uint64(byte - 0x30)
            count -= 1
        at += 1
    return number


@kernel(READ_ONLY_BYTES, INT64S, INT64S, BYTES, types.int64, INT64S, BYTES, returns=types.void)
def read_integers(
    data: Native, starts: Native, ends: Native, kinds: Native, bits: Native, values: Native, fits: Native
) -> None:
    """Whole numbers that so many bits hold, however they are written: ``2``, ``2.0``, ``2e0``."""
    origin = address_of(data)
    most: Native = (np.uint64(1) << np.uint64(bits - 1)) - np.uint64(1)
    for n in range(starts.size):
        if kinds[n] not in (INTEGER, FRACTION):
            continue
        at, end = origin + starts[n], origin + ends[n]
        negative = load_byte(at) == 0x2D
        if kinds[n] == INTEGER and end - at < INT64_DIGITS_MAX:
            number = _digits(at + 1, end - at - 1) if negative else _digits(at, end - at)
        else:
            first, count, power = _parts(at, end)
            if count > 0 and (power < 0 or count + power > INT64_DIGITS_MAX):
                continue
            number = _digits(first, count)
            for _ in range(power):
                number *= np.uint64(10)
        if number > most + np.uint64(1 if negative else 0):
            continue
        values[n] = -np.int64(number) if negative else np.int64(number)
        fits[n] = 1


@kernel(READ_ONLY_BYTES, INT64S, INT64S, BYTES, types.boolean, _FLOAT64S, BYTES, BYTES, returns=types.void)
def read_floats(
    data: Native,
    starts: Native,
    ends: Native,
    kinds: Native,
    is_single: Native,
    values: Native,
    fits: Native,
    left: Native,
) -> None:
    """Numbers as the nearest floating ones, where one rounding gives it; the others are ``left``."""
    origin = address_of(data)
    most = np.uint64(1) << np.uint64(24 if is_single else 53)
    power_max = 10 if is_single else 22
    for n in range(starts.size):
        kind = kinds[n]
        at, end = origin + starts[n], origin + ends[n]
        if kind == SPECIAL:
            negative = load_byte(at) == 0x2D
            is_nan = (load_byte(at + (1 if negative else 0)) | 0x20) == 0x6E
            values[n] = np.nan if is_nan else (-np.inf if negative else np.inf)
            fits[n] = 1
        elif kind in (INTEGER, FRACTION):
            first, count, power = _parts(at, end)
            number = _digits(first, count) if count <= INT64_DIGITS_MAX else most + np.uint64(1)
            if number > most or power > power_max or power < -power_max:
                left[n] = 1
                continue
            value = np.float64(number)
            value = value * _POWERS[power] if power >= 0 else value / _POWERS[-power]
            # A float32's value is exact here or rounded once: its caller narrows it, so only exact ones pass.
            if is_single and np.float64(np.float32(value)) != value:
                left[n] = 1
                continue
            values[n] = -value if load_byte(at) == 0x2D else value
            fits[n] = 1


@kernel(
    READ_ONLY_BYTES,
    INT64S,
    INT64S,
    BYTES,
    types.int64,
    types.int64,
    _UINT64_TABLE,
    BYTES,
    returns=types.void,
)
def read_decimals(
    data: Native,
    starts: Native,
    ends: Native,
    kinds: Native,
    precision: Native,
    scale: Native,
    values: Native,
    fits: Native,
) -> None:
    """Numbers that the precision and scale hold exactly, as 128-bit integers of 10**-scale."""
    origin = address_of(data)
    mask: Native = np.uint64(0xFFFFFFFF)
    for n in range(starts.size):
        if kinds[n] not in (INTEGER, FRACTION):
            continue
        at, end = origin + starts[n], origin + ends[n]
        negative = load_byte(at) == 0x2D
        first, count, power = _parts(at, end)
        if count > 0 and (power < -scale or count + power > precision - scale):
            continue
        a: Native = np.uint64(0)
        b: Native = np.uint64(0)
        c: Native = np.uint64(0)
        d: Native = np.uint64(0)
        digits = count + (power + scale if count > 0 else 0)
        for i in range(digits):
            digit: Native = np.uint64(0)
            if i < count:
                if load_byte(first) == 0x2E:
                    first += 1
                digit = np.uint64(load_byte(first) - 0x30)
                first += 1
            a = a * np.uint64(10) + digit
            b = b * np.uint64(10) + (a >> np.uint64(32))
            c = c * np.uint64(10) + (b >> np.uint64(32))
            d = d * np.uint64(10) + (c >> np.uint64(32))
            a &= mask
            b &= mask
            c &= mask
        low, high = a | (b << np.uint64(32)), c | (d << np.uint64(32))
        if negative:
            low = ~low + np.uint64(1)
            high = ~high + np.uint64(1 if low == 0 else 0)
        values[n, 0] = low
        values[n, 1] = high
        fits[n] = 1


@helper
def _two(at: Native) -> Native:
    """The number that two digits give; negative where they are not there."""
    tens, ones = load_byte(at) - 0x30, load_byte(at + 1) - 0x30
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else np.int64(-1)


@helper
def _days(year: Native, month: Native, day: Native) -> Native:
    """Days from 1970-01-01 on in the proleptic Gregorian calendar (Hinnant's days_from_civil)."""
    if month <= 2:
        year -= 1
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@rare
def _date(at: Native, end: Native) -> Native:
    """(whether a date of the years 1 to 9999 begins here, its day)."""
    none = (False, np.int64(0))
    if end - at < 10 or load_byte(at + 4) != 0x2D or load_byte(at + 7) != 0x2D:
        return none
    century, rest, month, day = _two(at), _two(at + 2), _two(at + 5), _two(at + 8)
    if century < 0 or rest < 0 or month < 1 or month > 12 or day < 1:
        return none
    year = century * 100 + rest
    length = 31
    if month in (4, 6, 9, 11):
        length = 30
    elif month == 2:
        length = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    if year < 1 or day > length:
        return none
    return True, _days(year, month, day)


@rare
def _zone(at: Native, end: Native) -> Native:
    """(whether ``Z``, ``+hh``, ``+hhmm`` or ``+hh:mm`` stands here and nothing else, its minutes before UTC)."""
    none = (False, np.int64(0))
    byte = load_byte(at)
    if byte == 0x5A:
        return end - at == 1, np.int64(0)
    if byte not in (0x2B, 0x2D) or end - at < 3:
        return none
    hours, minutes = _two(at + 1), np.int64(0)
    left = end - at - 3
    if left == 2:
        minutes = _two(at + 3)
    elif left == 3 and load_byte(at + 3) == 0x3A:
        minutes = _two(at + 4)
    elif left != 0:
        return none
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return none
    offset = hours * 60 + minutes
    return True, -offset if byte == 0x2B else offset


@rare
def _time(at: Native, end: Native) -> Native:
    """(whether ``hh[:mm[:ss[.f]]]`` and perhaps a zone stand here and nothing else, microseconds of the day in UTC)."""
    none = (False, np.int64(0))
    if end - at < 2:
        return none
    hour = _two(at)
    minute = second = micros = np.int64(0)
    at += 2
    if end - at >= 3 and load_byte(at) == 0x3A:
        minute = _two(at + 1)
        at += 3
        if end - at >= 3 and load_byte(at) == 0x3A:
            second = _two(at + 1)
            at += 3
            if at < end and load_byte(at) == 0x2E:
                at += 1
                count = 0
                while at < end and 0x30 <= load_byte(at) <= 0x39:
                    if count < 6:
                        micros = micros * 10 + load_byte(at) - 0x30
                    count += 1
                    at += 1
                if count == 0 or count > 9:
                    return none
                while count < 6:
                    micros *= 10
                    count += 1
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return none
    shift = np.int64(0)
    if at < end:
        fits, shift = _zone(at, end)
        if not fits:
            return none
    return True, ((hour * 60 + minute + shift) * 60 + second) * 1_000_000 + micros


@kernel(READ_ONLY_BYTES, INT64S, INT64S, BYTES, types.boolean, INT64S, BYTES, returns=types.void)
def read_times(
    data: Native, starts: Native, ends: Native, kinds: Native, is_date: Native, values: Native, fits: Native
) -> None:
    """Strings that are ISO 8601 dates, as days, or times, as microseconds in UTC, both since 1970."""
    origin = address_of(data)
    first_micros, last_micros = _days(1, 1, 1) * 86_400_000_000, _days(10_000, 1, 1) * 86_400_000_000
    for n in range(starts.size):
        if kinds[n] != TEXT:
            continue
        at, end = origin + starts[n] + 1, origin + ends[n] - 1
        good, day = _date(at, end)
        if not good:
            continue
        at += 10
        micros = np.int64(0)
        if at < end:
            if is_date or load_byte(at) not in (0x54, 0x20):
                continue
            good, micros = _time(at + 1, end)
            if not good:
                continue
        if is_date:
            values[n] = day
            fits[n] = 1
        else:
            micros += day * 86_400_000_000
            if first_micros <= micros < last_micros:
                values[n] = micros
                fits[n] = 1
