"""The record headers by which a producer asks the log for more than an append: their names, values and answers.

    mainstem-expect-key-offset   append only if this is the last offset of the record's key; -1: the key has none
    mainstem-expect-end          append only if this is the partition's log end offset
    mainstem-idempotency-key     append once: the record of the same idempotency key is answered instead

Offsets are decimal text. Each header occurs at most once in a record. A condition that does not hold is answered with
a text of one form, ``condition_text``, which ``parse_condition`` reads back: that is how the actual offset gets through
any Kafka client. Pure functions; safe from any thread.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from mainstem.errors import ConditionFailedError, InvalidRecordError
from mainstem.record.key_scan import ScannedHeader

PREFIX: Final = b"mainstem-"
EXPECT_KEY_OFFSET: Final = "mainstem-expect-key-offset"
EXPECT_END: Final = "mainstem-expect-end"
IDEMPOTENCY_KEY: Final = "mainstem-idempotency-key"
ABSENT: Final = -1
"""The last offset of a key that has no record."""
IDEMPOTENCY_KEY_BYTES_MAX: Final = 255
MARKED_RECORDS_MAX: Final = 1000
"""The most records of one append that may have such headers: each costs a lookup in the index."""
_OFFSET = re.compile(rb"-1|[0-9]{1,19}")
_OFFSET_MAX: Final = 2**63 - 1
_CONDITION = re.compile(
    rf"({EXPECT_KEY_OFFSET}|{EXPECT_END}): expected (-?\d{{1,19}}), actual (-?\d{{1,19}})(?: \(record (\d+)\))?"
)


class AppendMarks(NamedTuple):
    """The append options of one record; None for each option that it does not use."""

    expect_key_offset: int | None = None
    expect_end: int | None = None
    idempotency_key: bytes | None = None


_EXPECT_END: Final = EXPECT_END.encode()
_IDEMPOTENCY_KEY: Final = IDEMPOTENCY_KEY.encode()
_FIELDS: Final[Mapping[bytes, str]] = {
    EXPECT_KEY_OFFSET.encode(): "expect_key_offset",
    _EXPECT_END: "expect_end",
    _IDEMPOTENCY_KEY: "idempotency_key",
}


def read_marks(
    headers: Iterable[ScannedHeader], heard: Collection[str], first_index: int = 0
) -> dict[int, AppendMarks]:
    """The append options of a batch's records, by the headers in ``heard``. Keys: ``first_index`` + a record's index.

    Raises InvalidRecordError for an invalid value, and for a header that a record has twice.
    """
    marks: dict[int, AppendMarks] = {}
    for header in headers:
        field = _FIELDS.get(header.name)
        if field is None or header.name.decode() not in heard:
            continue
        index = first_index + header.record
        mark = marks.get(index, AppendMarks())
        if getattr(mark, field) is not None:
            raise _refusal(index, header, "occurs twice in the record")
        marks[index] = _with(mark, index, header)
    if len(marks) > MARKED_RECORDS_MAX:
        raise InvalidRecordError(
            f"{len(marks)} records with conditions or idempotency keys: {MARKED_RECORDS_MAX} at most"
        )
    return marks


def _with(mark: AppendMarks, index: int, header: ScannedHeader) -> AppendMarks:
    value = header.value
    if header.name == _IDEMPOTENCY_KEY:
        if not value or len(value) > IDEMPOTENCY_KEY_BYTES_MAX:
            raise _refusal(index, header, f"must have from 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes")
        return mark._replace(idempotency_key=value)
    if value is None or _OFFSET.fullmatch(value) is None or int(value) > _OFFSET_MAX:
        raise _refusal(index, header, "must be an offset in decimal digits, or -1")
    if header.name == _EXPECT_END:
        return mark._replace(expect_end=int(value))
    return mark._replace(expect_key_offset=int(value))


def _refusal(index: int, header: ScannedHeader, reason: str) -> InvalidRecordError:
    text = f"header {header.name.decode()} {reason}"
    return InvalidRecordError(f"record {index}: {text}", records={index: text})


def condition_failed(index: int, name: str, expected: int, actual: int) -> ConditionFailedError:
    """The error for the condition ``name`` of the record at ``index``, which does not hold."""
    text = f"{name}: expected {expected}, actual {actual}"
    return ConditionFailedError(
        f"{text} (record {index})", condition=name, expected=expected, actual=actual, records={index: text}
    )


def parse_condition(text: str) -> ConditionFailedError | None:
    """The failed condition that an answer's text tells of, wherever in it; None when it tells of none."""
    match = _CONDITION.search(text)
    if match is None:
        return None
    return condition_failed(int(match[4] or 0), match[1], int(match[2]), int(match[3]))
