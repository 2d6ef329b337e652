"""What a start makes of each damage: the list of damages of docs/internals/log-format.md, one test each."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import PurePath

import pytest

from mainstem.errors import CorruptBatchError, DamagedRecordsError, StorageError
from mainstem.log.files.names import LEADER_EPOCH_CHECKPOINT
from mainstem.model import TopicPartition
from mainstem.record.constants import LAST_OFFSET_DELTA_AT, LEADER_EPOCH_AT
from mainstem.record.reader import iter_records
from mainstem.testing.disk import FaultyFile, PowerCutError
from tests.log.support import DATA, DIRECTORY, PARTITION, Node, batch, read_all, sent_by, values

SIZE = len(batch(b"0" * 40))
FIRST_LOG = DIRECTORY / "00000000000000000000.log"


def node_with(*written: bytes, checkpointed: int | None = None, seed: int = 0, **configs: str) -> Node:
    """A node with one batch a value, committed; the first ``checkpointed`` of them before the recovery point."""
    node = Node(seed=seed, **configs)
    if checkpointed:
        node.commit(*written[:checkpointed])
        node.directory.write_checkpoints()
    node.commit(*written[checkpointed or 0 :])
    return node


def numbered(count: int) -> list[bytes]:
    return [b"%02d" % number * 20 for number in range(count)]


# A torn tail


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 11, 12, 15, 16, 17, 20, 21, 60, 61, 62, SIZE - 1])
def test_a_torn_last_batch_is_cut_at_every_kind_of_place(kept: int) -> None:
    node = node_with(*numbered(3), checkpointed=1)
    content = node.faulty.content(FIRST_LOG)
    node.overwrite(FIRST_LOG, content + batch(b"9" * 40)[:kept])
    node.kill_and_start()
    assert values(node.log) == numbered(3)
    assert node.commit(b"next") == 3
    assert node.faulty.content(FIRST_LOG)[: len(content)] == content


@pytest.mark.parametrize("garbage", [b"\0" * 1000, b"\xff" * 1000, b"\x02" * 70, b"?"])
def test_garbage_behind_the_last_batch_is_cut(garbage: bytes) -> None:
    node = node_with(*numbered(3), checkpointed=1)
    node.overwrite(FIRST_LOG, node.faulty.content(FIRST_LOG) + garbage)
    node.kill_and_start()
    assert values(node.log) == numbered(3)
    assert node.files(".cut") == []
    assert node.commit(b"next") == 3


def test_a_torn_tail_is_cut_for_good() -> None:
    node = node_with(*numbered(3), checkpointed=1)
    node.overwrite(FIRST_LOG, node.faulty.content(FIRST_LOG) + b"torn")
    node.kill_and_start()
    node.cut_power_and_start()
    assert values(node.log) == numbered(3)


def test_what_was_never_synced_may_go_and_its_offsets_are_given_again() -> None:
    node = node_with(*numbered(2), checkpointed=2)
    node.append(b"never synced")
    node.cut_power_and_start()
    assert values(node.log)[:2] == numbered(2)
    assert node.log.log_end_offset in (2, 3)


def test_what_a_killed_process_had_written_is_there_and_is_made_durable() -> None:
    node = node_with(*numbered(2), checkpointed=2)
    node.append(b"written, not synced")
    node.kill_and_start()
    assert values(node.log)[2:] == [b"written, not synced"]
    node.cut_power_and_start()
    assert values(node.log)[2:] == [b"written, not synced"]


@pytest.mark.parametrize("seed", range(10))
def test_what_the_kernel_took_for_clean_after_a_failed_sync_is_written_again(seed: int) -> None:
    node = node_with(*numbered(2), checkpointed=2, seed=seed)
    node.append(b"in the page cache only")
    node.faulty.fail_syncs("*.log")
    flush = node.log.start_flush()
    assert flush is not None
    with pytest.raises(Exception, match="Input/output"):
        flush.run()
    node.kill_and_start()
    node.cut_power_and_start()
    assert values(node.log)[2:] == [b"in the page cache only"]


# What a write that was taken back has left


@pytest.mark.parametrize("checkpointed", range(1, 6))
@pytest.mark.parametrize("left", [1, 60, SIZE])
def test_bytes_of_a_write_that_was_taken_back_cost_no_later_segment(left: int, checkpointed: int) -> None:
    node = node_with(*numbered(5), checkpointed=checkpointed, segment_bytes=str(SIZE * 3))
    assert len(node.files(".log")) == 2
    node.overwrite(FIRST_LOG, node.faulty.content(FIRST_LOG) + batch(b"9" * 40)[:left])
    node.kill_and_start()
    assert values(node.log) == numbered(5)
    assert node.commit(b"next") == 5
    node.cut_power_and_start()
    assert values(node.log) == [*numbered(5), b"next"]
    assert node.files(".cut") == []


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("is_stopped", [False, True])
@pytest.mark.parametrize("has_ended", ["killed", "after a failed sync", "with two segments"])
def test_a_whole_batch_that_was_taken_back_does_not_come_back_after_a_restart(
    has_ended: str, is_stopped: bool, seed: int
) -> None:
    node = node_with(*numbered(2), checkpointed=2, seed=seed, segment_bytes=str(SIZE * 4))
    node.faulty.capacity_bytes = node.faulty.used_bytes() + SIZE + 10
    with pytest.raises(StorageError, match="No space left"):
        node.log.append(batch(b"8" * 40) + batch(b"9" * 40))
    node.faulty.capacity_bytes = None
    if has_ended == "after a failed sync":
        node.faulty.fail_syncs("*.log")
        with pytest.raises(StorageError, match="Input/output"):
            node.log.flush()
    elif has_ended == "with two segments":
        node.append(b"n" * 4 * 40)
    node.kill_and_start()
    if is_stopped:
        node.restart()
    kept = values(node.log)
    assert kept[:2] == numbered(2)
    node.commit(b"n" * 4 * 40)
    assert len(node.files(".log")) >= 2
    node.directory.write_checkpoints()
    node.cut_power_and_start()
    assert values(node.log) == [*kept, b"n" * 4 * 40]
    assert node.files(".cut") == []


# Rot past the recovery point


def rotten_in_the_middle(node: Node, number: int) -> None:
    node.faulty.flip_bit(FIRST_LOG, SIZE * number + 70)


def test_whole_batches_behind_a_bad_one_are_kept_aside(caplog: pytest.LogCaptureFixture) -> None:
    node = node_with(*numbered(6), checkpointed=1)
    tail = node.faulty.content(FIRST_LOG)[SIZE * 3 :]
    rotten_in_the_middle(node, 3)
    with caplog.at_level(logging.WARNING):
        node.kill_and_start()
    assert values(node.log) == numbered(3)
    (cut,) = node.files(".cut")
    assert cut.name == f"00000000000000000000.log.{SIZE * 3}.cut"
    assert node.faulty.content(cut)[SIZE:] == tail[SIZE:]
    assert node.log.statistics().cut_files == 1
    assert "kept in .cut files" in caplog.text


def test_appending_goes_on_behind_the_highest_offset_that_was_seen() -> None:
    node = node_with(*numbered(6), checkpointed=1)
    rotten_in_the_middle(node, 3)
    node.kill_and_start()
    assert node.commit(b"new") == 6
    assert [record.offset for record in read_all(node.log)] == [0, 1, 2, 6]
    assert [path.name for path in node.files(".log")][1] == "00000000000000000006.log"


def test_a_reader_passes_over_the_offsets_that_were_cut() -> None:
    node = node_with(*numbered(6), checkpointed=1)
    rotten_in_the_middle(node, 3)
    node.kill_and_start()
    node.commit(b"new")
    assert values(node.log, 4) == [b"new"]
    assert node.log.read(3, 1000).size_bytes > 0


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_with_batches_kept_aside_lasts(seed: int) -> None:
    node = node_with(*numbered(6), checkpointed=1, seed=seed)
    rotten_in_the_middle(node, 3)
    node.kill_and_start()
    node.commit(b"new")
    for _ in range(3):
        node.cut_power_and_start()
        assert [record.offset for record in read_all(node.log)] == [0, 1, 2, 6]
        assert node.log.statistics().cut_files == 1


@pytest.mark.parametrize("seed", range(4))
def test_power_that_fails_while_the_log_is_cut_changes_nothing(seed: int) -> None:
    for cut_at in range(1, 200):
        node = node_with(*numbered(6), checkpointed=1, seed=seed)
        rotten_in_the_middle(node, 3)
        node.faulty.kill()
        node.faulty.cut_power_at_call = cut_at
        try:
            node.start()
        except PowerCutError:
            node.cut_power_and_start()
        else:
            break
        assert values(node.log) == numbered(3)
        assert node.commit(b"new") == 6
    assert cut_at > 30


def test_segments_behind_a_bad_batch_are_kept_aside_whole() -> None:
    node = node_with(*numbered(9), checkpointed=1, segment_bytes=str(SIZE * 3))
    contents = [node.faulty.content(path) for path in node.files(".log")]
    remove_seals_and_checkpoints(node)
    rotten_in_the_middle(node, 1)
    node.kill_and_start()
    assert values(node.log) == numbered(1)
    kept = [node.faulty.content(path) for path in node.files(".cut")]
    assert kept[1:] == contents[1:]
    assert node.commit(b"new") == 9


def remove_seals_and_checkpoints(node: Node, *, keep_node_checkpoint: bool = False) -> None:
    for path in node.files(".seal"):
        node.disk.remove(path)
    for name in node.disk.list(DATA):
        if name.endswith("-checkpoint") and not (keep_node_checkpoint and name.startswith("mainstem")):
            node.disk.remove(DATA / name)


def test_a_batch_whose_offset_goes_back_is_cut() -> None:
    node = node_with(*numbered(2), checkpointed=1)
    content = node.faulty.content(FIRST_LOG)
    node.overwrite(FIRST_LOG, content + content[:SIZE])
    node.kill_and_start()
    assert values(node.log) == numbered(2)
    assert node.commit(b"next") == 2


# Damage before the recovery point


def damaged_before_the_recovery_point() -> Node:
    node = node_with(*numbered(6), checkpointed=6)
    rotten_in_the_middle(node, 3)
    node.kill_and_start()
    return node


def test_damage_before_the_recovery_point_is_never_cut() -> None:
    node = node_with(*numbered(6), checkpointed=6)
    rotten_in_the_middle(node, 3)
    content = node.faulty.content(FIRST_LOG)
    node.kill_and_start()
    assert node.faulty.content(FIRST_LOG) == content
    assert node.log.log_end_offset == 6


def test_reads_stop_at_damage_and_say_so() -> None:
    node = damaged_before_the_recovery_point()
    assert values_until_damage(node) == numbered(3)
    with pytest.raises(CorruptBatchError, match="events/0"):
        node.log.read(3, 10_000)


def values_until_damage(node: Node) -> list[bytes | None]:
    found: list[bytes | None] = []
    with suppress(CorruptBatchError):
        while len(found) < node.log.high_watermark:
            found += read_all_once(node, len(found))
    return found


def read_all_once(node: Node, offset: int) -> list[bytes | None]:
    return [record.value for buffer in node.log.read(offset, 10_000).buffers for record in iter_records(buffer)]


def test_what_lies_behind_damage_is_read() -> None:
    node = damaged_before_the_recovery_point()
    assert read_all_once(node, 4) == numbered(6)[4:]
    assert node.commit(b"next") == 6


@pytest.mark.parametrize("at", [4, 5, 8, 10, 11, 16])
def test_a_wrong_header_before_the_recovery_point_loses_only_its_own_batch(at: int) -> None:
    node = node_with(*numbered(6), checkpointed=6)
    node.faulty.flip_bit(FIRST_LOG, SIZE * 3 + at, bit=3)
    node.kill_and_start()
    assert values_until_damage(node) == numbered(3)
    assert read_all_once(node, 5) == numbered(6)[5:]
    assert node.commit(b"next") == 6


@pytest.mark.parametrize("kept", [SIZE * 3, SIZE * 3 + 20, 0])
def test_a_segment_that_lost_its_acknowledged_end_says_so_for_good(kept: int) -> None:
    node = node_with(*numbered(6), checkpointed=6)
    node.overwrite(FIRST_LOG, node.faulty.content(FIRST_LOG)[:kept])
    for _ in range(3):
        node.kill_and_start()
        assert node.log.log_end_offset == 6
        assert values_until_damage(node) == numbered(kept // SIZE)
        with pytest.raises(CorruptBatchError):
            node.log.read(5, 1000)
    assert node.commit(b"next") == 6
    assert read_all_once(node, 6) == [b"next"]


def test_a_segment_that_lost_its_acknowledged_end_says_so_where_others_follow_and_its_seal_is_gone() -> None:
    node = node_with(*numbered(9), checkpointed=2, segment_bytes=str(SIZE * 3))
    node.overwrite(FIRST_LOG, node.faulty.content(FIRST_LOG)[:SIZE])
    for path in node.files(".seal"):
        node.disk.remove(path)
    for _ in range(3):
        node.kill_and_start()
        assert node.log.log_end_offset == 9
        assert values_until_damage(node) == numbered(1)
        with pytest.raises(CorruptBatchError):
            node.log.read(2, 1000)
        assert values(node.log, 3) == numbered(9)[3:]


def test_a_closed_segment_that_became_shorter_is_noticed() -> None:
    node = node_with(*numbered(9), checkpointed=9, segment_bytes=str(SIZE * 3))
    node.overwrite(FIRST_LOG, node.faulty.content(FIRST_LOG)[: SIZE * 2])
    node.restart()
    assert values_until_damage(node) == numbered(2)
    assert read_all_once(node, 3) == numbered(9)[3:]


def test_damage_in_old_segments_is_not_looked_for_at_the_start() -> None:
    node = node_with(*numbered(30), checkpointed=30, segment_bytes=str(SIZE * 3))
    before = node.faulty.calls
    node.kill_and_start()
    few = node.faulty.calls - before
    more = node_with(*numbered(90), checkpointed=90, segment_bytes=str(SIZE * 3))
    before = more.faulty.calls
    more.kill_and_start()
    assert more.faulty.calls - before == few


# Index, snapshot and checkpoint files: each deleted, each wrong


def small_files(node: Node) -> list[PurePath]:
    names = [DIRECTORY / name for name in node.disk.list(DIRECTORY) if not name.endswith(".log")]
    return names + [DATA / name for name in node.disk.list(DATA) if name.endswith("-checkpoint")]


def big_node() -> Node:
    """Several segments, two producers, all kinds of files."""
    node = Node(segment_bytes="900", index_interval_bytes="150")
    for number in range(40):
        node.log.append(sent_by(number % 2, number // 2 * 2, b"%03d" % number, b"x" * 30))
        node.log.flush()
    node.directory.write_checkpoints()
    return node


KINDS = sorted({path.suffix or path.name for path in small_files(big_node())})


def test_the_kinds_of_small_files_are_these() -> None:
    assert {".index", ".timeindex", ".seal", ".snapshot", ".metadata", LEADER_EPOCH_CHECKPOINT} <= set(KINDS)


def assert_all_is_right(node: Node) -> None:
    records = read_all(node.log)
    assert [record.offset for record in records] == list(range(80))
    assert [record.value for record in records][::2] == [b"%03d" % number for number in range(40)]
    for record in records:
        found = node.log.offset_for_timestamp(record.timestamp_ms)
        assert found is not None
        assert found.offset == min(each.offset for each in records if each.timestamp_ms >= record.timestamp_ms)
    assert node.log.end_offset_for_epoch(0) == (0, 80)
    assert node.log.append(sent_by(0, 38, b"038", b"x" * 30)).duplicate
    assert node.log.topic_partition == PARTITION


@pytest.mark.parametrize("end", ["restart", "kill_and_start"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_file_that_is_missing_is_rebuilt(kind: str, end: str) -> None:
    node = big_node()
    if end == "restart":
        node.directory.close()
    for path in small_files(node):
        if kind in (path.suffix, path.name):
            node.disk.remove(path)
    node.kill_and_start()
    assert_all_is_right(node)


@pytest.mark.parametrize("how", ["empty", "zeros", "half", "flipped", "swapped"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_file_that_is_wrong_gives_no_wrong_answer(kind: str, how: str) -> None:
    node = big_node()
    node.directory.close()
    paths = [path for path in small_files(node) if kind in (path.suffix, path.name)]
    contents = [node.faulty.content(path) for path in paths]
    for number, (path, content) in enumerate(zip(paths, contents, strict=True)):
        if how == "flipped" and content:
            node.faulty.flip_bit(path, len(content) // 2, bit=2)
            continue
        swapped = contents[number - 1]
        node.overwrite(
            path, {"empty": b"", "zeros": bytes(len(content)), "half": content[: len(content) // 2]}.get(how, swapped)
        )
    node.kill_and_start()
    assert_all_is_right(node)


def test_with_every_small_file_gone_the_log_is_rebuilt() -> None:
    node = big_node()
    for path in small_files(node):
        node.disk.remove(path)
    node.kill_and_start()
    assert_all_is_right(node)


def test_all_files_of_a_segment_swapped_with_anothers_are_found_out() -> None:
    node = big_node()
    node.directory.close()
    seals = node.files(".seal")
    for suffix in (".seal", ".index", ".timeindex"):
        first, second = (path.with_suffix(suffix) for path in seals[1:3])
        contents = node.faulty.content(first), node.faulty.content(second)
        node.overwrite(first, contents[1])
        node.overwrite(second, contents[0])
    node.kill_and_start()
    assert_all_is_right(node)


def test_leftovers_of_unfinished_files_are_removed() -> None:
    node = node_with(b"a")
    node.overwrite(DIRECTORY / "00000000000000000000.seal.tmp", b"x")
    node.overwrite(DIRECTORY / "00000000000000000099.index", b"x")
    node.kill_and_start()
    assert not any(name.endswith(".tmp") or "99.index" in name for name in node.disk.list(DIRECTORY))


def test_a_partition_whose_segments_are_all_gone_does_not_give_offsets_again() -> None:
    node = node_with(*numbered(5), checkpointed=5)
    for path in node.files(".log"):
        node.disk.remove(path)
    node.kill_and_start()
    assert node.commit(b"next") == 5


# What a start does and does not do


def test_a_clean_start_changes_no_log_and_no_epoch() -> None:
    node = node_with(*numbered(3))
    node.directory.close()
    content = node.faulty.content(FIRST_LOG)
    node.start()
    assert node.faulty.content(FIRST_LOG) == content
    assert node.log.leader_epoch == 0


def test_a_start_after_a_crash_raises_the_leader_epoch_for_good() -> None:
    node = node_with(*numbered(3))
    node.kill_and_start()
    assert node.log.leader_epoch == 1
    node.cut_power_and_start()
    assert node.log.leader_epoch == 2


def test_starting_twice_gives_the_same_log() -> None:
    node = big_node()
    node.append(b"unsynced")
    node.cut_power_and_start()
    first = read_all(node.log)
    node.kill_and_start()
    assert read_all(node.log) == first


def test_an_unreadable_partition_leaves_the_others_served() -> None:
    node = node_with(b"a")
    node.disk.make_directory(DATA / "events-1" / "00000000000000000000.log")
    node.kill_and_start()
    assert values(node.log) == [b"a"]
    assert node.directory.holds(TopicPartition("events", 1))


def with_epoch(node: Node, number: int, epoch: int) -> None:
    """Rot the leader epoch in the header of a batch of ``numbered``."""
    path = DIRECTORY / "00000000000000000000.log"
    content = bytearray(node.faulty.content(path))
    content[number * SIZE + LEADER_EPOCH_AT : number * SIZE + LEADER_EPOCH_AT + 4] = epoch.to_bytes(4, "big")
    node.overwrite(path, bytes(content))


@pytest.mark.parametrize("number", [0, 3, 5])
@pytest.mark.parametrize("is_file_lost", [False, True])
def test_a_leader_epoch_that_nobody_led_with_is_not_believed(number: int, is_file_lost: bool) -> None:
    node = node_with(*numbered(3), checkpointed=3)
    node.kill_and_start()
    node.commit(*numbered(3))
    node.directory.write_checkpoints()
    with_epoch(node, number, 2**30 + 7)
    if is_file_lost:
        node.disk.remove(DIRECTORY / LEADER_EPOCH_CHECKPOINT)
    log = node.kill_and_start()
    assert log.leader_epoch == 2
    if number != 5 and not (number == 3 and is_file_lost):
        assert log.end_offset_for_epoch(0).end_offset == 3


def test_without_a_checkpoint_the_epoch_goes_on_from_the_batches() -> None:
    node = node_with(*numbered(3), checkpointed=3)
    for _ in range(3):
        node.kill_and_start()
        node.commit(*numbered(1))
    for path in [DATA / name for name in node.disk.list(DATA) if name.endswith("-checkpoint")]:
        node.disk.remove(path)
    assert node.kill_and_start().leader_epoch == 4
    node.commit(*numbered(1))
    assert node.kill_and_start().leader_epoch == 5


def test_an_epoch_that_a_delete_forgot_is_known_again_when_a_kill_brings_its_records_back() -> None:
    node = Node()
    node.commit(b"a")
    node.kill_and_start()
    node.commit(b"b")
    node.log.delete_records(1)
    node.commit(b"c")
    node.kill_and_start()  # before the log start was durable
    assert node.log.log_start_offset == 0
    first = node.log.end_offset_for_epoch(0)
    assert (first.leader_epoch, first.end_offset) == (0, 1)


def test_a_rotten_last_offset_hides_no_other_batch() -> None:
    node = node_with(*numbered(6), checkpointed=6)
    node.restart()
    node.directory.close()
    node.faulty.flip_bit(FIRST_LOG, 1 * SIZE + LAST_OFFSET_DELTA_AT + 3, 1)  # it seems to reach to offset 3
    log = node.start()
    with pytest.raises(CorruptBatchError):
        log.read(1, 100)
    for offset in (2, 3, 4, 5):
        assert values(log, offset) == numbered(6)[offset:]


def test_producers_are_not_restored_from_before_segments_that_are_gone() -> None:
    node = Node(segment_bytes=str(SIZE * 2))
    for number in range(2):
        node.log.append(sent_by(1, number * 2, b"a" * 20, b"b" * 20))
        node.log.flush()
    node.log.write_recovery_checkpoint()
    for number in range(2, 8):
        node.log.append(sent_by(1, number * 2, b"a" * 20, b"b" * 20))
        node.log.flush()
    node.log.delete_records(12)
    node.directory.write_checkpoints()
    node.directory.write_checkpoints()
    for path in node.files(".snapshot"):
        if int(path.stem) > 4:
            node.overwrite(path, b"")
    log = node.kill_and_start()
    log.append(sent_by(1, 16, b"next"))


def test_what_lies_behind_damage_is_searched_once_and_not_at_every_read(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    node.commit(b"before", b"d" * 1_000_000, b"behind")
    path = node.files(".log")[0]
    node.directory.close()
    node.faulty.flip_bit(path, 500_000, bit=3)
    log = node.start()
    read_bytes = 0
    read = FaultyFile.read

    def counted(file: FaultyFile, file_position: int, length: int) -> bytes:
        nonlocal read_bytes
        data = read(file, file_position, length)
        read_bytes += len(data)
        return data

    monkeypatch.setattr(FaultyFile, "read", counted)

    def read_damage() -> int:
        nonlocal read_bytes
        read_bytes = 0
        with pytest.raises(DamagedRecordsError) as caught:
            log.read(1, 10_000)
        assert (caught.value.first_offset, caught.value.last_offset) == (1, 1)
        return read_bytes

    read_damage()
    searched = read_damage()
    for _ in range(3):
        assert read_damage() == searched
    monkeypatch.setattr(log._segments[0], "_after_damage", {})
    assert read_damage() > searched + 900_000
