"""Up to when the backup says that it has all: never more than it has, also when the log writes no checkpoint."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.backup.continuous import Backup, BackupOptions
from mainstem.backup.held_until import PointCoverage
from mainstem.backup.manifest import ManifestReader
from mainstem.backup.source import DataDirectory
from mainstem.backup.status import BackupStatus
from mainstem.client.log import Log
from mainstem.clock import SystemClock
from mainstem.durable_files import TEMPORARY
from mainstem.log.files.disk import OsDisk
from mainstem.log.files.names import NODE_CHECKPOINT
from mainstem.log.node.node_log import NodeLog
from mainstem.model import TopicPartition
from mainstem.object_stores.opening import open_store
from mainstem.record.writer import NewRecord, build_batch
from mainstem.testing import ManualClock
from mainstem.testing.embedded import EmbeddedBroker
from tests.backup.support import FailingStore, backup_of, once
from tests.support.eventually import eventually

ORDERS = TopicPartition("orders", 0)
_HOUR_S = 3600


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(SystemClock().time_ms())


def opened(tmp_path: Path, clock: ManualClock) -> NodeLog:
    """A log that writes a checkpoint when a test says so."""
    return NodeLog.open(OsDisk(), clock, tmp_path / "data", {})


@pytest.fixture
def node(tmp_path: Path, clock: ManualClock) -> Iterator[NodeLog]:
    node = opened(tmp_path, clock)
    node.create_topic("orders", 1, {"internal.segment.bytes": "4000"})
    yield node
    node.directory.release()


def append(node: NodeLog, size: int = 500, partition: TopicPartition = ORDERS) -> None:
    """A record that is durable, and of which no checkpoint says so yet."""
    log = node.get(partition)
    log.append(build_batch([NewRecord(b"k", b"x" * size, (), 0)]))
    log.flush()


def checkpoint(node: NodeLog, clock: ManualClock) -> None:
    """Write the checkpoint, at the manual clock's time."""
    node.directory.write_checkpoints()
    time_ns = clock.time_ms() * 1_000_000
    os.utime(Path(node.directory.path) / NODE_CHECKPOINT, ns=(time_ns, time_ns))


def test_the_time_goes_on_with_a_quiet_log_and_stops_with_one_that_writes_no_checkpoint(
    node: NodeLog, clock: ManualClock, tmp_path: Path
) -> None:
    status, store = BackupStatus(None, clock), open_store(str(tmp_path / "copies"))
    lines: list[str] = []
    with Backup(tmp_path / "data", store, BackupOptions(), status, lines.append, clock) as backup:
        append(node)
        checkpoint(node, clock)
        for _ in range(3):  # a quiet log has written its checkpoint hours ago
            clock.advance(_HOUR_S)
            backup.round()
            assert status.held_until_ms == clock.time_ms()
        last_ms = clock.time_ms()
        append(node)
        for pause_s in (5, _HOUR_S, _HOUR_S):
            clock.advance(pause_s)
            backup.round()
            assert status.held_until_ms == last_ms
        assert "orders/0 has records that are not in the log's checkpoint" in status.last_error
        assert [line.removeprefix("backup: ") for line in lines] == [status.last_error], "it is said once"
        checkpoint(node, clock)
        clock.advance(5)
        backup.round()
        assert status.held_until_ms == clock.time_ms()
        assert not status.last_error


def test_a_log_that_is_written_all_the_time_is_held_up_to_the_checkpoint_before(
    node: NodeLog, clock: ManualClock, tmp_path: Path
) -> None:
    """A checkpoint is written after its lines were noted: how long after, its time does not say."""
    with backup_of(tmp_path / "data", str(tmp_path / "copies"), clock) as backup:

        def written_on() -> int:
            """A round between a checkpoint and a record; the checkpoint's time."""
            append(node)
            checkpoint(node, clock)
            checkpoint_ms = clock.time_ms()
            clock.advance(1)
            append(node)
            backup.round()
            return checkpoint_ms

        before_ms = written_on()
        assert backup._status.held_until_ms is None, "the records may be old ones"
        for _ in range(3):
            checkpoint_ms = written_on()
            assert backup._status.held_until_ms == before_ms
            before_ms = checkpoint_ms
        clock.set_time_ms(before_ms - _HOUR_S * 1000)  # a time that lies ahead by now says nothing
        written_on()
        before_ms = written_on()
        written_on()
        assert backup._status.held_until_ms == before_ms


def test_a_checkpoint_of_before_the_clock_was_set_back_is_no_time_to_come(
    node: NodeLog, clock: ManualClock, tmp_path: Path
) -> None:
    with backup_of(tmp_path / "data", str(tmp_path / "copies"), clock) as backup:
        append(node)
        checkpoint(node, clock)
        append(node)
        backup.round()
        clock.set_time_ms(clock.time_ms() - _HOUR_S * 1000)
        backup.round()
        for _ in range(2):
            checkpoint(node, clock)
            clock.advance(1)
            append(node)
            backup.round()
        assert (backup._status.held_until_ms or 0) <= clock.time_ms()


def test_a_partition_that_the_log_has_not_opened_since_it_was_killed_holds_the_time_back(
    clock: ManualClock, tmp_path: Path
) -> None:
    node = opened(tmp_path, clock)
    node.create_topic("orders", 1, {})
    node.create_topic("busy", 1, {})

    def go_on(node: NodeLog) -> None:
        append(node, partition=TopicPartition("busy", 0))
        checkpoint(node, clock)
        clock.advance(70)
        backup.round()

    status, lines = BackupStatus(None, clock), list[str]()
    store = open_store(str(tmp_path / "copies"))
    with Backup(tmp_path / "data", store, BackupOptions(), status, lines.append, clock) as backup:
        append(node)
        go_on(node)
        last_ms = clock.time_ms()
        assert status.held_until_ms == last_ms
        append(node)
        node.directory.release()
        again = opened(tmp_path, clock)
        for _ in range(3):
            go_on(again)
            assert status.held_until_ms == last_ms
        assert "orders/0 has records" in status.last_error
        assert len(lines) == 1
        again.get(ORDERS)
        go_on(again)
        assert status.held_until_ms == clock.time_ms()
        assert not status.last_error
        again.directory.release()


def test_a_backup_that_starts_beside_a_log_without_checkpoints_does_not_say_that_it_has_all(
    node: NodeLog, clock: ManualClock, tmp_path: Path
) -> None:
    checkpoint(node, clock)
    append(node)
    clock.advance(_HOUR_S)
    with backup_of(tmp_path / "data", str(tmp_path / "copies"), clock) as backup:
        for _ in range(2):
            backup.round()
            assert backup._status.held_until_ms is None
            clock.advance(_HOUR_S)
        assert "orders/0 has records" in backup._status.last_error
        assert "mainstem_backup_held_until_seconds 0.0\n" in backup._status.text()


def test_each_kind_of_growth_is_seen(
    node: NodeLog, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, directory = str(tmp_path / "copies"), DataDirectory(tmp_path / "data")
    append(node, 3500)
    checkpoint(node, clock)
    once(tmp_path / "data", url)
    ends = ManifestReader(open_store(url)).newest().ends
    coverage = PointCoverage(directory)
    assert coverage.beyond(ends) == []
    without = {name: end for name, end in ends.items() if name != ORDERS}
    assert coverage.beyond(without) == [ORDERS], "a new partition"
    assert coverage.beyond({**ends, ORDERS: ends[ORDERS]._replace(topic_id="another")}) == [ORDERS], "a new topic"
    assert coverage.beyond({**ends, ORDERS: ends[ORDERS]._replace(end_position=100)}) == [ORDERS]
    for partition, _ in directory.partition_directories():
        os.utime(partition, (0, 0))  # as if the names had not changed for long
    assert coverage.beyond(ends) == []
    with monkeypatch.context() as patch:
        patch.setattr(directory, "newest_segment", None)  # names that have not changed are not read again
        assert coverage.beyond(ends) == []
    segment = directory.path / "orders-0" / "00000000000000000000.log"
    before = segment.stat().st_size
    append(node, 3500)
    assert segment.stat().st_size == before, "the record is in another segment"
    assert coverage.beyond(ends) == [ORDERS], "a new segment"


def test_what_a_broker_acknowledges_while_its_disk_refuses_the_checkpoint_is_not_said_to_be_held(
    broker: EmbeddedBroker, log: Log, tmp_path: Path
) -> None:
    clock = ManualClock(SystemClock().time_ms() + 60_000)
    log.create_topic("orders", partitions=1)
    log.append("orders", "before")
    refused = broker.directory / (NODE_CHECKPOINT + TEMPORARY)
    with backup_of(broker.directory, str(tmp_path / "copies"), clock) as backup:

        def is_level() -> bool:
            backup.round()
            return backup._status.held_until_ms == clock.time_ms()

        eventually(is_level, "the backup has all of a quiet broker")
        refused.mkdir()
        try:
            last_ms = clock.time_ms()
            log.append("orders", "acknowledged")
            for _ in range(3):
                clock.advance(_HOUR_S)
                backup.round()
                assert backup._status.held_until_ms == last_ms
        finally:
            refused.rmdir()
        eventually(is_level, "the broker has written its checkpoint")


def test_a_last_round_that_fails_says_so(node: NodeLog, clock: ManualClock, tmp_path: Path) -> None:
    checkpoint(node, clock)
    store, status = FailingStore(open_store(str(tmp_path / "copies")), 0.0), BackupStatus(None, clock)
    lines: list[str] = []
    with Backup(tmp_path / "data", store, BackupOptions(every_s=600), status, lines.append) as backup:
        thread = threading.Thread(target=backup.run)
        thread.start()
        eventually(lambda: status.held_until_ms, "the first round is over")
        append(node)
        checkpoint(node, clock)
        store.rate = 1.0
        backup.stop()
        thread.join(30)
    (line,) = lines
    assert "the store failed" in line or "was lost" in line
    assert "what the log has stored since the last whole round is not in the backup" in line
    assert status.failures == 1
