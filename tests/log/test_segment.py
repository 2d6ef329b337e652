from __future__ import annotations

import pytest

from mainstem.errors import CorruptBatchError
from mainstem.log.segments.segment import Segment, SegmentContext
from mainstem.record.header import iter_headers, read_header
from mainstem.testing.disk import FaultyDisk
from tests.log.support import DIRECTORY, batch

BATCH = batch(b"0123456789")
SIZE = len(BATCH)


class Opened:
    """A segment of ten batches that was written by an earlier process: none of it is proven yet."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.disk.make_directory(DIRECTORY)
        written = Segment.create(SegmentContext(self.disk), DIRECTORY, 0, 100)
        for offset in range(10):
            header = read_header(BATCH)._replace(base_offset=offset)
            written.append([header], [offset.to_bytes(8, "big"), BATCH[8:]])
        written.write_indexes(10, last=True)
        self.segment = Segment(SegmentContext(self.disk), DIRECTORY, 0, 100)

    def flip(self, number: int, at: int) -> None:
        self.disk.flip_bit(self.segment.path(".log"), number * SIZE + at)

    def read(self, number: int, batches: float, *, minimum_one: bool = True) -> list[int]:
        data = self.segment.read(number * SIZE, int(batches * SIZE), self.segment.size_bytes, minimum_one=minimum_one)
        return [header.base_offset for _, header in iter_headers(data)]

    def read_at(self, offset: int) -> memoryview:
        place = self.segment.locate(offset)
        assert place is not None
        return self.segment.read_batch(place)


def test_nothing_is_read_before_it_is_needed() -> None:
    opened = Opened()
    before = opened.disk.calls
    Segment(SegmentContext(opened.disk), DIRECTORY, 0, 100)
    assert opened.disk.calls == before


@pytest.mark.parametrize("read_before", [False, True])
def test_a_read_gives_whole_batches_proven_or_not_yet(*, read_before: bool) -> None:
    opened = Opened()
    if read_before:
        opened.read(0, 10)
    assert opened.read(2, 3.9) == [2, 3, 4]
    assert opened.read(8, 100) == [8, 9]
    assert opened.read(2, 0.5) == [2]
    assert opened.read(2, 0.5, minimum_one=False) == []


def test_a_read_ends_before_damage_and_the_next_one_says_so() -> None:
    opened = Opened()
    opened.flip(4, 70)
    assert opened.read(0, 10) == [0, 1, 2, 3]
    with pytest.raises(CorruptBatchError, match="checksum"):
        opened.read(4, 10)
    assert opened.read(5, 10) == [5, 6, 7, 8, 9]


def test_what_was_proven_is_not_proven_again() -> None:
    opened = Opened()
    opened.read(0, 10)
    opened.flip(4, 70)
    assert opened.read(0, 10) == list(range(10))


def test_the_first_batch_must_begin_with_the_segments_offset() -> None:
    opened = Opened()
    opened.flip(0, 7)
    with pytest.raises(CorruptBatchError):
        opened.read(0, 10)


@pytest.mark.parametrize("at", [7, 8, 9, 10, 11, 16, 23, 26])
@pytest.mark.parametrize("number", [1, 5, 9])
def test_a_wrong_header_hides_no_other_batch(number: int, at: int) -> None:
    opened = Opened()
    opened.flip(number, at)
    for offset in set(range(10)) - {number}:
        place = opened.segment.locate(offset)
        assert place is not None
        assert place.header.base_offset == offset
    with pytest.raises(CorruptBatchError):
        opened.read_at(number)


def test_the_active_segment_keeps_its_indexes_whatever_the_limit() -> None:
    opened = Opened()
    context = SegmentContext(opened.disk, loaded_indexes_max=0)
    active = Segment.create(context, DIRECTORY, 100, 100)
    closed = Segment(context, DIRECTORY, 0, 100)
    indexes = active.indexes()
    assert closed.locate(3) is not None
    assert active.indexes() is indexes


def test_a_removed_segment_leaves_no_file() -> None:
    opened = Opened()
    view = opened.segment.read(0, 100, opened.segment.size_bytes)
    opened.segment.remove()
    assert opened.disk.list(DIRECTORY) == []
    assert read_header(view).base_offset == 0
