from __future__ import annotations

import mmap
from pathlib import Path

import pytest
from hypothesis import given

from mainstem.errors import CorruptBatchError
from mainstem.record.constants import Compression
from mainstem.record.header import iter_headers, read_header, stamped_prefix, verify
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch
from tests.record.batches import captured, logs, repeatable, sample, split, with_field


@repeatable
@given(log=logs())
def test_headers_tile_the_log_and_every_batch_verifies(log: bytes) -> None:
    end = 0
    for at, header in iter_headers(log):
        assert at == end
        verify(log, at, header)
        end = at + header.size_bytes
    assert end == len(log)


def test_the_derived_fields_follow_from_the_header() -> None:
    producer = ProducerStamp(9, 2, 2**31 - 2, is_transactional=True)
    header = read_header(sample(4, base_offset=10, compression=Compression.LZ4, producer=producer, leader_epoch=6))
    assert (header.last_offset, header.next_offset, header.record_count, header.leader_epoch) == (13, 14, 4, 6)
    assert (header.compression, header.is_transactional, header.is_control) == (Compression.LZ4, True, False)
    assert (header.has_producer, header.is_dense, header.has_log_append_time) == (True, True, False)
    assert header.last_sequence == 1, "sequences wrap at 2**31"
    assert read_header(sample()).last_sequence == -1


@pytest.mark.parametrize("cut", range(1, 80, 7))
def test_an_incomplete_batch_at_the_end_is_left_alone(cut: int) -> None:
    log = sample(base_offset=0) + sample(base_offset=3)
    assert [header.base_offset for _, header in iter_headers(log[:-cut])] == [0]


def test_zeros_behind_the_last_batch_are_refused() -> None:
    headers = iter_headers(sample() + bytes(100))
    assert next(headers)[1].record_count == 3
    with pytest.raises(CorruptBatchError, match="magic 0"):
        next(headers)


def test_a_header_that_is_cut_off_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="cut off"):
        read_header(sample()[:60])
    with pytest.raises(CorruptBatchError, match="cut off"):
        read_header(sample(), -1)


def test_a_batch_that_is_cut_off_does_not_verify() -> None:
    batch = sample()
    with pytest.raises(CorruptBatchError, match="only"):
        verify(batch[:-1], 0, read_header(batch))


@pytest.mark.parametrize("at", range(16, 61))
def test_a_flipped_bit_under_the_checksum_is_found(at: int) -> None:
    damaged = bytearray(sample())
    damaged[at] ^= 0x10
    with pytest.raises(CorruptBatchError):
        verify(damaged, 0, read_header(damaged))


def test_a_new_prefix_leaves_the_checksum_right() -> None:
    batch = sample(base_offset=0)
    moved = stamped_prefix(1234, len(batch) - 12, 7) + batch[16:]
    header = read_header(moved)
    verify(moved, 0, header)
    assert (header.base_offset, header.leader_epoch, header.batch_length) == (1234, 7, len(batch) - 12)


@pytest.mark.parametrize(
    ("at", "code", "value", "word"),
    [
        (0, ">q", -1, "offsets"),
        (0, ">q", 2**63 - 2, "offsets"),
        (23, ">i", -1, "offsets"),
        (23, ">i", 1, "3 records for 2 offsets"),
        (57, ">i", -1, "-1 records"),
        (57, ">i", 2**31 - 1, "records for"),
        (21, ">h", 5, "codec 5"),
    ],
)
def test_an_impossible_header_is_refused_though_its_checksum_is_right(
    at: int, code: str, value: int, word: str
) -> None:
    batch = with_field(sample(), at, code, value)
    with pytest.raises(CorruptBatchError, match=word):
        verify(batch, 0, read_header(batch))


def test_more_records_than_the_bytes_can_hold_are_refused() -> None:
    batch = with_field(with_field(sample(), 23, ">i", 2**30), 57, ">i", 2**30)
    with pytest.raises(CorruptBatchError, match="records in"):
        verify(batch, 0, read_header(batch))


def test_an_unknown_codec_has_no_name() -> None:
    with pytest.raises(CorruptBatchError, match="codec 7"):
        _ = read_header(with_field(sample(), 21, ">h", 7)).compression


def test_the_old_message_format_is_refused_by_name() -> None:
    with pytest.raises(CorruptBatchError, match="magic 1"):
        read_header(with_field(sample(), 16, ">b", 1))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(kind: type) -> None:
    batch = kind(sample())
    verify(batch, 0, read_header(batch))
    assert len(list(iter_headers(batch))) == 1


def test_a_mapped_file_will_do(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(captured("java"))
    with (tmp_path / "log").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for at, header in iter_headers(mapped):
            verify(mapped, at, header)


@pytest.mark.parametrize("name", ["java", "librdkafka", "transactions"])
def test_what_real_clients_wrote_verifies(name: str) -> None:
    log = captured(name)
    assert sum(len(batch) for _, batch in split(log)) == len(log)
    for at, header in iter_headers(log):
        verify(log, at, header)


def test_a_batch_of_one_empty_record_is_the_smallest() -> None:
    assert read_header(build_batch([NewRecord(None, None)])).size_bytes == 61 + 7
