"""The native decoder on whole histories of a partition, against the plain reader: what a reader sees of transactions,
compaction and other clients' codecs, in one piece or in many. And the formats before this one, which are refused.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.errors import CorruptBatchError
from mainstem.record.arrow_columns import COLUMNS
from mainstem.record.arrow_decode import DecodeOptions, decode
from mainstem.record.header import iter_headers, read_header
from mainstem.record.reader import DecodedRecord
from tests.record.batches import repeatable, sample
from tests.record.histories import History, histories

many = settings(repeatable, max_examples=60)
Row = tuple[DecodedRecord, bool]


def read(history: History, start: int, end: int | None = None, *, committed: bool = True, total: int = 1 << 30):
    """A fetch from ``start`` and its decoding: (rows, next offset)."""
    decoded = decode(
        history.log(start),
        topic="t",
        partition=0,
        start_offset=start,
        end_offset=end,
        columns=COLUMNS,
        aborted=history.aborted(start) if committed else (),
        options=DecodeOptions(total_bytes_max=total),
    )
    decoded.arrow_batch.validate(full=True)
    return [row_of(row) for row in decoded.arrow_batch.to_pylist()], decoded.next_offset


def row_of(row: dict) -> Row:
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    time_ms = round(row["timestamp"].timestamp() * 1000)
    return DecodedRecord(row["offset"], time_ms, row["key"], row["value"], headers), row["timestamp_type"] == 1


def expected(history: History, start: int = 0, end: int = 2**63, *, committed: bool = True) -> list[Row]:
    return [row for row in history.records(committed=committed) if start <= row[0].offset < end]


@many
@given(history=histories())
def test_committed_records_alone_are_read_whatever_was_aborted_beside_them(history: History) -> None:
    rows, next_offset = read(history, 0)
    assert rows == expected(history)
    assert next_offset == max((h.next_offset for _, h in iter_headers(history.log())), default=0)


@many
@given(history=histories())
def test_without_the_aborted_transactions_every_record_is_read(history: History) -> None:
    assert read(history, 0, committed=False)[0] == expected(history, committed=False)


@many
@given(history=histories(), data=st.data())
def test_a_range_that_cuts_through_transactions_is_read_exactly(history: History, data: st.DataObject) -> None:
    low = min((header.base_offset for _, header in iter_headers(history.log())), default=0)
    start, end = sorted(data.draw(st.integers(low, history.next_offset + 1)) for _ in range(2))
    rows, next_offset = read(history, start, end)
    assert rows == expected(history, start, end)
    assert start <= next_offset <= max(start, end)


@many
@given(history=histories(), budget=st.integers(1, 400))
def test_fetches_that_are_decoded_in_parts_get_all_of_it_once(history: History, budget: int) -> None:
    rows, start = [], 0
    while history.log(start):
        part, next_offset = read(history, start, total=budget)
        assert next_offset > start
        rows, start = rows + part, next_offset
    assert rows == expected(history)


def test_the_histories_hold_what_they_promise() -> None:
    seen = set()

    @settings(many, database=None)
    @given(history=histories())
    def look(history: History) -> None:
        headers = [read_header(batch) for batch, _ in history.batches]
        seen.update(f"codec {h.compression.name}" for h in headers if not h.is_control)
        seen.update("emptied" for h in headers if h.record_count == 0)
        seen.update("thinned" for h in headers if 0 < h.record_count <= h.last_offset_delta)
        seen.update("log append time" for h in headers if h.has_log_append_time)
        spans = [(each.first_offset, each.end, each.producer) for each in history.transactions if each.is_aborted]
        seen.update("interleaved" for a in spans for b in spans if a[0] < b[0] < a[1] and a[2] != b[2])

    look()
    wanted = {"emptied", "thinned", "log append time", "interleaved"}
    assert wanted | {f"codec {name}" for name in ("NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD")} <= seen


def old_message(magic: int) -> bytes:
    """A message as Kafka before 0.11 wrote it: checksum, magic, attributes, (time,) key, value."""
    body = (
        struct.pack(">Ibb", 0, magic, 0) + (struct.pack(">q", 5) if magic else b"") + struct.pack(">ii", -1, 1) + b"v"
    )
    return struct.pack(">qi", 0, len(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("count", [1, 5])
def test_messages_from_before_record_batches_are_refused_by_their_name(magic: int, count: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"magic {magic}, the format of Kafka before 0.11; only 2 is read"):
        decode(old_message(magic) * count, topic="t", partition=0, start_offset=0, columns=COLUMNS)


def test_batches_before_an_old_message_are_read_first() -> None:
    log = sample(3) + old_message(1)
    assert decode(log, topic="t", partition=0, start_offset=0, columns=COLUMNS).next_offset == 3
    with pytest.raises(CorruptBatchError, match="the format of Kafka before"):
        decode(log, topic="t", partition=0, start_offset=3, columns=COLUMNS)
