from __future__ import annotations

import pytest

from mainstem.log.segments.time_index import TimeIndex


def index_of(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex(100)
    for timestamp_ms, offset in entries:
        index.maybe_append(timestamp_ms, offset)
    return index


ENTRIES = ((1000, 109), (2000, 119), (3000, 139))


@pytest.mark.parametrize(
    ("timestamp", "offset"), [(1, 99), (1000, 99), (1001, 109), (2000, 109), (2500, 119), (9999, 139)]
)
def test_lookup_gives_the_offset_behind_which_to_look(timestamp: int, offset: int) -> None:
    assert index_of(*ENTRIES).lookup(timestamp) == offset


def test_a_timestamp_that_is_not_greater_adds_nothing() -> None:
    assert len(index_of((1000, 109), (1000, 119), (999, 129))) == 1


def test_records_without_timestamps_add_nothing() -> None:
    assert len(index_of((-1, 109))) == 0


def test_the_file_form_is_kafkas() -> None:
    assert index_of((1, 102)).encode() == bytes([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2])


def test_the_file_form_is_read_back() -> None:
    data = index_of(*ENTRIES, (2**62 + 1, 200)).encode()
    assert TimeIndex.decode(100, data).encode() == data
    assert TimeIndex.decode(100, data).lookup(2**62 + 2) == 200


def test_a_tail_of_the_file_form() -> None:
    index = index_of(*ENTRIES)
    assert index.encode()[12:] == index.encode(first_entry=1)


def test_truncating_keeps_what_is_known_up_to_an_offset() -> None:
    index = index_of(*ENTRIES)
    assert index.truncate(138) == (2000, 119)
    assert index.truncate(100) is None


def test_the_last_entry_up_to_an_offset() -> None:
    assert index_of(*ENTRIES).last_until(119) == (2000, 119)
    assert index_of(*ENTRIES).last_until(108) is None
