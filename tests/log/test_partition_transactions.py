"""Transactions in a partition: what readers of committed records see, who is fenced, and what every start restores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mainstem.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from mainstem.log.partition.config import LogConfig
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.record.reader import AbortedTransaction
from tests.log.support import NOW_MS, Node, end_transaction, in_transaction, read_committed, sent_by, values

STARTS: list[Callable[[Node], PartitionLog]] = [Node.restart, Node.kill_and_start, Node.cut_power_and_start]


def node_with_open_transaction() -> Node:
    """Offset 0 is plain, 1 and 2 are in producer 7's open transaction, 3 is plain."""
    node = Node()
    node.append(b"before")
    node.log.append(in_transaction(7, 0, b"a", b"b"))
    node.append(b"behind")
    node.log.flush()
    return node


def test_the_last_stable_offset_is_where_the_oldest_open_transaction_began() -> None:
    node = node_with_open_transaction()
    node.log.append(in_transaction(8, 0, b"later"))
    node.log.flush()
    assert (node.log.last_stable_offset, node.log.high_watermark) == (1, 5)
    assert node.log.open_transaction_start(7) == 1
    assert node.log.open_transaction_start(9) is None


def test_readers_of_committed_records_see_nothing_from_there_on() -> None:
    log = node_with_open_transaction().log
    assert read_committed(log) == [b"before"]
    assert log.read(1, 1000, committed=True).buffers == []
    assert values(log) == [b"before", b"a", b"b", b"behind"]


def test_a_committed_transaction_is_read() -> None:
    log = node_with_open_transaction().log
    assert end_transaction(log, 7, commit=True) == 4
    log.flush()
    assert log.last_stable_offset == log.high_watermark == 5
    assert read_committed(log) == [b"before", b"a", b"b", b"behind"]
    assert log.read(0, 1000, committed=True).aborted == []


def test_an_aborted_transaction_is_named_to_readers_of_committed_records() -> None:
    log = node_with_open_transaction().log
    end_transaction(log, 7, commit=False)
    log.flush()
    assert log.read(0, 1000, committed=True).aborted == [AbortedTransaction(7, 1)]
    assert log.read(0, 1000).aborted == ()
    assert read_committed(log) == [b"before", b"behind"]


def test_a_transaction_is_open_until_its_marker_is_on_the_disk() -> None:
    log = node_with_open_transaction().log
    end_transaction(log, 7, commit=True)
    assert (log.last_stable_offset, log.high_watermark) == (1, 4)
    log.flush()
    assert log.last_stable_offset == 5


def test_with_flush_os_a_marker_counts_at_once() -> None:
    node = Node(flush="os")
    node.log.append(in_transaction(7, 0, b"a"))
    assert node.log.last_stable_offset == 0
    end_transaction(node.log, 7, commit=True)
    assert node.log.last_stable_offset == node.log.high_watermark == 2


def test_what_was_appended_with_flush_os_stays_stable_under_flush_commit() -> None:
    node = Node(flush="os")
    node.log.append(in_transaction(7, 0, b"a"))
    end_transaction(node.log, 7, commit=True)
    node.log.update_config(LogConfig.of({}))
    node.log.append(in_transaction(7, 1, b"b"))
    end_transaction(node.log, 7, commit=True)
    assert node.log.last_stable_offset == node.log.high_watermark == 2


def test_a_marker_without_a_transaction_changes_nothing_for_readers() -> None:
    node = Node()
    node.append(b"a")
    end_transaction(node.log, 7, commit=False)
    node.log.flush()
    result = node.log.read(0, 1000, committed=True)
    assert (result.last_stable_offset, list(result.aborted)) == (2, [])
    assert node.log.producers()[0].epoch == 0


@pytest.mark.parametrize("start", STARTS)
def test_an_open_transaction_outlasts_every_end(start: Callable[[Node], PartitionLog]) -> None:
    node = node_with_open_transaction()
    log = start(node)
    assert (log.last_stable_offset, log.open_transaction_start(7)) == (1, 1)
    end_transaction(log, 7, commit=False)
    log.flush()
    assert read_committed(start(node)) == [b"before", b"behind"]


@pytest.mark.parametrize("start", STARTS)
def test_the_next_sequence_after_a_start_is_the_one_before(start: Callable[[Node], PartitionLog]) -> None:
    node = node_with_open_transaction()
    end_transaction(node.log, 7, commit=True)
    node.log.flush()
    log = start(node)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(in_transaction(7, 3, b"gap"))
    log.append(in_transaction(7, 2, b"next"))


def transactions_over_many_segments() -> Node:
    """Two producers' transactions across small segments, of which every third is aborted."""
    node = Node(segment_bytes="500", index_interval_bytes="150")
    for number in range(30):
        producer_id, sequence = number % 2, number // 2 * 3
        for at in range(3):
            node.log.append(in_transaction(producer_id, sequence + at, b"%d/%d" % (number, at)))
            node.append(b"plain %d/%d" % (number, at))
        if number % 2:
            node.log.flush()
        end_transaction(node.log, producer_id, commit=number % 3 != 0)
    node.log.flush()
    return node


def committed_of_many() -> list[bytes]:
    found = []
    for number in range(30):
        for at in range(3):
            found += [b"%d/%d" % (number, at)] if number % 3 else []
            found += [b"plain %d/%d" % (number, at)]
    return found


@pytest.mark.parametrize("max_bytes", [1, 300, 1000, 1 << 20])
def test_readers_of_committed_records_see_each_once_with_any_fetch_size(max_bytes: int) -> None:
    node = transactions_over_many_segments()
    assert read_committed(node.log, max_bytes=max_bytes) == committed_of_many()


@pytest.mark.parametrize("start", STARTS)
def test_the_aborted_transactions_outlast_every_end(start: Callable[[Node], PartitionLog]) -> None:
    node = transactions_over_many_segments()
    assert len(node.files(".txnindex")) > 5
    assert read_committed(start(node), max_bytes=400) == committed_of_many()


SPOILS: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "cut off": lambda data: data[: len(data) // 2],
    "longer": lambda data: data + data,
    "a bit flipped": lambda data: data[:-20] + bytes([data[-20] ^ 1]) + data[-19:] if len(data) > 20 else data,
}


@pytest.mark.parametrize("start", [Node.restart, Node.kill_and_start])
@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("suffixes", [(".txnindex",), (".seal",), (".seal", ".txnindex"), (".snapshot",), (".index",)])
def test_a_wrong_file_never_yields_a_wrong_answer(
    suffixes: tuple[str, ...], spoil: str, start: Callable[[Node], PartitionLog]
) -> None:
    node = transactions_over_many_segments()
    node.log.append(in_transaction(0, 45, b"open"))
    node.log.flush()
    if start is Node.restart:
        node.directory.close()
    else:
        node.faulty.kill()
    for suffix in suffixes:
        for path in node.files(suffix):
            node.overwrite(path, SPOILS[spoil](node.faulty.content(path)))
    log = node.start()
    assert read_committed(log, max_bytes=700) == committed_of_many()
    assert log.last_stable_offset == log.high_watermark - 1


def test_all_transaction_indexes_are_rebuilt_byte_for_byte() -> None:
    node = transactions_over_many_segments()
    node.restart()
    node.directory.close()
    written = {path: node.faulty.content(path) for path in node.files(".txnindex")}
    for suffix in (".txnindex", ".seal", ".snapshot"):
        for path in node.files(suffix):
            node.disk.remove(path)
    read_committed(node.start())
    node.directory.close()
    assert {path: node.faulty.content(path) for path in node.files(".txnindex")} == written


# Fencing


def test_markers_and_batches_of_an_older_producer_epoch_are_fenced() -> None:
    node = Node()
    node.log.append(in_transaction(7, 0, b"a", epoch=3))
    with pytest.raises(InvalidProducerEpochError):
        end_transaction(node.log, 7, commit=False, epoch=2)
    with pytest.raises(InvalidProducerEpochError):
        node.log.append(in_transaction(7, 1, b"b", epoch=2))


def test_a_marker_with_a_higher_epoch_ends_the_transaction_and_sequences_begin_at_0() -> None:
    node = Node()
    node.log.append(in_transaction(7, 0, b"a", b"b"))
    end_transaction(node.log, 7, commit=False, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        node.log.append(in_transaction(7, 2, b"zombie"))
    with pytest.raises(OutOfOrderSequenceError, match="0 comes next"):
        node.log.append(in_transaction(7, 2, b"gap", epoch=1))
    assert not node.log.append(in_transaction(7, 0, b"c", epoch=1)).duplicate


def test_a_marker_in_version_2_needs_a_greater_epoch_than_the_batches_it_ends() -> None:
    log = node_with_open_transaction().log
    arguments = {"commit": True, "coordinator_epoch": 0, "timestamp_ms": NOW_MS, "bumps_epoch": True}
    with pytest.raises(InvalidProducerEpochError):
        log.append_marker(7, 0, **arguments)  # type: ignore[arg-type]
    log.append_marker(7, 1, **arguments)  # type: ignore[arg-type]
    log.append_marker(7, 1, **arguments)  # type: ignore[arg-type]
    log.append(in_transaction(7, 0, b"next", epoch=1))
    with pytest.raises(InvalidProducerEpochError):
        log.append_marker(7, 1, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("start", STARTS)
def test_a_marker_of_an_older_coordinator_is_fenced(start: Callable[[Node], PartitionLog]) -> None:
    node = node_with_open_transaction()
    node.log.append_marker(7, 0, commit=True, coordinator_epoch=5, timestamp_ms=NOW_MS)
    node.log.flush()
    log = start(node)
    with pytest.raises(TransactionCoordinatorFencedError):
        log.append_marker(7, 0, commit=True, coordinator_epoch=4, timestamp_ms=NOW_MS)
    log.append_marker(7, 0, commit=True, coordinator_epoch=5, timestamp_ms=NOW_MS)


def test_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused() -> None:
    log = node_with_open_transaction().log
    with pytest.raises(InvalidTransactionStateError):
        log.append(sent_by(7, 2, b"c"))
    end_transaction(log, 7, commit=True)
    log.append(sent_by(7, 2, b"c"))


def test_a_repeated_transactional_batch_is_recognized() -> None:
    log = node_with_open_transaction().log
    assert log.append(in_transaction(7, 0, b"a", b"b")).duplicate
    end_transaction(log, 7, commit=True)
    assert log.append(in_transaction(7, 0, b"a", b"b")).duplicate


def test_a_coordinators_batches_have_no_sequence() -> None:
    log = node_with_open_transaction().log
    for _ in range(2):
        assert not log.append(in_transaction(7, 0, b"offsets"), from_coordinator=True).duplicate
    with pytest.raises(InvalidProducerEpochError):
        log.append_marker(7, -1, commit=True, coordinator_epoch=0, timestamp_ms=NOW_MS)


# The log start


@pytest.mark.parametrize("start", [None, *STARTS])
def test_deleting_records_of_an_open_transaction_holds_the_last_stable_offset_at_the_log_start(
    start: Callable[[Node], PartitionLog] | None,
) -> None:
    node = node_with_open_transaction()
    assert node.log.delete_records(2) == 2
    node.directory.write_checkpoints()
    log = start(node) if start else node.log
    assert (log.log_start_offset, log.last_stable_offset) == (2, 2)
    end_transaction(log, 7, commit=False)
    log.flush()
    assert read_committed(log, 2) == [b"behind"]


def test_segments_of_an_open_transaction_may_go() -> None:
    node = Node(segment_bytes="200")
    node.log.append(in_transaction(7, 0, b"a" * 100))
    for number in range(6):
        node.commit(b"%d" % number * 100)
    node.log.delete_records(5)
    assert node.log.last_stable_offset == 5
    end_transaction(node.log, 7, commit=False)
    node.log.flush()
    assert read_committed(node.log, 5) == [b"4" * 100, b"5" * 100]
    for path in (*node.files(".seal"), *node.files(".txnindex")):
        node.disk.remove(path)
    assert read_committed(node.kill_and_start(), 5) == [b"4" * 100, b"5" * 100]


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    node = node_with_open_transaction()
    node.log.append(sent_by(8, 0, b"x"))
    node.clock.advance(2 * 86_400)
    node.log.flush()
    node.log.write_recovery_checkpoint()
    assert [entry.producer_id for entry in node.log.producers()] == [7]


def test_log_append_time_is_given_to_markers() -> None:
    node = Node(message_timestamp_type="LogAppendTime")
    node.clock.advance(5)
    result = node.log.append_marker(7, 0, commit=True, coordinator_epoch=0, timestamp_ms=NOW_MS)
    assert result.log_append_time_ms == NOW_MS + 5000
