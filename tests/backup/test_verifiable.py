"""The history of a verifiable topic goes along with a backup, also of batches that the log does not hold any more."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from mainstem.clock import SystemClock
from mainstem.log.files.disk import OsDisk
from mainstem.log.node.node_log import NodeLog
from mainstem.log.verifiable.partition_tree import PartitionTree, TreeHead
from mainstem.log.verifiable.tree_files import ENTRIES_FILE, TreeFiles
from mainstem.model import TopicPartition
from mainstem.record.writer import NewRecord, build_batch
from mainstem.tlog.leaf import LEAF_BYTES
from tests.backup.support import flip_bit, once, require_sound, restored

LEDGER = TopicPartition("ledger", 0)
CONFIGS = {"mainstem.verifiable": "true", "segment.bytes": "4000"}


def _append(data: Path, count: int, *, removed_before: int = 0) -> TreeHead:
    """Append so many batches, and remove the oldest; the head of the tree."""
    node = NodeLog.open(OsDisk(), SystemClock(), data, {})
    try:
        if "ledger" not in node.metadata.topics:
            node.create_topic("ledger", 1, CONFIGS)
        log = node.get(LEDGER)
        for number in range(count):
            log.append(build_batch([NewRecord(b"%d" % number, b"v" * 40, (), 1000 + number)]))
        log.flush()
        head = _head_of(log.tree)
        if removed_before:
            log.delete_records(removed_before)
        return head
    finally:
        node.close()


def _head(data: Path) -> TreeHead:
    node = NodeLog.open(OsDisk(), SystemClock(), data, {})
    try:
        return _head_of(node.get(LEDGER).tree)
    finally:
        node.close()


def _head_of(tree: PartitionTree | None) -> TreeHead:
    assert tree is not None
    tree.advance(keep=True)
    assert tree.head is not None, tree.failure
    return tree.head


def test_a_restored_log_continues_the_history_of_batches_that_are_gone(tmp_path: Path) -> None:
    data, url = tmp_path / "data", str(tmp_path / "copies")
    first = _append(data, 300, removed_before=280)
    assert not (data / "ledger-0" / "00000000000000000000.log").exists()
    point = once(data, url)
    second = _append(data, 30)
    assert once(data, url) > point
    require_sound(url)
    restored(url, tmp_path / "new")
    assert _head(tmp_path / "new") == second
    restored(url, tmp_path / "old", "ledger/0:300")
    assert _head(tmp_path / "old") == first
    files = TreeFiles(OsDisk(), data / "ledger-0", _topic_id(data), 0)
    assert files.root(first.size) == first.root


def _topic_id(data: Path) -> UUID:
    node = NodeLog.open(OsDisk(), SystemClock(), data, {})
    node.close()
    return node.metadata.topics["ledger"].topic_id


def test_a_tree_that_began_late_and_has_no_leaf_yet_is_restored(tmp_path: Path) -> None:
    data, url = tmp_path / "data", str(tmp_path / "copies")
    first = _append(data, 0)
    assert first.size == 0
    once(data, url)
    restored(url, tmp_path / "new")
    assert (tmp_path / "new" / "ledger-0" / "tree-state").exists()
    assert _head(tmp_path / "new") == first


def test_a_damaged_state_leaves_the_stored_leaves_and_is_said(tmp_path: Path) -> None:
    data, url = tmp_path / "data", str(tmp_path / "copies")
    head = _append(data, 20)
    once(data, url)
    flip_bit(data / "ledger-0" / "tree-state", 60)
    (data / "ledger-0" / ENTRIES_FILE).write_bytes(b"0" * LEAF_BYTES)
    once(data, url)
    restored(url, tmp_path / "new")
    assert _head(tmp_path / "new").size == head.size
