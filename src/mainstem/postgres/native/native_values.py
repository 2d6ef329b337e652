"""Values of PostgreSQL as JSON, and numbers and times as text: helpers of ``native_rows``. ``row_code`` has the layout.

Each function writes at an address and returns the address after it; -1 for a value without a form in its column's
type.
Invariant: no read outside a value; what is written takes at most six bytes for each byte of the value, and eight more.
"""

from __future__ import annotations

import numpy as np

from mainstem.postgres.native.row_code import Kind, Text
from mainstem.record.native.native_kernel import Native, helper, load_byte, load_word, store_byte, store_word

_DAY_US = 86_400_000_000
_DEPTH_MAX = 300
QUOTE, BACKSLASH, COMMA = 0x22, 0x5C, 0x2C
# Constants of the code: numba takes numbers, not members of an enumeration.
_PLAIN, TEXT, _BOOLEAN, _DECIMAL = map(int, (Kind.PLAIN, Kind.TEXT, Kind.BOOLEAN, Kind.DECIMAL))
_DATE, _TIMESTAMP_TZ, BYTES = map(int, (Kind.DATE, Kind.TIMESTAMP_TZ, Kind.BYTES))
_TRUE, _FALSE = int(Text.TRUE), int(Text.FALSE)
_ESCAPED = int(Text.ESCAPED)


@helper
def get_number(at: Native, index: Native) -> Native:
    """A number of those that lie at an address."""
    return np.int64(load_word(at + 8 * index))


@helper
def set_number(at: Native, index: Native, number: Native) -> Native:
    """Write one of the numbers that lie at an address."""
    store_word(at + 8 * index, np.int64(number))


@helper
def copy_short(target: Native, source: Native, size: Native) -> Native:
    """Copy bytes, eight at a time; the address after them."""
    end = source + size
    while end - source >= 8:
        store_word(target, np.int64(load_word(source)))
        target += 8
        source += 8
    while source < end:
        store_byte(target, load_byte(source))
        target += 1
        source += 1
    return target


@helper
def put_text(at: Native, texts: Native, which: Native) -> Native:
    """One of the constant texts."""
    return copy_short(at, get_number(texts, 2 * which), get_number(texts, 2 * which + 1))


@helper
def big_endian(at: Native, count: Native) -> Native:
    """An unsigned number of so many bytes."""
    number: Native = np.int64(0)
    for i in range(count):
        number = number << 8 | load_byte(at + i)
    return number


@helper
def put_decimal(at: Native, number: Native) -> Native:
    """A number that is not negative, in decimal."""
    rest = np.uint64(number) // np.uint64(10)
    digits: Native = np.int64(1)
    while rest > 0:
        rest = rest // np.uint64(10)
        digits += 1
    end = at + digits
    rest = np.uint64(number)
    place = end
    while place > at:
        place -= 1
        store_byte(place, np.int64(0x30) + np.int64(rest % np.uint64(10)))
        rest = rest // np.uint64(10)
    return end


@helper
def _put_digits(at: Native, number: Native, digits: Native) -> Native:
    """The lowest ``digits`` decimal digits."""
    for i in range(digits):
        store_byte(at + digits - 1 - i, np.int64(0x30) + number % 10)
        number = number // 10
    return at + digits


@helper
def put_hex(at: Native, number: Native) -> Native:
    """A number of 32 bits in hexadecimal, without zeros in front."""
    digits: Native = np.int64(1)
    while digits < 8 and number >> (4 * digits) != 0:
        digits += 1
    for i in range(digits):
        digit = (number >> (4 * (digits - 1 - i))) & 15
        store_byte(at + i, digit + (np.int64(0x30) if digit < 10 else np.int64(0x37)))
    return at + digits


@helper
def put_time(at: Native, time_us: Native) -> Native:
    """A time since 1970 as RFC 3339 in UTC; its fraction has six digits, or is left out when it is 0."""
    days, rest = time_us // _DAY_US, time_us % _DAY_US
    # The civil date of a day, by eras of 400 years that begin in March.
    shifted = days + 719_468
    era = shifted // 146_097
    day_of_era = shifted - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    at = _put_digits(at, year_of_era + era * 400 + (1 if month <= 2 else 0), np.int64(4))
    store_byte(at, 0x2D)
    at = _put_digits(at + 1, month, np.int64(2))
    store_byte(at, 0x2D)
    at = _put_digits(at + 1, day_of_year - (153 * shifted_month + 2) // 5 + 1, np.int64(2))
    store_byte(at, 0x54)
    seconds, fraction = rest // 1_000_000, rest % 1_000_000
    at = _put_digits(at + 1, seconds // 3_600, np.int64(2))
    store_byte(at, 0x3A)
    at = _put_digits(at + 1, seconds // 60 % 60, np.int64(2))
    store_byte(at, 0x3A)
    at = _put_digits(at + 1, seconds % 60, np.int64(2))
    if fraction != 0:
        store_byte(at, 0x2E)
        at = _put_digits(at + 1, fraction, np.int64(6))
    store_byte(at, 0x5A)
    return at + 1


@helper
def _is_plain(word: Native) -> Native:
    """Whether eight bytes are ASCII that JSON leaves as it is."""
    ones, high = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
    quotes, slashes = word ^ np.uint64(0x2222222222222222), word ^ np.uint64(0x5C5C5C5C5C5C5C5C)
    below = (word - np.uint64(0x2020202020202020)) & ~word
    found = below | ((quotes - ones) & ~quotes) | ((slashes - ones) & ~slashes) | word
    return (found & high) == 0


@helper
def _utf8_bytes(at: Native, end: Native) -> Native:
    """How many bytes the character has that begins here with a byte from 0x80 on; 0 when it is not UTF-8."""
    first = load_byte(at)
    count: Native = np.int64(2 if first < 0xE0 else 3 if first < 0xF0 else 4)
    if first < 0xC2 or first > 0xF4 or end - at < count:
        return np.int64(0)
    second = load_byte(at + 1)
    least: Native = np.int64(0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80)
    greatest: Native = np.int64(0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF)
    if second < least or second > greatest:
        return np.int64(0)
    for i in range(2, count):
        if load_byte(at + i) & 0xC0 != 0x80:
            return np.int64(0)
    return count


@helper
def _put_string(at: Native, source: Native, size: Native, escaped: Native) -> Native:
    """A text as a string of JSON; -1 when it is not UTF-8. ``escaped``: the table of short escapes."""
    end = source + size
    store_byte(at, QUOTE)
    at += 1
    while source < end:
        if end - source >= 8:
            word = load_word(source)
            if _is_plain(word):
                store_word(at, np.int64(word))
                at += 8
                source += 8
                continue
        byte = load_byte(source)
        if byte >= 0x80:
            count = _utf8_bytes(source, end)
            if count == 0:
                return np.int64(-1)
            for i in range(count):
                store_byte(at + i, load_byte(source + i))
            at += count
            source += count
            continue
        if byte == QUOTE or byte == BACKSLASH:  # noqa: SIM109 - one piece, without a tuple
            store_byte(at, BACKSLASH)
            at += 1
        elif byte < 0x20:
            store_byte(at, BACKSLASH)
            short = load_byte(escaped + byte)
            if short == 0:
                store_byte(at + 1, 0x75)
                store_byte(at + 2, 0x30)
                store_byte(at + 3, 0x30)
                store_byte(at + 4, 0x30 + (byte >> 4))
                at += 5
                byte = (byte & 15) + (np.int64(0x30) if byte & 15 < 10 else np.int64(0x57))
            else:
                at += 1
                byte = short
        store_byte(at, byte)
        at += 1
        source += 1
    store_byte(at, QUOTE)
    return at + 1


@helper
def _put_json(at: Native, source: Native, size: Native) -> Native:
    """JSON as it stands, without the blanks around it; -1 when it is not UTF-8, or nested deeply."""
    end = source + size
    while source < end and (load_byte(source) == 0x20 or 9 <= load_byte(source) <= 13):
        source += 1
    while source < end and (load_byte(end - 1) == 0x20 or 9 <= load_byte(end - 1) <= 13):
        end -= 1
    if source == end:
        return np.int64(-1)
    depth: Native = np.int64(0)
    is_string = False
    while source < end:
        byte = load_byte(source)
        count: Native = np.int64(1)
        if byte >= 0x80:
            count = _utf8_bytes(source, end)
            if count == 0:
                return np.int64(-1)
        elif byte == QUOTE:
            is_string = not is_string
        elif is_string:
            if byte == BACKSLASH and end - source > 1 and load_byte(source + 1) < 0x80:
                count = np.int64(2)
        elif byte == 0x5B or byte == 0x7B:
            depth += 1
            if depth > _DEPTH_MAX:
                return np.int64(-1)
        elif byte == 0x5D or byte == 0x7D:
            depth -= 1
        for i in range(count):
            store_byte(at + i, load_byte(source + i))
        at += count
        source += count
    return at


@helper
def _hex_digit(byte: Native) -> Native:
    """The number of a hexadecimal digit, -1 for another character."""
    if 0x30 <= byte <= 0x39:
        return byte - 0x30
    return byte - 0x57 if 0x61 <= byte <= 0x66 else np.int64(-1)


@helper
def _base64(number: Native) -> Native:
    if number < 26:
        return number + 0x41
    if number < 52:
        return number + 0x47
    if number < 62:
        return number - 4
    return np.int64(0x2B if number == 62 else 0x2F)


@helper
def _put_bytes(at: Native, source: Native, size: Native) -> Native:
    """Bytes in PostgreSQL's hexadecimal form as a string of base64; -1 for another form."""
    if size < 2 or size % 2 != 0 or load_byte(source) != BACKSLASH or load_byte(source + 1) != 0x78:
        return np.int64(-1)
    end = source + size
    source += 2
    store_byte(at, QUOTE)
    at += 1
    while source < end:
        group: Native = np.int64(0)
        count: Native = np.int64(0)
        for _ in range(3):
            group <<= 8
            if source < end:
                high, low = _hex_digit(load_byte(source)), _hex_digit(load_byte(source + 1))
                if high < 0 or low < 0:
                    return np.int64(-1)
                group |= high << 4 | low
                count += 1
                source += 2
        for i in range(4):
            store_byte(at + i, _base64((group >> (18 - 6 * i)) & 63) if i <= count else np.int64(0x3D))
        at += 4
    store_byte(at, QUOTE)
    return at + 1


@helper
def _is_bare(source: Native, size: Native) -> Native:
    """Whether all bytes may stand in JSON as they are, in quotes: letters, digits and signs of ASCII."""
    for i in range(size):
        byte = load_byte(source + i)
        if byte < 0x20 or byte >= 0x7F or byte == QUOTE or byte == BACKSLASH:  # noqa: SIM109 - as above
            return False
    return True


@helper
def _ends_with_digit(source: Native, size: Native) -> Native:
    last = load_byte(source + size - 1)
    return last >= 0x30 and last <= 0x39


@helper
def _put_moment(at: Native, kind: Native, source: Native, size: Native) -> Native:
    """A date or a time as JSON; -1 for one without a form in its type, such as infinity."""
    if size < 10 or load_byte(source + 4) != 0x2D:
        return np.int64(-1)
    store_byte(at, QUOTE)
    if kind == _DATE:
        if size != 10:
            return np.int64(-1)
        at = copy_short(at + 1, source, size)
    else:
        kept = size
        if kind == _TIMESTAMP_TZ:
            kept -= 3
            if size < 22 or load_byte(source + kept) != 0x2B:
                return np.int64(-1)
            if load_byte(source + kept + 1) != 0x30 or load_byte(source + kept + 2) != 0x30:
                return np.int64(-1)
        elif size < 19 or not _ends_with_digit(source, size):
            return np.int64(-1)
        at = copy_short(at + 1, source, kept)
        store_byte(at - kept + 10, 0x54)
        if kind == _TIMESTAMP_TZ:
            store_byte(at, 0x5A)
            at += 1
    store_byte(at, QUOTE)
    return at + 1


@helper
def put_token(at: Native, kind: Native, source: Native, size: Native, texts: Native) -> Native:
    """A value as JSON; -1 when it has none here."""
    if kind == TEXT:
        return _put_string(at, source, size, get_number(texts, 2 * _ESCAPED))
    if kind > BYTES:
        return _put_json(at, source, size)
    if size == 0:
        return np.int64(-1)
    if kind == BYTES:
        return _put_bytes(at, source, size)
    if not _is_bare(source, size):
        return np.int64(-1)
    if kind == _BOOLEAN:
        return put_text(at, texts, np.int64(_TRUE if size == 1 and load_byte(source) == 0x74 else _FALSE))
    if kind >= _DATE:
        return _put_moment(at, kind, source, size)
    if kind != _PLAIN and not _ends_with_digit(source, size):
        return np.int64(-1)
    if kind == _DECIMAL:
        store_byte(at, QUOTE)
        at = copy_short(at + 1, source, size)
        store_byte(at, QUOTE)
        return at + 1
    return copy_short(at, source, size)
