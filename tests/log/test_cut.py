from __future__ import annotations

import pytest

from mainstem.log.files.small_files import make_directory
from mainstem.log.recovery.truncated_tail import keep_tail, keep_whole, proven_end_after
from mainstem.log.segments.segment import Segment, SegmentContext
from mainstem.record.header import read_header
from mainstem.testing.disk import FaultyDisk
from tests.log.support import DIRECTORY, batch

BATCH = batch(b"0123456789")


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk()
    make_directory(disk, DIRECTORY)
    return disk


def segment_of(disk: FaultyDisk, base_offset: int, count: int) -> Segment:
    segment = Segment.create(SegmentContext(disk), DIRECTORY, base_offset, 4096)
    for offset in range(base_offset, base_offset + count):
        header = read_header(BATCH)._replace(base_offset=offset)
        segment.append([header], [offset.to_bytes(8, "big"), BATCH[8:]])
    return segment


def test_the_highest_proven_offset_behind_a_cut_is_found(disk: FaultyDisk) -> None:
    first, second = segment_of(disk, 0, 5), segment_of(disk, 5, 3)
    assert proven_end_after(first, len(BATCH), 1, [second]) == 8
    assert proven_end_after(first, len(BATCH), 1, []) == 5


def test_behind_a_torn_tail_nothing_is_proven(disk: FaultyDisk) -> None:
    segment = segment_of(disk, 0, 2)
    segment.file().write(2 * len(BATCH), [BATCH[:-1]])
    assert proven_end_after(segment, 2 * len(BATCH), 2, []) is None


def test_a_tail_is_kept_byte_for_byte_and_durably(disk: FaultyDisk) -> None:
    segment = segment_of(disk, 7, 3)
    content = disk.content(segment.path(".log"))
    path = keep_tail(disk, segment, len(BATCH))
    disk.power_cut()
    assert path.name == f"00000000000000000007.log.{len(BATCH)}.cut"
    assert disk.content(path) == content[len(BATCH) :]


def test_a_whole_segment_is_kept_under_another_name(disk: FaultyDisk) -> None:
    segment = segment_of(disk, 7, 3)
    segment.write_indexes(10)
    content = disk.content(segment.path(".log"))
    path = keep_whole(disk, segment)
    assert disk.list(DIRECTORY) == [path.name]
    assert disk.content(path) == content
