from __future__ import annotations

import pytest

from mainstem.log.segments.batch_scan import Start
from mainstem.log.segments.offset_index import OffsetIndex


def index_of(*entries: tuple[int, int], base_offset: int = 100) -> OffsetIndex:
    index = OffsetIndex(base_offset)
    for offset, file_position in entries:
        index.append(offset, file_position)
    return index


ENTRIES = ((109, 500), (119, 1000), (139, 1800))


@pytest.mark.parametrize(
    ("offset", "file_position"), [(100, 0), (108, 0), (109, 500), (118, 500), (119, 1000), (138, 1000), (5000, 1800)]
)
def test_lookup_finds_a_batch_that_ends_at_or_before(offset: int, file_position: int) -> None:
    assert index_of(*ENTRIES).lookup(offset).file_position == file_position


@pytest.mark.parametrize(("at", "found"), [(0, 0), (499, 0), (500, 500), (1799, 1000), (9999, 1800)])
def test_file_positions_are_found_too(at: int, found: int) -> None:
    assert index_of(*ENTRIES).lookup_file_position(at) == found


def test_an_empty_index_points_to_the_start() -> None:
    assert index_of().lookup(10**9) == Start(0, 100)
    assert index_of().start_before(10**9) is None


def test_the_file_form_is_kafkas() -> None:
    assert index_of((109, 500)).encode() == bytes([0, 0, 0, 9, 0, 0, 1, 0xF4])


def test_the_file_form_is_read_back() -> None:
    data = index_of(*ENTRIES).encode()
    assert OffsetIndex.decode(100, data).encode() == data
    assert OffsetIndex.decode(100, data).lookup(120) == Start(1000, None, 119)


def test_a_tail_of_the_file_form() -> None:
    index = index_of(*ENTRIES)
    assert index.encode()[16:] == index.encode(first_entry=2)


def test_truncating_keeps_batches_that_end_before() -> None:
    index = index_of(*ENTRIES)
    assert index.truncate(119) == (109, 500)
    assert len(index) == 1
    assert index.truncate(0) is None


def test_entries_must_rise() -> None:
    with pytest.raises(AssertionError):
        index_of((109, 500), (109, 600))
    with pytest.raises(AssertionError):
        index_of((109, 500), (110, 500))


def test_offsets_and_positions_up_to_the_format_limits() -> None:
    index = index_of((100 + 2**31 - 1, 2**31 - 1))
    assert OffsetIndex.decode(100, index.encode()).lookup(2**32).file_position == 2**31 - 1
