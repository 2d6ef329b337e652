"""Batches of another log, appended at their own offsets: what a mirror writes, a follower of the source would have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mainstem.errors import CorruptBatchError, InvalidRecordError, OffsetOutOfRangeError, StorageError
from mainstem.log.files.names import NODE_CHECKPOINT
from mainstem.log.partition.mirrored_batches import check_mirrored, mirrored_steps
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.record.checksum import crc32c
from mainstem.record.constants import ATTRIBUTES_AT, CONTROL_BIT, CRC_AT, Compression
from mainstem.record.header import iter_headers, stamped_prefix
from mainstem.record.writer import NewRecord, build_batch
from tests.log.support import (
    DATA,
    PARTITION,
    Node,
    batch,
    end_transaction,
    in_transaction,
    read_committed,
    sent_by,
    values,
)

_SOURCE = "clusterA/AAAAAAAAAAAAAAAAAAAAAA"


def _mirror(**configs: str) -> Node:
    return Node(mainstem_mirror_of=_SOURCE, **configs)


def _raw(log: PartitionLog) -> bytes:
    """All batches that readers see, as they are stored."""
    data, offset = b"", log.log_start_offset
    while offset < log.high_watermark:
        for buffer in log.read(offset, 1 << 20).buffers:
            data += bytes(buffer)
            for _, header in iter_headers(buffer):
                offset = header.next_offset
    return data


def _at(offset: int, data: bytes, leader_epoch: int = 0) -> bytes:
    """The batch with another offset and leader epoch, which its checksum does not cover."""
    _, header = next(iter_headers(data))
    return stamped_prefix(offset, header.batch_length, leader_epoch) + data[16:]


def _append(node: Node, data: bytes, expected_end: int, fill_to: int = -1) -> None:
    node.directory.raise_leader_epoch(max((header.leader_epoch for _, header in iter_headers(data)), default=0))
    for step, to in mirrored_steps(check_mirrored(memoryview(data)), expected_end, fill_to):
        node.log.append_mirrored(step, expected_end, to)
        expected_end = node.log.log_end_offset
    node.log.flush()


@pytest.fixture
def source() -> Iterator[Node]:
    """A log with an idempotent producer, and with transactions that are committed, aborted and open."""
    node = Node()
    node.commit(b"a", b"b")
    node.log.append(sent_by(7, 0, b"c", b"d"))
    node.log.append(in_transaction(8, 0, b"kept"))
    node.log.append(in_transaction(9, 0, b"gone"))
    end_transaction(node.log, 8, commit=True)
    end_transaction(node.log, 9, commit=False)
    node.log.append(in_transaction(10, 0, b"open"))
    node.log.append(batch(b"after"))
    node.log.flush()
    yield node
    node.directory.close()


def _assert_same(there: PartitionLog, here: PartitionLog) -> None:
    assert _raw(here) == _raw(there)
    assert here.log_end_offset == there.log_end_offset
    assert here.last_stable_offset == there.last_stable_offset
    assert read_committed(here) == read_committed(there)
    keys = ("producer_id", "epoch", "last_sequence", "transaction_first_offset", "coordinator_epoch")
    producers = [[tuple(getattr(each, key) for key in keys) for each in log.producers()] for log in (there, here)]
    assert producers[0] == producers[1]


def test_a_mirror_has_the_bytes_the_producers_and_the_transactions_of_its_source(source: Node) -> None:
    node = _mirror()
    _append(node, _raw(source.log), 0)
    _assert_same(source.log, node.log)


@pytest.mark.parametrize("end", ["restart", "kill_and_start", "cut_power_and_start"])
def test_it_has_them_after_each_kind_of_end(source: Node, end: str) -> None:
    node = _mirror()
    _append(node, _raw(source.log), 0)
    getattr(node, end)()
    _assert_same(source.log, node.log)


def test_it_does_batch_by_batch_over_many_segments(source: Node) -> None:
    node = _mirror(internal_segment_bytes="200")
    data = _raw(source.log)
    for at, header in iter_headers(data):
        _append(node, data[at : at + header.size_bytes], header.base_offset)
        node.kill_and_start()
    assert node.log.statistics().segments > 3
    _assert_same(source.log, node.log)


def test_batches_that_do_not_follow_the_end_are_refused_and_nothing_changes(source: Node) -> None:
    node = _mirror()
    data = _raw(source.log)
    _append(node, data, 0)
    for expected in (0, 3, node.log.log_end_offset + 1):
        with pytest.raises(OffsetOutOfRangeError, match="ends at"):
            _append(node, data, expected)
    with pytest.raises(OffsetOutOfRangeError, match="do not follow"):
        _append(node, data, node.log.log_end_offset)
    _assert_same(source.log, node.log)


def test_damaged_and_unordered_batches_are_refused() -> None:
    one, two = _at(0, batch(b"a")), _at(1, batch(b"b"))
    with pytest.raises(CorruptBatchError):
        check_mirrored(memoryview(one[:-1] + bytes((one[-1] ^ 1,))))
    with pytest.raises(InvalidRecordError, match="after the last whole"):
        check_mirrored(memoryview(one + two[:-3]))
    with pytest.raises(InvalidRecordError, match="after one that ends at"):
        check_mirrored(memoryview(two + one))
    with pytest.raises(InvalidRecordError, match="out of range"):
        check_mirrored(memoryview(_at(0, batch(b"a"), (1 << 30) + 1)))
    with pytest.raises(InvalidRecordError, match="offsets at once"):
        _append(_mirror(), b"", 0, 1 << 60)


def test_control_batches_that_no_log_writes_are_refused() -> None:
    """The log reads them when it appends and when it starts: one must not become 256 MB there."""
    records = [NewRecord(b"k", b"v" * 1000)] * 2
    for wrong in (build_batch(records[:1], compression=Compression.ZSTD), build_batch(records)):
        data = bytearray(wrong)
        data[ATTRIBUTES_AT + 1] |= CONTROL_BIT
        data[CRC_AT:ATTRIBUTES_AT] = (crc32c(bytes(data[ATTRIBUTES_AT:])) & 0xFFFFFFFF).to_bytes(4, "big")
        with pytest.raises(InvalidRecordError, match="control batch at offset 0"):
            check_mirrored(memoryview(data))


def test_one_step_is_short_however_much_a_request_holds() -> None:
    one = batch(b"")
    many = check_mirrored(memoryview(b"".join(_at(offset, one) for offset in range(2500))))
    assert [len(step) for step, _ in mirrored_steps(many, 0, -1)] == [1000, 1000, 500]
    large = batch(b"x" * 600_000)
    large_ones = check_mirrored(memoryview(b"".join(_at(offset, large) for offset in range(3))))
    assert [len(step) for step, _ in mirrored_steps(large_ones, 0, -1)] == [1, 1, 1]
    far = check_mirrored(memoryview(_at(0, one) + _at(1 << 40, one)))
    end, steps = 0, 0
    for step, to in mirrored_steps(far, 0, 1 << 41):
        after = max(to, step[-1].header.next_offset if step else end)
        assert 0 <= after - end <= 1 << 35
        end, steps = after, steps + 1
    assert (end, steps < 200) == (1 << 41, True)


@pytest.mark.parametrize("end", ["restart", "kill_and_start", "cut_power_and_start"])
def test_gaps_are_kept_as_gaps(end: str) -> None:
    node = _mirror()
    far = 3 << 31
    _append(node, _at(5, batch(b"a")) + _at(far, batch(b"b")), 0, far + 100)
    getattr(node, end)()
    assert values(node.log) == [b"a", b"b"]
    assert node.log.log_end_offset == far + 100
    assert [header.base_offset for _, header in iter_headers(_raw(node.log)) if header.record_count] == [5, far]
    node.log.delete_records(far)
    _append(node, _at(far + 100, batch(b"c")), far + 100)
    assert values(node.log, far) == [b"b", b"c"]


def test_leader_epochs_are_those_of_the_batches() -> None:
    node = _mirror()
    _append(node, _at(0, batch(b"a"), 3) + _at(10, batch(b"b"), 40), 0)
    for _ in range(2):
        assert node.log.end_offset_for_epoch(3) == (3, 10)
        assert node.log.end_offset_for_epoch(40).leader_epoch == 40
        assert node.log.leader_epoch >= 40
        node.cut_power_and_start()


def test_an_epoch_that_could_not_be_written_is_written_by_the_next_try() -> None:
    node = _mirror()
    node.faulty.capacity_bytes = node.faulty.used_bytes()
    for _ in range(2):
        with pytest.raises(StorageError):
            node.directory.raise_leader_epoch(40)
    node.faulty.capacity_bytes = None
    _append(node, _at(0, batch(b"a"), 40), 0)
    node.kill_and_start()
    assert node.log.end_offset_for_epoch(40).leader_epoch == 40


def test_a_partition_whose_epoch_cannot_be_written_is_opened_later() -> None:
    node = _mirror()
    _append(node, _at(0, batch(b"a"), 40), 0)
    node.disk.remove(DATA / NODE_CHECKPOINT)
    node.faulty.kill()
    node.directory = node._open()
    assert node.directory.leader_epoch < 40
    node.faulty.fail_syncs(f"*{NODE_CHECKPOINT}*")
    with pytest.raises(StorageError):
        node.directory.get(PARTITION)
    assert PARTITION not in node.directory.partitions
    assert node.directory.get(PARTITION).leader_epoch >= 40
    assert node.directory.leader_epoch >= 40
    assert not node.directory.offline
