from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import CorruptBatchError
from mainstem.record.constants import HEADER_BYTES, Compression, ControlType
from mainstem.record.header import read_header
from mainstem.record.reader import DecodedRecord, iter_records, parse_records, read_control_type, read_records
from mainstem.record.writer import NewRecord, build_batch
from tests.record.batches import CODECS, captured, new_records, repeatable, sample, split


@repeatable
@given(rows=st.lists(new_records, min_size=1, max_size=10), codec=st.sampled_from(CODECS))
def test_what_was_written_is_read(rows: list[NewRecord], codec: Compression) -> None:
    expected = [DecodedRecord(70 + n, row.timestamp_ms, row.key, row.value, row.headers) for n, row in enumerate(rows)]
    assert read_records(build_batch(rows, base_offset=70, compression=codec)) == expected


@repeatable
@given(
    rows=st.lists(new_records, min_size=1, max_size=12),
    wanted=st.sets(st.integers(70, 85)),
    codec=st.sampled_from([Compression.NONE, Compression.LZ4]),
)
def test_the_wanted_records_are_read_and_the_others_passed_over(
    rows: list[NewRecord], wanted: set[int], codec: Compression
) -> None:
    batch = build_batch(rows, base_offset=70, compression=codec)
    found = read_records(batch, wanted=lambda offset: min((each for each in wanted if each >= offset), default=2**63))
    assert found == [record for record in read_records(batch) if record.offset in wanted]


@pytest.mark.parametrize("size", [b"\x01", b"\x05", b"\xfe\xff\x03", b"\xff" * 9 + b"\x01"])
def test_a_record_that_is_passed_over_has_a_length_that_fits(size: bytes) -> None:
    batch = bytearray(build_batch([NewRecord(None, b"v" * 40), NewRecord(None, b"w")]))
    batch[HEADER_BYTES : HEADER_BYTES + len(size)] = size
    with pytest.raises(CorruptBatchError, match=r"record of|64 bits"):
        read_records(batch, wanted=lambda offset: max(offset, 1))
    cut = build_batch([NewRecord(None, b"v"), NewRecord(None, b"w")])[: HEADER_BYTES + 9]
    with pytest.raises(CorruptBatchError):
        parse_records(read_header(batch), memoryview(cut)[HEADER_BYTES:], lambda offset: max(offset, 1))


def test_log_append_time_is_every_records_timestamp() -> None:
    assert {record.timestamp_ms for record in read_records(sample(log_append_time_ms=5))} == {5}


def test_bytes_behind_the_batch_are_ignored() -> None:
    assert read_records(sample() + b"garbage") == read_records(sample())


def test_a_batch_that_is_cut_off_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="cut off"):
        read_records(sample()[:-1])


def test_a_header_name_that_is_not_utf8_is_read_with_replacements() -> None:
    batch = build_batch([NewRecord(None, None, (("aé", b"1"),))])
    damaged = batch.replace("aé".encode(), b"a\xff\xfe")
    assert read_records(damaged)[0].headers == (("a��", b"1"),)


def test_iteration_passes_over_control_batches_and_stops_at_a_torn_tail() -> None:
    log = captured("transactions")
    records = list(iter_records(log + sample()[:-1]))
    assert len(records) == 24
    assert {record.key for record in records if record.value == b"outside"} == {b"outside"}
    assert [record.offset for record in records][:8] == [0, 1, 2, 3, 4, 5, 7, 8]


def test_transaction_markers_tell_how_the_transaction_ended() -> None:
    markers = [read_records(batch)[0] for header, batch in split(captured("transactions")) if header.is_control]
    assert [read_control_type(marker) for marker in markers] == [ControlType.COMMIT, ControlType.ABORT] * 2


def test_a_control_record_of_another_kind_has_no_ending() -> None:
    assert read_control_type(DecodedRecord(0, 0, b"\x00\x00\x00\x02", None)) is None


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_a_control_record_without_a_proper_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(CorruptBatchError):
        read_control_type(DecodedRecord(0, 0, key, None))


def test_what_librdkafka_wrote_is_read_for_every_codec() -> None:
    for header, batch in split(captured("librdkafka")):
        codec = header.compression.name.lower()
        records = read_records(batch)
        assert len(records) == 40
        for n, record in enumerate(records):
            assert record.key == (None if n % 10 == 3 else f"{codec}-{n}".encode())
            assert record.value == (None if n % 10 == 7 else f"value {n} ".encode() * 10)
            assert record.headers == ((("codec", codec.encode()), ("none", None)) if n % 2 else ())
            assert record.timestamp_ms == 1_700_000_000_000 + n


def test_what_the_java_client_wrote_is_read_for_every_codec() -> None:
    found = split(captured("java"))
    assert [header.compression for header, _ in found] == CODECS
    for header, batch in found:
        records = read_records(batch)
        assert [record.key for record in records] == [
            f"{header.compression.name.lower()}-{n}".encode() for n in range(40)
        ]
        assert [record.value for record in records] == [f"value {n} ".encode() * 10 for n in range(40)]
        assert {record.headers for record in records} == {(("h1", b"a"), ("h2", b"b"))}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("codec", CODECS)
def test_any_buffer_will_do(kind: type, codec: Compression) -> None:
    batch = sample(compression=codec)
    assert read_records(kind(batch)) == read_records(batch)


def test_the_decompression_limit_holds() -> None:
    batch = build_batch([NewRecord(None, bytes(1_000_000))], compression=Compression.ZSTD)
    with pytest.raises(CorruptBatchError, match="limit of 1000 bytes"):
        read_records(batch, limit_bytes=1000)
