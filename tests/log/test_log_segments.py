from __future__ import annotations

import pytest

from mainstem.log.segments.log_segments import LogPlace, LogSegments
from mainstem.log.segments.segment import Segment, SegmentContext
from mainstem.record.header import iter_headers, read_header
from mainstem.testing.disk import FaultyDisk
from tests.log.support import DIRECTORY, batch


@pytest.fixture
def segments() -> LogSegments:
    """Three segments of two batches each, at offsets 0, 1 | 2, 3 | 10, 11: a gap before the last."""
    disk = FaultyDisk()
    disk.make_directory(DIRECTORY)
    context = SegmentContext(disk)
    made = []
    for base_offset in (0, 2, 10):
        segment = Segment.create(context, DIRECTORY, base_offset, 4096)
        for offset in (base_offset, base_offset + 1):
            data = batch(b"%02d" % offset)
            header = read_header(data)._replace(base_offset=offset)
            segment.append([header], [offset.to_bytes(8, "big"), data[8:]])
        made.append(segment)
    return LogSegments(made)


def offsets(buffers: list[memoryview]) -> list[int]:
    return [header.base_offset for buffer in buffers for _, header in iter_headers(buffer)]


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 10, 11])
def test_each_offset_is_found_in_its_segment(segments: LogSegments, offset: int) -> None:
    place = segments.find(offset)
    header = read_header(place.segment.file().read(place.file_position, 61))
    assert header.base_offset == offset


@pytest.mark.parametrize("offset", [4, 7, 9])
def test_in_a_gap_what_comes_next_is_found(segments: LogSegments, offset: int) -> None:
    assert segments.find(offset) == LogPlace(segments[2], 0)


def test_behind_the_last_batch_is_the_end(segments: LogSegments) -> None:
    assert segments.find(12) == segments.end


def test_reading_goes_across_segments_and_gaps(segments: LogSegments) -> None:
    assert offsets(segments.read(1, 10_000, segments.end, minimum_one=True)[0]) == [1, 2, 3, 10, 11]


def test_reading_ends_where_it_is_told(segments: LogSegments) -> None:
    end = LogPlace(segments[1], len(batch(b"02")))
    assert offsets(segments.read(0, 10_000, end, minimum_one=True)[0]) == [0, 1, 2]


def test_reading_on_begins_at_the_place_that_is_remembered(segments: LogSegments) -> None:
    segments.remember(3, LogPlace(segments[1], len(batch(b"02"))))
    assert offsets(segments.read(3, 10_000, segments.end, minimum_one=True)[0]) == [3, 10, 11]


def test_segments_before_an_offset_are_removed_as_far_as_they_may(segments: LogSegments) -> None:
    segments.drop_before(10, lambda segment: segment.base_offset < 2)
    assert [segment.base_offset for segment in segments] == [2, 10]


def test_the_active_segment_is_never_removed(segments: LogSegments) -> None:
    segments.drop_before(100, lambda segment: True)
    assert [segment.base_offset for segment in segments] == [10]


def test_base_offsets_rise(segments: LogSegments) -> None:
    with pytest.raises(AssertionError):
        segments.append(segments[0])
