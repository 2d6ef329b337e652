"""Conditional appends: whether what the records expect is so. Pure functions.

Each record is judged as if those before it in its batch were appended already: the log end that it may expect is its
own offset-to-be, and the last offset of a key may be that of an earlier record of the batch. The first condition that
does not hold refuses the whole append.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mainstem.errors import InvalidRecordError
from mainstem.record.append_headers import EXPECT_END, EXPECT_KEY_OFFSET, AppendMarks, condition_failed


def check_conditions(
    marks: Mapping[int, AppendMarks],
    keys: Sequence[bytes | None],
    log_end_offset: int,
    last_offset: Callable[[bytes], int] | None,
) -> None:
    """Prove that the conditions of the records, whose ``keys`` these are, hold at the log end.

    ``last_offset`` tells a key's last offset in the log, -1 without any; None when the topic has no key index.
    Raises ConditionFailedError, InvalidRecordError, and what ``last_offset`` raises.
    """
    latest: dict[bytes, int] = {}  # of the keys in this batch
    for index, key in enumerate(keys):
        mark = marks.get(index)
        if mark is not None:
            _check(index, mark, key, log_end_offset + index, latest, last_offset)
        if key is not None:
            latest[key] = log_end_offset + index


def _check(
    index: int,
    mark: AppendMarks,
    key: bytes | None,
    offset: int,
    latest: Mapping[bytes, int],
    last_offset: Callable[[bytes], int] | None,
) -> None:
    if mark.expect_end is not None and mark.expect_end != offset:
        raise condition_failed(index, EXPECT_END, mark.expect_end, offset)
    if mark.expect_key_offset is None:
        return
    if last_offset is None or key is None:
        raise _refusal(index, "needs a record with a key, and a topic with mainstem.key.index=true")
    actual = latest.get(key)
    if actual is None:
        actual = last_offset(key)
    if mark.expect_key_offset != actual:
        raise condition_failed(index, EXPECT_KEY_OFFSET, mark.expect_key_offset, actual)


def _refusal(index: int, reason: str) -> InvalidRecordError:
    text = f"header {EXPECT_KEY_OFFSET} {reason}"
    return InvalidRecordError(f"record {index}: {text}", records={index: text})
