from __future__ import annotations

import pytest

from mainstem.errors import InvalidRecordError
from mainstem.record.append_headers import (
    EXPECT_END,
    EXPECT_KEY_OFFSET,
    IDEMPOTENCY_KEY,
    AppendMarks,
    condition_failed,
    parse_condition,
    read_marks,
)
from mainstem.record.key_scan import ScannedHeader

HEARD = {EXPECT_END, EXPECT_KEY_OFFSET, IDEMPOTENCY_KEY}


def header(name: str, value: bytes | None, record: int = 0) -> ScannedHeader:
    return ScannedHeader(record, name.encode(), value)


def test_marks_are_gathered_by_record() -> None:
    headers = [
        header(EXPECT_KEY_OFFSET, b"-1"),
        header(IDEMPOTENCY_KEY, b"a"),
        header("mainstem-other", b"?"),
        header(EXPECT_END, b"17", record=2),
    ]
    assert read_marks(headers, HEARD, 5) == {5: AppendMarks(-1, None, b"a"), 7: AppendMarks(None, 17, None)}


def test_a_header_that_is_not_heard_may_say_anything() -> None:
    assert read_marks([header(EXPECT_END, b"nonsense")], {EXPECT_KEY_OFFSET}) == {}


@pytest.mark.parametrize("value", [None, b"", b"-2", b"+1", b" 1", b"1.0", b"\xd9\xa1", b"9" * 19, b"9" * 1000])
def test_a_value_that_is_no_offset_is_refused(value: bytes | None) -> None:
    with pytest.raises(InvalidRecordError) as refused:
        read_marks([header(EXPECT_END, value, record=3)], HEARD)
    assert list(refused.value.records) == [3]


@pytest.mark.parametrize("value", [None, b"", b"x" * 256])
def test_an_idempotency_key_is_bounded(value: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        read_marks([header(IDEMPOTENCY_KEY, value)], HEARD)


def test_a_header_stands_once_in_a_record() -> None:
    with pytest.raises(InvalidRecordError, match="twice"):
        read_marks([header(EXPECT_END, b"1"), header(EXPECT_END, b"1")], HEARD)


def test_so_many_records_of_one_append_may_ask() -> None:
    headers = [header(EXPECT_END, b"1", record=at) for at in range(1001)]
    assert len(read_marks(headers[:1000], HEARD)) == 1000
    with pytest.raises(InvalidRecordError, match="1000 at most"):
        read_marks(headers, HEARD)


def test_what_a_failed_condition_says_is_read_back_from_any_text_around_it() -> None:
    failed = condition_failed(4, EXPECT_KEY_OFFSET, 3, -1)
    read = parse_condition(f"events/0 refuses the record batch: {failed}")
    assert read is not None
    assert (read.condition, read.expected, read.actual, list(read.records)) == (EXPECT_KEY_OFFSET, 3, -1, [4])
    assert parse_condition(failed.records[4]) is not None
    assert parse_condition("something else") is None
