from __future__ import annotations

from mainstem.log.files.names import SEAL
from mainstem.log.node.retention import Retention
from mainstem.log.partition.config import LogConfig
from mainstem.model import TopicPartition
from tests.log.support import NOW_MS, PARTITION, Node, batch

HOUR_MS = 3_600_000


def filled(**configs: str) -> Node:
    """A node that was stopped cleanly with three segments in its partition, and started again."""
    node = Node(segment_bytes="150", **configs)
    for hour in range(3):
        node.clock.set_time_ms(NOW_MS + hour * HOUR_MS)
        node.log.append(batch(b"v" * 60, timestamp_ms=NOW_MS + hour * HOUR_MS))
    node.log.flush()
    node.directory.close()
    node.directory = node._open()
    return node


def run_round(node: Node, retention: Retention | None = None) -> Retention:
    config = LogConfig.of(node.configs)
    retention = retention or Retention(node.directory, node.clock, lambda _: config)
    for _ in retention.round():
        pass
    return retention


def test_a_partition_of_which_nothing_has_expired_is_not_opened() -> None:
    node = filled(retention_ms=str(2 * HOUR_MS))
    run_round(node)
    assert PARTITION in node.directory.waiting


def test_a_partition_that_nobody_asked_for_expires() -> None:
    node = filled(retention_ms=str(2 * HOUR_MS))
    retention = run_round(node)
    node.clock.advance(1.5 * 3600)
    run_round(node, retention)
    assert node.directory.get(PARTITION).log_start_offset == 2


def test_what_cannot_expire_yet_is_not_looked_at_again() -> None:
    node = filled(retention_ms=str(2 * HOUR_MS))
    retention = run_round(node)
    calls = node.faulty.calls
    run_round(node, retention)
    assert node.faulty.calls == calls


def test_without_a_seal_the_first_batch_tells_the_age() -> None:
    node = filled(retention_ms=str(2 * HOUR_MS))
    for path in node.files(SEAL):
        node.disk.remove(path)
    run_round(node)
    assert PARTITION in node.directory.waiting
    node.clock.set_time_ms(NOW_MS + 2 * HOUR_MS + 1)
    run_round(node)
    assert PARTITION not in node.directory.waiting


def test_a_partition_that_is_too_large_is_opened_and_cut_down() -> None:
    node = filled(retention_ms="-1", retention_bytes="150")
    run_round(node)
    assert node.directory.get(PARTITION).log_start_offset == 1


def test_a_compacted_partition_is_not_looked_at() -> None:
    node = filled(retention_ms="1")
    node.configs["cleanup.policy"] = "compact"
    calls = node.faulty.calls
    run_round(node)
    assert node.faulty.calls == calls


def test_a_damaged_partition_does_not_end_the_round() -> None:
    node = filled(retention_ms=str(HOUR_MS))
    node.directory.create("other", 0, node.log.topic_id, LogConfig.of(node.configs))
    node.overwrite(node.files(".log")[0], b"\0" * 200)
    for path in node.files(SEAL):
        node.disk.remove(path)
    node.clock.advance(36000)
    run_round(node)
    assert TopicPartition("other", 0) in node.directory.partitions
