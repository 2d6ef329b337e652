from __future__ import annotations

import struct
from uuid import UUID

import pytest
from crc32c import crc32c

from mainstem.log.partition.producer_snapshot import (
    SnapshotError,
    decode_snapshot,
    encode_snapshot,
    read_newest_snapshot,
    write_snapshot,
)
from mainstem.log.partition.producer_state import ProducerState
from mainstem.record.header import read_header
from mainstem.testing.disk import FaultyDisk
from tests.log.support import DIRECTORY, TOPIC_ID, sent_by


def state_of(batches: int, producers: int = 2) -> ProducerState:
    state = ProducerState()
    for number in range(batches):
        for producer_id in range(producers):
            header = read_header(sent_by(producer_id, number * 2, b"a", b"b"))
            state.update(header._replace(base_offset=state.end_offset))
    return state


def described(state: ProducerState) -> list[tuple[int, int, list[object]]]:
    return [(entry.producer_id, entry.epoch, list(entry.batches)) for entry in state.entries()]


@pytest.mark.parametrize("batches", [0, 1, 3, 9])
def test_a_snapshot_is_read_back_with_its_last_five_batches(batches: int) -> None:
    state = state_of(batches)
    read = decode_snapshot(encode_snapshot(state, TOPIC_ID, 0), state.end_offset, TOPIC_ID, 0)
    assert described(read) == described(state)
    assert read.end_offset == state.end_offset


def test_when_a_producer_wrote_is_read_back_and_an_older_trailer_does_not_say() -> None:
    state = ProducerState()
    state.update(read_header(sent_by(1, 0, b"a")), written_ms=77)
    data = encode_snapshot(state, TOPIC_ID, 0)
    assert [entry.written_ms for entry in decode_snapshot(data, 1, TOPIC_ID, 0).entries()] == [77]
    body = data[6:-9].replace(b"MSP2", b"MSPS") + data[-1:]
    older = struct.pack(">hI", 1, crc32c(body)) + body
    read = decode_snapshot(older, 1, TOPIC_ID, 0)
    assert (described(read), read.entries()[0].written_ms) == (described(state), -1)


def test_any_flipped_bit_is_found() -> None:
    data = encode_snapshot(state_of(3), TOPIC_ID, 0)
    for at in range(len(data) * 8):
        rotten = bytearray(data)
        rotten[at // 8] ^= 1 << at % 8
        with pytest.raises(SnapshotError):
            decode_snapshot(bytes(rotten), 12, TOPIC_ID, 0)


def test_any_missing_end_is_found() -> None:
    data = encode_snapshot(state_of(3), TOPIC_ID, 0)
    for length in range(len(data)):
        with pytest.raises(SnapshotError):
            decode_snapshot(data[:length], 12, TOPIC_ID, 0)


@pytest.mark.parametrize(
    ("offset", "topic_id", "partition"), [(11, TOPIC_ID, 0), (12, UUID(int=8), 0), (12, TOPIC_ID, 1)]
)
def test_a_snapshot_in_the_wrong_place_is_not_believed(offset: int, topic_id: UUID, partition: int) -> None:
    data = encode_snapshot(state_of(3), TOPIC_ID, 0)
    with pytest.raises(SnapshotError, match="another partition or offset"):
        decode_snapshot(data, offset, topic_id, partition)


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk()
    disk.make_directory(DIRECTORY)
    return disk


def write_states(disk: FaultyDisk, *batches: int, recovery_point: int = 100) -> None:
    for count in batches:
        state = state_of(count, producers=1)
        write_snapshot(disk, DIRECTORY, state, TOPIC_ID, 0, recovery_point=min(state.end_offset, recovery_point))


def test_only_the_newest_two_are_kept(disk: FaultyDisk) -> None:
    write_states(disk, 1, 2, 3, 4)
    assert disk.list(DIRECTORY) == ["00000000000000000006.snapshot", "00000000000000000008.snapshot"]


def test_two_are_kept_that_a_start_may_use(disk: FaultyDisk) -> None:
    write_states(disk, 1, 2, 3, 4, 5, recovery_point=6)
    assert [int(name[:20]) for name in disk.list(DIRECTORY)] == [4, 6, 8, 10]


def test_a_snapshot_past_the_recovery_point_is_not_used(disk: FaultyDisk) -> None:
    write_states(disk, 1, 2)
    state = read_newest_snapshot(disk, DIRECTORY, (0, 3), TOPIC_ID, 0)
    assert state is not None
    assert state.end_offset == 2


def test_a_snapshot_before_the_log_begins_is_not_used(disk: FaultyDisk) -> None:
    write_states(disk, 1, 2)
    assert read_newest_snapshot(disk, DIRECTORY, (3, 3), TOPIC_ID, 0) is None
    assert disk.list(DIRECTORY) == []


def test_a_rotten_snapshot_gives_way_to_the_one_before(disk: FaultyDisk) -> None:
    write_states(disk, 1, 2)
    disk.flip_bit(DIRECTORY / "00000000000000000004.snapshot", 20)
    state = read_newest_snapshot(disk, DIRECTORY, (0, 4), TOPIC_ID, 0)
    assert state is not None
    assert state.end_offset == 2


def test_without_a_snapshot_there_is_none(disk: FaultyDisk) -> None:
    assert read_newest_snapshot(disk, DIRECTORY, (0, 4), TOPIC_ID, 0) is None
