from __future__ import annotations

from pathlib import PurePath

import pytest

from mainstem.errors import CorruptBatchError
from mainstem.log.files.disk import DiskFile
from mainstem.log.segments.batch_scan import (
    Start,
    find_valid_batch,
    last_batch_end,
    skip_before,
    walk_headers,
    walk_past_damage,
    walk_verified,
)
from mainstem.record.writer import NewRecord, build_batch
from mainstem.testing.disk import FaultyDisk

SIZES = (10, 5_000, 30_000, 1, 2_000_000, 10)


def batches(sizes: tuple[int, ...] = SIZES) -> list[bytes]:
    """Batches of two records each, at offsets 0, 2, 4, …"""
    return [
        build_batch([NewRecord(None, b"a" * size), NewRecord(None, b"b")], base_offset=2 * number)
        for number, size in enumerate(sizes)
    ]


def file_of(*parts: bytes) -> DiskFile:
    file = FaultyDisk().create(PurePath("/log"))
    file.write(0, list(parts))
    return file


FIRST = Start(0, 0)
STARTS = [sum(map(len, batches()[:number])) for number in range(len(SIZES) + 1)]


@pytest.mark.parametrize("walk", [walk_headers, walk_verified])
def test_each_batch_is_found_whatever_its_size(walk) -> None:
    found = [(at, header.base_offset) for at, header in walk(file_of(*batches()), FIRST, STARTS[-1])]
    assert found == list(zip(STARTS, range(0, 12, 2), strict=False))


@pytest.mark.parametrize("walk", [walk_headers, walk_verified])
@pytest.mark.parametrize("cut", [1, 11, 12, 16, 60, 61, 70, 71])
def test_a_last_batch_that_is_cut_off_is_an_error(walk, cut: int) -> None:
    data = b"".join(batches((5, 5)))
    size = len(data) // 2
    places = walk(file_of(data[: size + cut]), FIRST, size + cut)
    assert next(places)[0] == 0
    with pytest.raises(CorruptBatchError):
        next(places)


def test_a_flipped_bit_in_a_record_stops_the_proof_and_not_the_walk() -> None:
    data = bytearray(b"".join(batches((50, 50))))
    data[100] ^= 1
    assert len(list(walk_headers(file_of(data), FIRST, len(data)))) == 2
    with pytest.raises(CorruptBatchError, match="checksum"):
        list(walk_verified(file_of(data), FIRST, len(data)))


@pytest.mark.parametrize("prove", [True, False])
@pytest.mark.parametrize("garbage", [b"\0" * 100, b"\x02" * 100, b"x", b"\xff" * 3000])
def test_garbage_between_batches_is_passed_over(prove: bool, garbage: bytes) -> None:
    first, second, third = batches((20, 20, 20))
    file = file_of(first, garbage, second, third)
    found = [at for at, _ in walk_past_damage(file, FIRST, file.size_bytes(), prove=prove)]
    assert found == [0, len(first + garbage), len(first + garbage + second)]


def test_a_batch_whose_offset_goes_back_is_passed_over() -> None:
    first, second, third = batches((20, 20, 20))
    file = file_of(first, second, first, third)
    found = [header.base_offset for _, header in walk_past_damage(file, FIRST, file.size_bytes(), prove=True)]
    assert found == [0, 2, 4]


def test_a_damaged_batch_is_passed_over_when_proving() -> None:
    parts = batches((50, 50, 50))
    rotten = bytearray(parts[1])
    rotten[80] ^= 1
    file = file_of(parts[0], rotten, parts[2])
    found = [header.base_offset for _, header in walk_past_damage(file, FIRST, file.size_bytes(), prove=True)]
    assert found == [0, 4]


def test_the_first_proven_batch_behind_garbage_is_found() -> None:
    (only,) = batches((3,))
    file = file_of(b"\x02" * 1000, only)
    found = find_valid_batch(file, -1, file.size_bytes(), 0)
    assert found is not None
    assert found[0] == 1000


def test_a_batch_from_before_is_not_found() -> None:
    (only,) = batches((3,))
    file = file_of(b"\0" * 10, only)
    assert find_valid_batch(file, -1, file.size_bytes(), first_offset=1) is None


def test_a_batch_across_the_search_window_is_found() -> None:
    (only,) = batches((3,))
    file = file_of(b"\0" * ((1 << 20) - 30), only)
    found = find_valid_batch(file, -1, file.size_bytes(), 0)
    assert found is not None
    assert found[0] == (1 << 20) - 30


@pytest.mark.parametrize("offset", range(13))
def test_the_quick_walk_stops_at_the_batch_of_an_offset(offset: int) -> None:
    found = skip_before(file_of(*batches()), FIRST, STARTS[-1], offset)
    assert (found.file_position, found.base_offset) == (STARTS[offset // 2], offset // 2 * 2)


def test_the_quick_walk_stops_at_what_is_not_a_batch() -> None:
    first, second = batches((5, 5))
    file = file_of(first, b"\0" * 100, second)
    assert skip_before(file, FIRST, file.size_bytes(), 3).file_position == len(first)


@pytest.mark.parametrize("number", range(len(SIZES) + 1))
def test_the_last_batch_end_within_a_limit(number: int) -> None:
    file = file_of(*batches())
    assert last_batch_end(file, 0, STARTS[number]) == STARTS[number]
    assert last_batch_end(file, 0, STARTS[number] + 70) == STARTS[number]


@pytest.mark.parametrize("walk", [walk_headers, walk_verified])
def test_a_batch_that_does_not_follow_on_is_an_error(walk) -> None:
    first, _, third = batches((5, 5, 5))
    with pytest.raises(CorruptBatchError, match="others come next"):
        list(walk(file_of(first, third), FIRST, len(first + third)))


def test_a_walk_from_an_index_entry_knows_where_its_first_batch_ends() -> None:
    file = file_of(*batches())
    assert len(list(walk_headers(file, Start(STARTS[1], None, 3), STARTS[-1]))) == 5
    with pytest.raises(CorruptBatchError):
        list(walk_headers(file, Start(STARTS[1], None, 4), STARTS[-1]))


def test_the_quick_walk_stops_at_a_batch_that_does_not_follow_on() -> None:
    first, _, third = batches((5, 5, 5))
    file = file_of(first, third)
    assert skip_before(file, FIRST, file.size_bytes(), 100) == Start(len(first), 2)
