"""Idempotency keys: the answer to an append whose records are in the log already. Pure functions.

The log knows the record of an idempotency key (``key_index`` stores it) as long as the record is within the topic's
window and not before the log start. A batch has one answer, so it is

* appended, when none of its keys is remembered;
* answered with the first record's offset, and not appended, when each of its records has a key that is remembered,
  and the records are consecutive in the log: it is a repeat;
* refused otherwise, naming the records that are there and their offsets: the producer leaves those out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainstem.errors import InvalidRecordError
from mainstem.record.append_headers import IDEMPOTENCY_KEY, AppendMarks


def earlier_offset(
    marks: Mapping[int, AppendMarks], record_count: int, find: Callable[[bytes], int | None]
) -> int | None:
    """The offset of the first of these records, when all of them are in the log; None when none is.

    ``find`` returns the offset of a key's record. Raises InvalidRecordError.
    """
    keys = {index: mark.idempotency_key for index, mark in marks.items() if mark.idempotency_key is not None}
    _refuse_repeats(keys)
    found = {index: offset for index, key in keys.items() if (offset := find(key)) is not None}
    if not found:
        return None
    base_offset = found.get(0)
    if base_offset is not None and all(found.get(index) == base_offset + index for index in range(record_count)):
        return base_offset
    records = {index: f"{IDEMPOTENCY_KEY}: in the log already, at offset {offset}" for index, offset in found.items()}
    raise InvalidRecordError(
        f"{len(found)} of {record_count} records are in the log already: send the others without them", records=records
    )


def _refuse_repeats(keys: Mapping[int, bytes]) -> None:
    first: dict[bytes, int] = {}
    for index, key in keys.items():
        if key in first:
            text = f"{IDEMPOTENCY_KEY}: the same as record {first[key]}'s of this batch"
            raise InvalidRecordError(f"record {index}: {text}", records={index: text})
        first[key] = index
