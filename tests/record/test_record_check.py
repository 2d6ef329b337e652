"""The check of a producer's records: the native walk and the plain one say the same as the reader."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import CorruptBatchError
from mainstem.record import record_check
from mainstem.record.constants import INT64_MAX, INT64_MIN
from mainstem.record.header import BatchHeader, read_header
from mainstem.record.reader import read_records
from mainstem.record.record_check import RecordRules, RecordsChecked, check_records
from mainstem.record.writer import NewRecord, assemble_batch, build_batch, varint
from tests.record.batches import new_records, repeatable

_NOW_MS = 1_700_000_000_000
_RULES = st.builds(
    RecordRules,
    st.booleans(),
    st.sampled_from([INT64_MIN, 0, _NOW_MS, 2**41]),
    st.sampled_from([INT64_MAX, _NOW_MS + 5, 2**41]),
)


def both(header: BatchHeader, records: bytes, rules: RecordRules) -> RecordsChecked | None:
    """What both walkers say, which must be the same; None where they say that the records do not add up."""
    said = []
    record_check.load_native()
    assert record_check._walk is not None
    natively = functools.partial(record_check._check_natively, record_check._walk)
    for walk in (record_check._check_plainly, natively):
        try:
            said.append(walk(header, memoryview(records), rules))
        except CorruptBatchError:
            said.append(None)
    assert said[0] == said[1], f"plain and native differ: {said}"
    return said[0]


@repeatable
@given(st.lists(new_records, min_size=1, max_size=20), _RULES)
def test_sound_records_pass_and_those_that_break_a_rule_are_named(rows: list[NewRecord], rules: RecordRules) -> None:
    batch = build_batch(rows)
    checked = both(read_header(batch), batch[61:], rules)
    assert checked is not None
    assert checked.max_timestamp == (max(-1, *(row.timestamp_ms for row in rows)) if rules.bounds_time else -1)
    expected = [
        (at, rules.needs_key and row.key is None)
        for at, row in enumerate(rows)
        if (rules.needs_key and row.key is None)
        or (row.timestamp_ms != -1 and not rules.oldest_ms <= row.timestamp_ms <= rules.newest_ms)
    ]
    assert [(record.at, record.has_no_key) for record in checked.broken] == expected
    assert checked.broken_count == len(expected)


@repeatable
@given(st.lists(new_records, min_size=1, max_size=5), st.data())
def test_damaged_records_pass_only_if_the_reader_reads_them_in_order(
    rows: list[NewRecord], data: st.DataObject
) -> None:
    header = read_header(build_batch(rows))
    records = bytearray(build_batch(rows)[61:])
    for _ in range(data.draw(st.integers(1, 3))):
        records[data.draw(st.integers(0, len(records) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        records = records[: data.draw(st.integers(0, len(records)))]
    bounded = RecordRules(oldest_ms=INT64_MIN + 1)
    passed = both(header, bytes(records), bounded) if len(records) >= 7 * header.record_count else None
    try:
        offsets = [record.offset for record in read_records(assemble_batch(header, bytes(records)))]
    except CorruptBatchError:
        assert passed is None
    else:
        assert (passed is not None) == (offsets == list(range(len(rows))))


@pytest.mark.parametrize(
    ("records", "reads"),
    [
        (b"", False),
        (b"\x0c\x00\x00\x00\x01\x01\x00", True),
        (b"\x0c\x00\x00\x02\x01\x01\x00", False),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", False),
        (b"\x0a\x00\x00\x00\x01\x01\x00", False),
        (b"\x0c\x00\x00\x00\x03\x01\x00", False),
        (b"\x0c\x00\x00\x00\x01\x01\x01", False),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", False),
        (b"\x10\x00\x00\x00\x01\x01\x02\x00\x01", True),
        (b"\xff" * 20, False),
    ],
    ids=[
        "nothing",
        "the shortest record",
        "an offset delta of 1",
        "bytes behind it",
        "a length that is too small",
        "a length below null",
        "fewer than no headers",
        "a header without a name",
        "a header with an empty name",
        "a number without an end",
    ],
)
def test_one_record(records: bytes, reads: bool) -> None:
    header = read_header(build_batch([NewRecord(None, None, (), 0)]))
    try:
        check_records(header, records, RecordRules())
    except CorruptBatchError:
        assert not reads
    else:
        assert reads
    if records:
        assert (both(header, records, RecordRules()) is not None) == reads


def test_a_timestamp_of_more_than_64_bits_counts_only_where_timestamps_do() -> None:
    header = read_header(build_batch([NewRecord(None, None, (), 5)]))
    body = b"\x00" + varint(INT64_MAX) + b"\x00\x01\x01\x00"
    records = varint(len(body)) + body
    assert both(header, records, RecordRules(oldest_ms=0)) is None
    assert both(header, records, RecordRules()) is not None


def test_a_record_count_that_no_bytes_can_hold_is_refused_before_a_walk() -> None:
    header = read_header(build_batch([NewRecord(None, b"v")]))._replace(record_count=2**31 - 1)
    with pytest.raises(CorruptBatchError, match="2147483647 records in 7 bytes"):
        check_records(header, bytes(7), RecordRules())
