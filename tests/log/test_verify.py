from __future__ import annotations

import pytest

from mainstem.log.recovery.verify import Report, verify_directory
from mainstem.testing.clock import ManualClock
from tests.log.support import DATA, DIRECTORY, Node, sent_by


def filled() -> Node:
    node = Node(segment_bytes="600", index_interval_bytes="150")
    for number in range(12):
        node.log.append(sent_by(1, number, b"%d" % number * 60))
        node.clock.advance(1)
    node.log.flush()
    return node


def stopped() -> Node:
    node = filled()
    node.directory.close()
    return node


def verify(node: Node) -> Report:
    return verify_directory(node.disk, DATA)


def test_a_whole_directory_has_no_damage_and_is_counted() -> None:
    node = stopped()
    before = {path: node.faulty.content(path) for path in node.files("")}
    report = verify(node)
    assert report.damages == []
    assert (report.partitions, report.batches, report.records) == (1, 12, 12)
    assert report.segments == len(node.files(".log")) > 1
    assert {path: node.faulty.content(path) for path in node.files("")} == before


def test_a_log_that_is_in_use_has_no_damage() -> None:
    node = filled()
    node.append(b"not synced")
    assert verify(node).damages == []


@pytest.mark.parametrize("slot", [0, -1])
def test_a_flipped_bit_in_a_batch_is_named_by_file_position_and_offset(slot: int) -> None:
    node = stopped()
    path = node.files(".log")[slot]
    node.faulty.flip_bit(path, 70)
    (damage, *others) = [each for each in verify(node).damages if each.loses_records]
    assert (damage.file, damage.file_position) == (f"{DIRECTORY.name}/{path.name}", 0)
    assert damage.offset == int(path.name[:20])
    assert others == []


def test_a_torn_tail_is_named() -> None:
    node = stopped()
    path = node.files(".log")[-1]
    content = node.faulty.content(path)
    node.overwrite(path, content + content[:50])
    (damage,) = [each for each in verify(node).damages if each.loses_records]
    assert (damage.file_position, damage.offset) == (len(content), 12)
    assert "50 bytes" in damage.text


def test_an_end_that_is_gone_is_named() -> None:
    node = stopped()
    path = node.files(".log")[-1]
    node.overwrite(path, b"")
    assert any("its end is gone" in each.text and each.offset == 12 for each in verify(node).damages)


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".seal", ".snapshot", "leader-epoch-checkpoint"])
def test_what_is_rebuilt_is_told_from_what_is_lost(suffix: str) -> None:
    node = stopped()
    path = node.files(suffix)[0]
    content = node.faulty.content(path)
    node.overwrite(path, bytes(byte ^ 0x10 for byte in content))
    damages = verify(node).damages
    assert damages
    assert not any(each.loses_records for each in damages)
    names = {each.file.rpartition("/")[2].partition(".")[0] for each in damages}
    assert names == {path.name.partition(".")[0]}


def test_a_damaged_checkpoint_of_the_node_is_named() -> None:
    node = stopped()
    node.overwrite(DATA / "mainstem-checkpoint", b"1\nleader-epoch 0\ncrc32c 00000000\n")
    assert [each.file for each in verify(node).damages] == ["mainstem-checkpoint"]


def test_each_byte_of_each_log_is_looked_at() -> None:
    node = Node(disk=None)
    node.clock = ManualClock()
    node.commit(b"a", b"b")
    node.directory.close()
    (path,) = node.files(".log")
    for at in range(len(node.faulty.content(path))):
        if at % 69 in range(12, 16):
            continue  # the leader epoch, which no checksum covers
        node.faulty.flip_bit(path, at)
        assert verify(node).damages, at
        node.faulty.flip_bit(path, at)
    assert verify(node).damages == []
