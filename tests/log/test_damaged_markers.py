"""A damaged transaction marker: what it ended stays ended, and as it ended, while the segment's small files know."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mainstem.log.partition.partition_log import PartitionLog
from tests.log.support import Node, end_transaction, in_transaction

COMMITTED, ABORTED = 7, 8
STARTS = pytest.mark.parametrize("start", [Node.start, Node.kill_and_start])


def two_ended(commit_first: bool, *, more: bool) -> tuple[Node, tuple[int, int]]:
    """A log with a committed and an aborted transaction, closed; the offsets of the markers, in the log's order."""
    node = Node()
    log = node.log
    log.append(in_transaction(COMMITTED, 0, b"kept"))
    log.append(in_transaction(ABORTED, 0, b"dropped"))
    order = (COMMITTED, ABORTED) if commit_first else (ABORTED, COMMITTED)
    first, last = (end_transaction(log, producer_id, commit=producer_id == COMMITTED) for producer_id in order)
    if more:
        node.append(b"plain")
    log.flush()
    return node, (first, last)


def damage(node: Node, offset: int) -> None:
    """Flip a bit of the batch at ``offset``, on the disk of a node that is closed."""
    place = node.log._segments[0].locate(offset)
    assert place is not None
    path = node.log._segments[0].path(".log")
    node.directory.close()
    file = node.disk.open(path)
    at = place.file_position + place.header.size_bytes - 1
    file.write(at, [bytes([file.read(at, 1)[0] ^ 1])])
    file.sync()
    file.close()


@STARTS
@pytest.mark.parametrize("more", [True, False], ids=["records behind", "at the end"])
@pytest.mark.parametrize("commit_first", [True, False], ids=["commit first", "abort first"])
@pytest.mark.parametrize("which", [0, 1])
def test_what_a_damaged_marker_ended_stays_ended(
    which: int, commit_first: bool, more: bool, start: Callable[[Node], PartitionLog]
) -> None:
    node, markers = two_ended(commit_first, more=more)
    damage(node, markers[which])
    log = start(node)
    for _ in range(2):
        assert log.last_stable_offset == log.high_watermark
        assert log.open_transaction_start(COMMITTED) is None
        assert log.open_transaction_start(ABORTED) is None
        result = log.read(0, 1 << 20, committed=True)
        assert [(each.producer_id, each.first_offset) for each in result.aborted] == [(ABORTED, 1)]
        log = node.restart()


@STARTS
def test_the_small_files_of_an_older_segment_know_it_too(start: Callable[[Node], PartitionLog]) -> None:
    node, markers = two_ended(commit_first=True, more=False)
    node.log._roll()
    node.commit(b"behind")
    damage(node, markers[1])
    for path in node.files(".snapshot"):
        node.disk.remove(path)
    log = start(node)
    assert log.last_stable_offset == log.high_watermark
    assert [each.producer_id for each in log.read(0, 1 << 20, committed=True).aborted] == [ABORTED]


def test_without_them_the_transaction_that_holds_readers_is_named(caplog: pytest.LogCaptureFixture) -> None:
    node, markers = two_ended(commit_first=True, more=True)
    damage(node, markers[0])
    for path in node.files(".txnindex"):
        node.disk.remove(path)
    log = node.start()
    assert log.last_stable_offset == 0
    assert f"the transaction of producer {COMMITTED} from offset 0 has no marker left" in caplog.text
    assert f"damage at offset {markers[0]}" in caplog.text
    end_transaction(log, COMMITTED, commit=True)
    log.flush()
    assert log.last_stable_offset == log.high_watermark


def test_a_transaction_that_is_open_behind_damage_stays_open() -> None:
    node, markers = two_ended(commit_first=True, more=False)
    node.log.append(in_transaction(COMMITTED, 1, b"open"))
    node.log.flush()
    damage(node, markers[0])
    log = node.start()
    assert log.open_transaction_start(COMMITTED) == log.last_stable_offset == 4
