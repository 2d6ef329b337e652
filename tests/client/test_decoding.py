from __future__ import annotations

import pytest

from mainstem.client.read.decoding import Chunk
from mainstem.client.wire.cluster.fetching import FetchedPartition
from mainstem.errors import CorruptBatchError
from mainstem.model import TopicPartition
from mainstem.record.constants import Compression, ControlType
from mainstem.record.header import read_header
from mainstem.record.reader import AbortedTransaction
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch, build_control_batch, rebuild_batch

TP = TopicPartition("t", 0)


def data(base_offset: int, values: str, *, producer: int | None = None) -> bytes:
    stamp = None if producer is None else ProducerStamp(producer, 0, 0, is_transactional=True)
    rows = [NewRecord(b"k", value.encode(), (("h", b"1"),), 1000) for value in values]
    return build_batch(rows, base_offset=base_offset, producer=stamp, compression=Compression.LZ4)


def marker(offset: int, producer: int, control_type: ControlType) -> bytes:
    return build_control_batch(
        control_type, producer_id=producer, producer_epoch=0, timestamp_ms=1000, base_offset=offset
    )


def chunk(*batches: bytes, start: int = 0, end: int | None = None, aborted: tuple[tuple[int, int], ...] = ()) -> Chunk:
    transactions = tuple(AbortedTransaction(*entry) for entry in aborted)
    return Chunk(TP, FetchedPartition(memoryview(b"".join(batches)), 99, 99, 0, transactions), start, end)


def read(chunk: Chunk) -> tuple[str, int]:
    text = "".join((record.value or b"").decode() for record in chunk)
    return text, chunk.next_offset


def test_records_come_out_whole() -> None:
    [record] = chunk(data(7, "a"), start=7)
    assert (record.topic, record.partition, record.offset, record.timestamp_ms) == ("t", 0, 7, 1000)
    assert (record.key, record.value, record.headers) == (b"k", b"a", (("h", b"1"),))


def test_what_lies_before_the_start_and_from_the_end_on_is_left_out() -> None:
    batches = (data(0, "abc"), data(3, "def"), data(6, "ghi"))
    assert read(chunk(*batches, start=2, end=5)) == ("cde", 5)
    assert read(chunk(*batches, start=3)) == ("defghi", 9)


def test_a_reader_that_wants_some_offsets_gets_these_and_is_at_the_end_then() -> None:
    batches = memoryview(b"".join((data(0, "abc"), data(3, "def"), data(6, "ghi"))))

    def wanted(offset: int) -> int:
        return next(each for each in (1, 5, 7, 99) if each >= offset)

    reading = Chunk(TP, FetchedPartition(batches, 99, 99, 0, ()), 0, 8, wanted=wanted)
    assert read(reading) == ("bfh", 8)


def test_an_incomplete_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    assert read(chunk(data(0, "abc"), data(3, "def")[:-1])) == ("abc", 3)


def test_markers_and_gaps_move_the_position_and_are_no_records() -> None:
    header = read_header(data(0, "abcdef"))
    compacted = rebuild_batch(header, [(1, NewRecord(b"k", b"b", (), 1000))])
    assert read(chunk(compacted, marker(6, 1, ControlType.COMMIT))) == ("b", 7)
    assert read(chunk(compacted, data(20, "x"), end=10)) == ("b", 10)


def test_aborted_records_are_left_out_and_their_producers_later_ones_are_not() -> None:
    batches = (
        data(0, "ab", producer=1),
        data(2, "cd", producer=2),
        marker(4, 1, ControlType.ABORT),
        data(5, "ef", producer=1),
        marker(7, 2, ControlType.COMMIT),
        marker(8, 1, ControlType.COMMIT),
    )
    assert read(chunk(*batches, aborted=((1, 0),))) == ("cdef", 9)


def test_a_producer_may_abort_several_times_in_one_fetch() -> None:
    batches = (
        data(0, "ab", producer=1),
        marker(2, 1, ControlType.ABORT),
        data(3, "c", producer=1),
        marker(4, 1, ControlType.COMMIT),
        data(5, "d", producer=1),
        marker(6, 1, ControlType.ABORT),
    )
    assert read(chunk(*batches, aborted=((1, 0), (1, 5)))) == ("c", 7)


def test_plain_records_of_an_aborting_producers_neighbours_stay() -> None:
    batches = (data(0, "a", producer=1), data(1, "b"), marker(2, 1, ControlType.ABORT))
    assert read(chunk(*batches, aborted=((1, 0),))) == ("b", 3)


def test_a_damaged_batch_is_an_error_and_the_position_stays_before_it() -> None:
    damaged = bytearray(data(3, "def"))
    damaged[-1] ^= 1
    reading = chunk(data(0, "abc"), bytes(damaged))
    with pytest.raises(CorruptBatchError, match="checksum"):
        list(reading)
    assert reading.next_offset == 3


def test_the_position_follows_record_by_record() -> None:
    reading = chunk(data(0, "abc"))
    records = iter(reading)
    next(records)
    assert reading.next_offset == 1
