from __future__ import annotations

import itertools
import threading
from contextlib import suppress

import pytest

from mainstem.errors import StorageError
from mainstem.log.node.background_flush import BackgroundFlush
from mainstem.log.partition.config import LogConfig
from mainstem.log.partition.flush import Flush
from mainstem.model import TopicPartition
from tests.log.support import TOPIC_ID, Node, batch


def checkpoint(node: Node) -> None:
    """One tick: what the owner starts, another thread runs."""
    write = node.directory.start_checkpoint()
    if write is not None:
        write.run()


def test_what_lies_unsynced_for_long_is_synced_by_the_checkpoints() -> None:
    node = Node(flush="os")
    node.append(b"a")
    checkpoint(node)
    assert node.log.recovery_point == 0
    node.clock.advance(30)
    checkpoint(node)
    checkpoint(node)
    assert node.log.recovery_point == 1


def test_partitions_that_someone_waits_for_are_left_to_them() -> None:
    node = Node()
    node.append(b"a")
    node.clock.advance(60)
    checkpoint(node)
    checkpoint(node)
    assert node.log.recovery_point == 0


def test_a_background_flush_that_fails_takes_the_partition_offline() -> None:
    node = Node(flush="os")
    node.append(b"a")
    node.clock.advance(30)
    node.faulty.fail_syncs("*.log")
    checkpoint(node)
    checkpoint(node)
    assert node.log.offline_reason is not None


def test_a_flush_that_was_begun_and_not_run_ends_with_the_directory() -> None:
    node = Node(flush="os")
    node.append(b"a")
    node.clock.advance(30)
    assert node.directory.start_checkpoint() is not None
    node.restart()
    assert node.log.recovery_point == 1


def test_too_many_unsynced_files_are_synced_so_that_they_can_be_closed() -> None:
    node = Node(flush="os")
    node.directory._context.open_files.limit = 4
    for number in range(10):
        partition = node.directory.create("many", number, TOPIC_ID, LogConfig.of({"flush": "os"}))
        partition.append(batch(b"x"))
    assert len(node.directory._context.open_files) > 4
    checkpoint(node)
    checkpoint(node)
    for number in range(10):
        node.directory.get(TopicPartition("many", number)).read(0, 100)
    assert len(node.directory._context.open_files) <= 5


def test_flushes_whose_checkpoint_failed_before_them_run_with_the_next() -> None:
    node = Node(flush="os")
    node.append(b"a")
    node.clock.advance(30)
    assert node.directory.start_checkpoint() is not None  # no thread could be started to run it
    checkpoint(node)
    checkpoint(node)
    assert node.log.recovery_point == 1


def test_a_flush_that_a_thread_runs_is_waited_for_and_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells a failed write to one sync only: a second one would pass for a success."""
    node = Node(flush="os")
    node.append(b"a")
    runs: list[int] = []
    entered, go_on = threading.Event(), threading.Event()

    def slow(_: Flush) -> None:
        runs.append(len(runs))
        entered.set()
        assert go_on.wait(60)
        raise StorageError("the disk is broken")

    monkeypatch.setattr(Flush, "run", slow)
    started = node.log.start_flush()
    assert started is not None
    flush = BackgroundFlush(node.log, started)
    threads = [threading.Thread(target=flush.run) for _ in range(2)]
    threads[0].start()
    assert entered.wait(60)
    threads[1].start()
    threads[1].join(0.1)
    assert threads[1].is_alive(), "it waits for the other one"
    assert not flush.maybe_finish()
    go_on.set()
    for thread in threads:
        thread.join()
    assert runs == [0]
    assert flush.maybe_finish()
    assert node.log.offline_reason is not None


def test_files_that_cannot_be_renamed_leave_the_log_later() -> None:
    for fails_at in itertools.count(1):
        node = Node(segment_bytes="300")
        node.commit(*[b"x" * 100] * 20)
        node.log.delete_records(15)
        node.directory.write_checkpoints()
        node.faulty.fail_at_call = fails_at
        with suppress(StorageError):
            node.directory.write_checkpoints()
        if node.faulty.fail_at_call is not None:
            break
        node.directory.write_checkpoints()
        first = node.log._segments[0].base_offset
        assert [int(path.stem) for path in node.files(".log") if int(path.stem) < first] == []
        node.restart()  # what was renamed, and could not be removed, goes with the next start
        assert node.files(".deleted") == []
    assert fails_at > 10
