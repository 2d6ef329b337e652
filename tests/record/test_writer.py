from __future__ import annotations

import pytest

from mainstem.errors import InputError
from mainstem.record.constants import NO_TIMESTAMP, Compression, ControlType
from mainstem.record.header import read_header, verify
from mainstem.record.reader import read_control_type, read_records
from mainstem.record.writer import (
    BatchBuilder,
    NewRecord,
    ProducerStamp,
    build_batch,
    build_control_batch,
    encoded_headers,
    rebuild_batch,
    varint,
)
from tests.record.batches import sample


def test_the_header_carries_the_producer_and_the_timestamps() -> None:
    rows = [NewRecord(None, b"a", (), 50), NewRecord(None, b"b", (), 90), NewRecord(None, b"c", (), 70)]
    header = read_header(build_batch(rows, producer=ProducerStamp(4, 5, 6)))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 5, 6)
    assert (header.base_timestamp, header.max_timestamp, header.last_offset_delta) == (50, 90, 2)


def test_a_batch_without_producer_or_time_says_so() -> None:
    header = read_header(build_batch([NewRecord(b"k", b"v")]))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.leader_epoch, header.max_timestamp) == (-1, NO_TIMESTAMP)


def test_a_batch_of_no_records_is_refused() -> None:
    with pytest.raises(InputError, match="needs a record"):
        build_batch([])


def test_timestamps_too_far_apart_are_refused() -> None:
    with pytest.raises(InputError, match="63 bits"):
        build_batch([NewRecord(None, None, (), -(2**63)), NewRecord(None, None, (), 2**63 - 1)])


@pytest.mark.parametrize("control_type", list(ControlType))
def test_a_marker_reads_back_as_how_the_transaction_ended(control_type: ControlType) -> None:
    batch = build_control_batch(control_type, producer_id=8, producer_epoch=1, timestamp_ms=9, base_offset=30)
    header = read_header(batch)
    verify(batch, 0, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 1, -1)
    assert read_control_type(read_records(batch)[0]) is control_type


def test_a_rebuilt_batch_keeps_offsets_producer_and_sequence() -> None:
    original = sample(5, base_offset=100, producer=ProducerStamp(1, 2, 3), compression=Compression.ZSTD)
    kept = [(r.offset, NewRecord(r.key, r.value, r.headers, r.timestamp_ms)) for r in read_records(original)[1::2]]
    rebuilt = rebuild_batch(read_header(original), kept)
    verify(rebuilt, 0, read_header(rebuilt))
    assert read_records(rebuilt) == read_records(original)[1::2]
    for field in ("base_offset", "last_offset", "last_sequence", "producer_id", "compression"):
        assert getattr(read_header(rebuilt), field) == getattr(read_header(original), field)


def test_a_batch_may_be_rebuilt_with_nothing_left() -> None:
    original = sample(5, base_offset=100, compression=Compression.GZIP)
    rebuilt = rebuild_batch(read_header(original), [])
    verify(rebuilt, 0, read_header(rebuilt))
    assert read_records(rebuilt) == []
    assert (read_header(rebuilt).next_offset, len(rebuilt)) == (105, 61)


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    header = read_header(sample(1))
    rebuilt = rebuild_batch(header, [(0, NewRecord(b"k", None, (), 77))], delete_horizon_ms=10**12)
    assert read_header(rebuilt).has_delete_horizon
    assert read_header(rebuilt).base_timestamp == 10**12
    assert read_records(rebuilt)[0].timestamp_ms == 77


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (8192, "808001"),
        (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f"), (-(2**63), "ffffffffffffffffff01"),
    ],
)  # fmt: skip
def test_numbers_take_kafkas_zigzag_form(number: int, encoded: str) -> None:
    assert varint(number).hex() == encoded


def test_a_batch_that_is_built_record_by_record_is_the_same() -> None:
    headers = (("a", b"1"), ("é", None))
    records = [NewRecord(b"k", b"v" * n, headers, 1_000 + n % 3) for n in range(200)]
    records += [NewRecord(None, None, headers, 5), NewRecord(b"", b"", headers, 2_000)]
    stamp = ProducerStamp(7, 1, 42, is_transactional=True)
    builder = BatchBuilder()
    for record in records:
        builder.add(record.key, record.value, encoded_headers(headers), record.timestamp_ms)
    built = builder.build(compression=Compression.NONE, producer=stamp)
    assert built == build_batch(records, producer=stamp)
    assert builder.size_bytes == len(built)
    lz4 = builder.build(compression=Compression.LZ4, producer=stamp)
    assert lz4 == build_batch(records, compression=Compression.LZ4, producer=stamp)
