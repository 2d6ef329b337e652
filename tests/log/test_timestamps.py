from __future__ import annotations

import random

import pytest

from mainstem.errors import CorruptBatchError
from mainstem.record.constants import Compression
from mainstem.record.header import read_header
from mainstem.record.writer import NewRecord, assemble_batch, build_batch
from tests.log.support import DIRECTORY, NOW_MS, Node, batch, read_all

CONFIGS = {"segment_bytes": "900", "index_interval_bytes": "150"}


def node_of(*timestamps: list[int], compression: Compression = Compression.NONE, **configs: str) -> Node:
    """A node with one batch for each list of timestamps."""
    node = Node(**{**CONFIGS, **configs})
    for each in timestamps:
        records = [NewRecord(None, b"v" * 20, (), timestamp_ms) for timestamp_ms in each]
        node.log.append(build_batch(records, compression=compression))
    node.log.flush()
    return node


def expected(node: Node, timestamp_ms: int) -> tuple[int, int] | None:
    """What a scan over all records says."""
    for record in read_all(node.log, node.log.log_start_offset):
        if record.timestamp_ms >= timestamp_ms:
            return record.offset, record.timestamp_ms
    return None


def found(node: Node, timestamp_ms: int) -> tuple[int, int] | None:
    answer = node.log.offset_for_timestamp(timestamp_ms)
    return (answer.offset, answer.timestamp_ms) if answer is not None else None


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_answer_is_that_of_a_scan(seed: int, *, restarted: bool) -> None:
    chance = random.Random(seed)
    timestamps = [[chance.randrange(1000, 3000) for _ in range(chance.randint(1, 5))] for _ in range(50)]
    node = node_of(*timestamps, compression=Compression(seed % 5))
    if restarted:
        node.restart()
    for timestamp_ms in range(990, 3010, 7):
        assert found(node, timestamp_ms) == expected(node, timestamp_ms)


@pytest.mark.parametrize("compression", Compression)
def test_the_record_within_a_batch_is_found(compression: Compression) -> None:
    node = node_of([5, 9, 7, 20], [30], compression=compression)
    assert [found(node, at) for at in (5, 6, 8, 10, 21)] == [(0, 5), (1, 9), (1, 9), (3, 20), (4, 30)]


def test_records_that_are_not_visible_are_not_found() -> None:
    node = node_of([5])
    node.log.append(batch(b"later", timestamp_ms=NOW_MS))
    assert found(node, 6) is None


def test_records_before_the_log_start_are_not_found() -> None:
    node = node_of([5, 50, 7], [6])
    node.log.delete_records(2)
    assert found(node, 5) == (2, 7)


def test_records_without_timestamps_are_not_found() -> None:
    assert found(node_of([-1, -1]), 0) is None


def test_log_append_time_answers_for_every_record_of_a_batch() -> None:
    node = Node(message_timestamp_type="LogAppendTime")
    node.commit(b"a")
    node.clock.advance(10)
    node.log.append(batch(b"b", b"c", timestamp_ms=1))
    node.log.flush()
    assert found(node, NOW_MS + 1) == (1, NOW_MS + 10_000)


def test_log_append_time_is_that_of_the_append_where_the_check_took_its_time() -> None:
    node = Node(message_timestamp_type="LogAppendTime")
    slow = node.log.start_append(batch(b"b"))
    node.clock.advance(10)
    node.commit(b"a")
    node.clock.advance(10)
    node.log.append_checked(slow.run())
    node.log.flush()
    times = [record.timestamp_ms for record in read_all(node.log, 0)]
    assert times == [NOW_MS + 10_000, NOW_MS + 20_000]
    assert found(node, NOW_MS + 10_001) == (1, NOW_MS + 20_000)


def test_the_answer_names_the_leader_epoch() -> None:
    node = node_of([5])
    node.kill_and_start()
    node.log.append(batch(b"x", timestamp_ms=50))
    node.log.flush()
    answers = [node.log.offset_for_timestamp(at) for at in (5, 6)]
    assert [answer.leader_epoch for answer in answers if answer is not None] == [0, 1]


@pytest.mark.parametrize("restarted", [False, True])
def test_the_greatest_timestamp_is_found_first_come(*, restarted: bool) -> None:
    node = node_of([5], [9, 70, 8], [70], *[[1]] * 30)
    if restarted:
        node.restart()
    answer = node.log.max_timestamp()
    assert answer is not None
    assert (answer.offset, answer.timestamp_ms) == (2, 70)


@pytest.mark.parametrize("count", [1, 3, 20, 40])
def test_the_greatest_timestamp_counts_visible_records_only(count: int) -> None:
    node = node_of(*[[10 + number] for number in range(count)])
    node.log.append(batch(b"x", timestamp_ms=NOW_MS))
    answer = node.log.max_timestamp()
    assert answer is not None
    assert (answer.offset, answer.timestamp_ms) == (count - 1, 9 + count)


def test_an_empty_log_has_no_greatest_timestamp() -> None:
    assert Node().log.max_timestamp() is None
    assert Node().log.offset_for_timestamp(0) is None


def test_damage_before_the_answer_is_no_answer() -> None:
    node = node_of(*[[number] for number in range(20)], segment_bytes="10000")
    node.directory.close()
    node.faulty.flip_bit(DIRECTORY / "00000000000000000000.log", 10 * len(batch(b"v" * 20)) + 70)
    node.start()
    with pytest.raises(CorruptBatchError):
        node.log.offset_for_timestamp(10)


@pytest.mark.parametrize("records", [b"\x80" * 500, b"\x01" * 500, b"\x00" * 500, b"\xff" * 20 + b"\x01" * 480])
def test_records_that_make_no_sense_are_an_error_and_no_hang(records: bytes) -> None:
    header = read_header(build_batch([NewRecord(None, b"", (), 5)] * 50))
    node = Node()
    node.log.append(assemble_batch(header._replace(max_timestamp=99), records), is_own=True)
    node.log.flush()
    with pytest.raises(CorruptBatchError):
        node.log.offset_for_timestamp(50)
