"""Segments that Kafka has compacted, as they are read and written again."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.errors import StorageError
from mainstem.kafka_directory.gaps import copy_without_gaps, scan_segment
from mainstem.record.header import iter_headers, verify
from mainstem.record.reader import iter_records
from mainstem.record.writer import NewRecord, build_batch


def batch(offset: int, count: int = 2) -> bytes:
    rows = [NewRecord(b"k", b"%d" % (offset + at), (), 1000) for at in range(count)]
    return build_batch(rows, base_offset=offset, leader_epoch=3)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000100.log"
    path.write_bytes(batch(110) + batch(112) + batch(2**33))
    return path


def test_a_scan_finds_gaps_and_the_end(segment: Path, tmp_path: Path) -> None:
    assert scan_segment(segment, 100) == (2**33 + 2, True, 3)
    whole = tmp_path / "whole.log"
    whole.write_bytes(batch(100) + batch(102))
    assert scan_segment(whole, 100) == (104, False, 3)
    (tmp_path / "empty.log").touch()
    assert scan_segment(tmp_path / "empty.log", 7) == (7, False, -1)


def test_empty_batches_stand_where_offsets_were_missing(segment: Path, tmp_path: Path) -> None:
    copy_without_gaps(segment, tmp_path / "copy.log", 100)
    data = (tmp_path / "copy.log").read_bytes()
    offset = 100
    for at, header in iter_headers(data):
        verify(data, at, header)
        assert header.base_offset == offset
        offset = header.next_offset
    assert scan_segment(tmp_path / "copy.log", 100) == (2**33 + 2, False, 3)
    assert [record.offset for record in iter_records(data)] == [110, 111, 112, 113, 2**33, 2**33 + 1]


def test_offsets_that_go_back_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(batch(10) + batch(5))
    with pytest.raises(StorageError, match="offset 5 comes after 11"):
        scan_segment(path, 0)


def test_a_torn_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(batch(0) + batch(2)[:-1])
    with pytest.raises(StorageError, match="bytes after its last whole batch"):
        scan_segment(path, 0)
