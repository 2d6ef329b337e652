from __future__ import annotations

import pytest

from mainstem.log.files.names import OFFSET_INDEX, SEAL, TIME_INDEX, offset_file
from mainstem.log.segments.batch_scan import Start
from mainstem.log.segments.segment import Segment, SegmentContext
from mainstem.log.segments.segment_indexes import SegmentIndexes, read_seal
from mainstem.record.header import read_header
from mainstem.testing.disk import FaultyDisk
from tests.log.support import DIRECTORY, batch

INTERVAL = 200


class Built:
    """A segment of batches with these greatest timestamps, and its indexes."""

    def __init__(self, *timestamps: int) -> None:
        self.disk = FaultyDisk()
        self.disk.make_directory(DIRECTORY)
        self.segment = Segment.create(SegmentContext(self.disk), DIRECTORY, 100, INTERVAL)
        for number, timestamp_ms in enumerate(timestamps):
            data = batch(b"v", timestamp_ms=timestamp_ms)
            header = read_header(data)._replace(base_offset=100 + number)
            self.segment.append([header], [header.base_offset.to_bytes(8, "big"), data[8:]])

    @property
    def indexes(self) -> SegmentIndexes:
        return self.segment.indexes()

    def written(self) -> SegmentIndexes | None:
        """What the files hold now, if they are believed."""
        seal = read_seal(self.disk, DIRECTORY, 100)
        assert seal is not None
        return SegmentIndexes.read(self.disk, DIRECTORY, seal, INTERVAL, self.segment.file())


SIZE = len(batch(b"v"))
RISING = tuple(range(1000, 1020))


def test_an_entry_is_due_when_more_than_the_interval_lies_behind_the_last() -> None:
    built = Built(*RISING)
    assert built.indexes.offsets.lookup(103) == Start(3 * SIZE, None, 103)
    assert built.indexes.offsets.lookup(102) == Start(0, 100)
    assert len(built.indexes.offsets) == 6


def test_the_time_index_grows_only_with_the_greatest_timestamp() -> None:
    assert len(Built(*RISING).indexes.times) == 6
    assert len(Built(*reversed(RISING)).indexes.times) == 1


def test_the_first_batch_with_the_greatest_timestamp_counts() -> None:
    indexes = Built(5, 9, 9, 3).indexes
    assert (indexes.max_timestamp_ms, indexes.max_timestamp_offset) == (9, 101)


def test_closing_gives_the_time_index_its_last_entry() -> None:
    built = Built(5, 9, 3)
    built.indexes.close()
    assert built.indexes.times.last_until(200) == (9, 101)


def test_what_was_written_is_read_back() -> None:
    built = Built(*RISING)
    built.segment.write_indexes(100)
    again = built.written()
    assert again is not None
    assert (again.offsets.encode(), again.times.encode()) == (
        built.indexes.offsets.encode(),
        built.indexes.times.encode(),
    )
    assert again.end == built.indexes.end


def test_writing_again_appends_only_what_is_new() -> None:
    built = Built(*RISING)
    built.segment.write_indexes(100)
    data = batch(b"v", timestamp_ms=2000)
    header = read_header(data)._replace(base_offset=120)
    built.segment.append([header], [header.base_offset.to_bytes(8, "big"), data[8:]])
    built.segment.write_indexes(100, last=True)
    assert built.disk.content(DIRECTORY / offset_file(100, TIME_INDEX)) == built.indexes.times.encode()
    assert built.written() is not None


@pytest.mark.parametrize("suffix", [OFFSET_INDEX, TIME_INDEX])
def test_an_index_with_any_flipped_bit_is_not_believed(suffix: str) -> None:
    built = Built(*RISING)
    built.segment.write_indexes(100)
    path = DIRECTORY / offset_file(100, suffix)
    for bit in range(len(built.disk.content(path)) * 8):
        built.disk.flip_bit(path, bit // 8, bit % 8)
        assert built.written() is None
        built.disk.flip_bit(path, bit // 8, bit % 8)
    assert built.written() is not None


def test_entries_behind_what_the_seal_covers_are_not_used() -> None:
    built = Built(*RISING)
    built.segment.write_indexes(100)
    path = DIRECTORY / offset_file(100, OFFSET_INDEX)
    file = built.disk.open(path)
    file.write(file.size_bytes(), [b"\xff" * 8])
    again = built.written()
    assert again is not None
    assert len(again.offsets) == 6


def test_a_seal_of_another_log_is_not_believed() -> None:
    built, other = Built(*RISING), Built(*reversed(RISING))
    built.segment.write_indexes(100)
    seal = read_seal(built.disk, DIRECTORY, 100)
    assert seal is not None
    assert SegmentIndexes.read(built.disk, DIRECTORY, seal, INTERVAL, other.segment.file()) is None


def test_a_seal_under_another_offset_is_none() -> None:
    built = Built(*RISING)
    built.segment.write_indexes(100)
    built.disk.rename(DIRECTORY / offset_file(100, SEAL), DIRECTORY / offset_file(200, SEAL))
    assert read_seal(built.disk, DIRECTORY, 200) is None


@pytest.mark.parametrize("offset", range(100, 121))
def test_going_back_and_walking_again_gives_the_same_indexes(offset: int) -> None:
    built, whole = Built(*RISING), Built(*RISING)
    built.indexes.rewind(built.segment.file(), offset)
    assert built.indexes.end_offset <= offset
    for place in built.segment.walk_proving(built.indexes.end):
        built.indexes.add(place.header, place.file_position)
    assert built.indexes.offsets.encode() == whole.indexes.offsets.encode()
    assert built.indexes.times.encode() == whole.indexes.times.encode()


@pytest.mark.parametrize("count", range(21))
def test_what_is_known_before_a_batch_end_is_enough(count: int) -> None:
    built = Built(*RISING)
    start, (greatest, _) = built.indexes.known_before(count * SIZE)
    assert start.file_position <= count * SIZE
    assert greatest <= RISING[max(0, count - 1)]


def test_batches_must_rise() -> None:
    built = Built(*RISING)
    header = read_header(batch(b"v"))._replace(base_offset=119)
    with pytest.raises(AssertionError):
        built.indexes.add(header, built.indexes.log_bytes)
