from __future__ import annotations

from mainstem.log.partition.config import LogConfig
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
