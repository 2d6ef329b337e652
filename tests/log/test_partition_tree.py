"""The tree of a partition: what it covers, what waits for it, and that damage is found and never signed."""

from __future__ import annotations

import pytest

from mainstem.errors import ConfigError, CorruptBatchError, DamagedTreeError, StorageError
from mainstem.log.files.names import LOG
from mainstem.log.node.node_log import NodeLog
from mainstem.log.partition.config import LogConfig, check_changed_configs
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.recovery.verify import verify_directory
from mainstem.log.verifiable.partition_tree import PartitionTree, TreeHead
from mainstem.log.verifiable.tree_files import ENTRIES_FILE, HASHES_FILE, STATE_FILE, TreeFiles
from mainstem.record.header import iter_headers
from mainstem.testing.clock import ManualClock
from mainstem.testing.disk import FaultyDisk
from mainstem.tlog.leaf import decode_leaf, verify_batch
from mainstem.tlog.merkle import EMPTY_ROOT
from mainstem.tlog.tiles import ENTRIES, Tile, decode_bundle
from tests.log.support import DATA, DIRECTORY, NOW_MS, PARTITION, Node, batch


def filled(batches: int = 5, **configs: str) -> Node:
    """A node with a verifiable partition of so many durable batches of two records, and their leaves."""
    node = Node(mainstem_verifiable="true", **configs)
    append(node.log, batches)
    return node


def start_failing(node: Node) -> str:
    """Open the partition again; why its tree signs nothing."""
    node.directory = node._open()
    tree = tree_of(node.directory.get(PARTITION))
    tree.advance()
    assert tree.head is None
    assert tree.failure is not None
    return tree.failure


def append(log: PartitionLog, batches: int) -> None:
    for number in range(batches):
        log.append(batch(b"value %d" % number, b"x" * 40))
    log.flush()
    tree_of(log).advance(keep=True)


def tree_of(log: PartitionLog) -> PartitionTree:
    assert log.tree is not None
    return log.tree


def size_of(log: PartitionLog) -> int:
    head = tree_of(log).head
    assert head is not None, tree_of(log).failure
    return head.size


def restarted(node: Node, *, cleanly: bool = True) -> PartitionLog:
    if cleanly:
        node.directory.close()
    else:
        node.faulty.power_cut()
    node.directory = node._open()
    log = node.directory.get(PARTITION)
    tree_of(log).advance()
    return log


def test_a_leaf_fixes_the_bytes_of_its_batch() -> None:
    node = filled(3)
    bundle = tree_of(node.log).read(Tile(ENTRIES, 0, 3)).run()
    data = b"".join(bytes(each) for each in node.log.read(0, 1 << 20).buffers)
    stored = [data[at : at + header.size_bytes] for at, header in iter_headers(data)]
    for entry, each in zip(decode_bundle(bundle), stored, strict=True):
        verify_batch(decode_leaf(entry), each)


def test_what_is_not_durable_has_no_leaf() -> None:
    node = filled(2)
    node.log.append(batch(b"not synced"))
    tree_of(node.log).advance()
    assert size_of(node.log) == 2
    node.log.flush()
    tree_of(node.log).advance()
    assert size_of(node.log) == 3


def test_leaves_that_were_not_kept_are_made_again() -> None:
    node = filled(3)
    root = tree_of(node.log).head
    node.log.append(batch(b"one more"))
    node.log.flush()
    tree_of(node.log).advance()
    after = tree_of(node.log).head
    log = restarted(node, cleanly=False)
    tree_of(log).advance()
    assert tree_of(log).head == after != root


def test_more_leaves_than_a_tile_make_the_hash_above() -> None:
    node = filled(600)
    log = restarted(node)
    assert size_of(log) == 600
    assert len(tree_of(log).read(Tile(1, 0, 2)).run()) == 64
    assert len(tree_of(log).read(Tile(0, 2, 88)).run()) == 88 * 32
    found = tree_of(log).find(777)
    assert found is not None
    assert (found.leaf_index, decode_leaf(found.entry).base_offset) == (388, 776)
    assert tree_of(log).find(1200) is None


def test_deleted_records_keep_their_leaves_and_wait_for_them() -> None:
    node = filled(0, segment_bytes="300")
    for number in range(20):
        node.log.append(batch(b"%d" % number, b"y" * 60))
    node.log.flush()
    segments = len(node.files(LOG))
    node.log.delete_records(30)
    node.directory.write_checkpoints()
    node.directory.write_checkpoints()
    assert len(node.files(LOG)) == segments, "no segment goes before its leaves are kept"
    tree_of(node.log).advance(keep=True)
    node.directory.write_checkpoints()
    node.directory.write_checkpoints()
    assert len(node.files(LOG)) < segments
    log = restarted(node)
    assert size_of(log) == 20
    assert len(decode_bundle(tree_of(log).read(Tile(ENTRIES, 0, 20)).run())) == 20


def test_a_changed_batch_is_found_when_its_bundle_is_served() -> None:
    node = filled(5)
    path = node.files(LOG)[0]
    node.faulty.flip_bit(path, 200)
    with pytest.raises(CorruptBatchError):
        tree_of(node.log).read(Tile(ENTRIES, 0, 5)).run()


@pytest.mark.parametrize("name", [f"{HASHES_FILE}0", f"{HASHES_FILE}1", ENTRIES_FILE, STATE_FILE])
def test_every_flipped_bit_at_the_edge_stops_the_signatures(name: str) -> None:
    node = filled(300)
    node.directory.close()
    size = len(node.faulty.content(DIRECTORY / name))
    for at in {0, size - 1} if name == STATE_FILE else {size - 1}:
        node.faulty.flip_bit(DIRECTORY / name, at)
        assert "damaged" in start_failing(node)
        node.directory.release()
        node.faulty.flip_bit(DIRECTORY / name, at)
        node.faulty.kill()


def test_a_flipped_bit_in_a_full_tile_is_found_when_it_is_served() -> None:
    node = filled(300)
    node.faulty.flip_bit(DIRECTORY / f"{HASHES_FILE}0", 77)
    node.faulty.flip_bit(DIRECTORY / ENTRIES_FILE, 56 * 100 + 3)
    with pytest.raises(DamagedTreeError, match="the tile 0"):
        tree_of(node.log).read(Tile(0, 0)).run()
    with pytest.raises(DamagedTreeError, match="entry of leaf"):
        tree_of(node.log).read(Tile(ENTRIES, 0)).run()


@pytest.mark.parametrize("name", [STATE_FILE, ENTRIES_FILE])
def test_a_lost_file_stops_the_signatures(name: str) -> None:
    node = filled(5)
    node.directory.close()
    node.disk.remove(DIRECTORY / name)
    assert "damaged" in start_failing(node)


def test_a_tree_that_is_lost_whole_is_not_made_again_of_what_is_left() -> None:
    node = filled(20, segment_bytes="300")
    node.log.delete_records(30)
    node.directory.close()
    for name in node.disk.list(DIRECTORY):
        if name.startswith("tree-"):
            node.disk.remove(DIRECTORY / name)
    assert "lost" in start_failing(node)


def test_a_log_without_the_records_of_its_tree_is_refused() -> None:
    node = filled(5)
    node.directory.close()
    for name in node.disk.list(DIRECTORY):
        if not name.startswith(("tree-", "partition.")):
            node.disk.remove(DIRECTORY / name)
    for name in node.disk.list(DATA):
        if "checkpoint" in name:
            node.disk.remove(DATA / name)
    assert "durable records are lost" in start_failing(node)


@pytest.mark.parametrize("name", ["", f"{HASHES_FILE}0", f"{HASHES_FILE}1", ENTRIES_FILE, STATE_FILE])
def test_the_verification_of_a_directory_finds_a_flipped_bit_anywhere(name: str) -> None:
    node = filled(300)
    node.directory.close()
    if name:
        node.faulty.flip_bit(DIRECTORY / name, 40 if name != f"{HASHES_FILE}1" else 3)
    damages = verify_directory(node.disk, DATA).damages
    assert [each.file for each in damages] == ([f"events-0/{STATE_FILE}"] if name else [])


def test_a_topic_becomes_verifiable_with_what_it_holds_and_stays_so() -> None:
    node = Node()
    for number in range(3):
        node.log.append(batch(b"%d" % number))
    node.log.flush()
    config = LogConfig.of({"mainstem.verifiable": "true"})
    TreeFiles(node.disk, DIRECTORY, node.log.topic_id, PARTITION.partition).begin()
    node.log.update_config(config)
    tree_of(node.log).advance(keep=True)
    assert size_of(node.log) == 3
    former = {"mainstem.verifiable": "true", "cleanup.policy": "compact"}
    with pytest.raises(ConfigError, match="stays verifiable"):
        check_changed_configs({"cleanup.policy": "compact"}, former, {})
    with pytest.raises(ConfigError, match="stays compacted"):
        check_changed_configs({"mainstem.verifiable": "true"}, former, {})
    check_changed_configs({**former, "retention.ms": "5"}, former, {})


def test_a_topic_that_lost_its_beginning_may_become_verifiable_once() -> None:
    disk, clock, configs = FaultyDisk(), ManualClock(NOW_MS), {"internal.segment.bytes": "300"}
    node = NodeLog.open(disk, clock, DATA, {})
    node.create_topic("events", 1, configs)
    log = node.get(PARTITION)
    for number in range(20):
        log.append(batch(b"%d" % number, b"y" * 60))
    log.flush()
    log.delete_records(30)
    node.close()
    node = NodeLog.open(disk, clock, DATA, {})
    node.set_topic_configs("events", {**configs, "mainstem.verifiable": "true"})
    tree = tree_of(node.get(PARTITION))
    tree.advance(keep=True)
    assert tree.failure is None
    assert 0 < size_of(node.get(PARTITION)) < 20
    node.close()
    for name in disk.list(DIRECTORY):
        if name.startswith("tree-"):
            disk.remove(DIRECTORY / name)
    node = NodeLog.open(disk, clock, DATA, {})
    node.set_topic_configs("events", {**configs, "mainstem.verifiable": "true", "retention.ms": "-1"})
    tree = tree_of(node.get(PARTITION))
    tree.advance()
    assert "lost" in (tree.failure or "")


def test_a_read_that_waited_while_a_write_failed_is_refused() -> None:
    """The tree is then loaded again, and has not all that it had."""
    tree = tree_of(filled(3).log)
    for head in (None, TreeHead(2, EMPTY_ROOT, 4)):
        tree._head = head
        with pytest.raises(StorageError, match="try again later"):
            tree.read(Tile(ENTRIES, 0, 3))
    tree._head = None
    with pytest.raises(StorageError, match="try again later"):
        tree.find(0)
