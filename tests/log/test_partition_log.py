from __future__ import annotations

import pytest

from mainstem.errors import (
    CorruptBatchError,
    InvalidProducerEpochError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    PartitionOfflineError,
    RecordTooLargeError,
    StorageError,
)
from mainstem.log.partition.config import LogConfig
from mainstem.record.header import iter_headers, read_header
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch
from tests.log.support import NOW_MS, Node, batch, read_all, sent_by, values


def offsets(node: Node, offset: int, max_bytes: int, *, minimum_one: bool = True) -> list[int]:
    """The base offsets of the batches that one read gives."""
    result = node.log.read(offset, max_bytes, minimum_one=minimum_one)
    assert sum(map(len, result.buffers)) == result.size_bytes
    return [header.base_offset for buffer in result.buffers for _, header in iter_headers(buffer)]


# Append


def test_appends_get_consecutive_offsets() -> None:
    node = Node()
    assert [node.append(b"a", b"b"), node.append(b"c"), node.append(b"d")] == [0, 2, 3]


def test_all_batches_of_a_request_are_appended() -> None:
    node = Node()
    result = node.log.append(batch(b"a", b"b") + batch(b"c"))
    assert (result.base_offset, result.last_offset, result.duplicate) == (0, 2, False)
    node.log.flush()
    assert values(node.log) == [b"a", b"b", b"c"]


def test_a_bad_batch_among_good_ones_appends_none() -> None:
    node = Node()
    bad = bytearray(batch(b"b"))
    bad[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        node.log.append(batch(b"a") + bad)
    assert node.log.log_end_offset == 0


def test_a_refused_batch_leaves_no_trace() -> None:
    node = Node(max_message_bytes="100")
    with pytest.raises(RecordTooLargeError):
        node.append(b"x" * 200)
    assert node.commit(b"a") == 0


def test_create_time_is_kept() -> None:
    node = Node()
    assert node.log.append(batch(b"a", timestamp_ms=NOW_MS - 5)).log_append_time_ms == -1
    node.log.flush()
    assert read_all(node.log)[0].timestamp_ms == NOW_MS - 5


def test_log_append_time_comes_from_the_logs_clock() -> None:
    node = Node(message_timestamp_type="LogAppendTime")
    node.clock.advance(60)
    assert node.log.append(batch(b"a", timestamp_ms=5)).log_append_time_ms == NOW_MS + 60_000
    node.log.flush()
    assert read_all(node.log)[0].timestamp_ms == NOW_MS + 60_000


# Visibility: the high watermark


def test_readers_see_nothing_before_it_is_synced() -> None:
    node = Node()
    node.append(b"a")
    assert (node.log.high_watermark, node.log.log_end_offset, values(node.log)) == (0, 1, [])
    node.log.flush()
    assert (node.log.high_watermark, node.log.last_stable_offset, values(node.log)) == (1, 1, [b"a"])


def test_a_flush_covers_what_was_appended_before_it_started() -> None:
    node = Node()
    node.append(b"a")
    flush = node.log.start_flush()
    assert flush is not None
    node.append(b"b")
    flush.run()
    node.log.finish_flush(flush)
    assert (node.log.high_watermark, node.log.recovery_point) == (1, 1)
    assert values(node.log) == [b"a"]


def test_the_next_flush_covers_the_rest() -> None:
    node = Node()
    node.append(b"a")
    flush = node.log.start_flush()
    assert flush is not None
    node.append(b"b")
    flush.run()
    node.log.finish_flush(flush)
    node.log.flush()
    assert values(node.log) == [b"a", b"b"]


def test_there_is_one_flush_at_a_time_and_none_without_need() -> None:
    node = Node()
    node.log.flush()
    assert node.log.start_flush() is None
    node.append(b"a")
    assert node.log.start_flush() is not None
    node.append(b"b")
    assert node.log.start_flush() is None


def test_flush_os_shows_records_at_once() -> None:
    node = Node(flush="os")
    node.append(b"a")
    assert values(node.log) == [b"a"]
    assert node.log.recovery_point == 0
    node.log.flush()
    assert node.log.recovery_point == 1


def test_flush_os_asks_for_a_flush_when_much_lies_unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstem.log.partition.flush._UNSYNCED_BYTES_MAX", 200)
    node = Node(flush="os")
    node.append(b"a")
    assert not node.log.wants_flush
    node.append(b"a" * 200)
    assert node.log.wants_flush
    node.log.flush()
    assert not node.log.wants_flush


def test_flush_os_asks_for_a_flush_when_something_lies_unsynced_for_long() -> None:
    node = Node(flush="os")
    node.append(b"a")
    node.clock.advance(29)
    assert not node.log.wants_flush
    node.clock.advance(1)
    assert node.log.wants_flush


def test_changing_to_flush_os_shows_what_waited() -> None:
    node = Node()
    node.append(b"a")
    node.log.update_config(LogConfig.of({"flush": "os"}))
    assert values(node.log) == [b"a"]


# When the disk fails


def test_a_failed_sync_takes_the_partition_offline_and_is_not_repeated() -> None:
    node = Node()
    node.commit(b"a")
    node.append(b"b")
    node.faulty.fail_syncs("*.log")
    with pytest.raises(StorageError):
        node.log.flush()
    assert node.log.start_flush() is None
    with pytest.raises(PartitionOfflineError, match="Input/output error"):
        node.append(b"c")


def test_an_offline_partition_is_still_read_up_to_the_high_watermark() -> None:
    node = Node()
    node.commit(b"a")
    node.append(b"b")
    node.faulty.fail_syncs("*.log")
    with pytest.raises(StorageError):
        node.log.flush()
    assert values(node.log) == [b"a"]


def test_a_failed_directory_sync_counts_as_well() -> None:
    node = Node()
    node.append(b"a")
    node.faulty.fail_syncs("*/events-0")
    with pytest.raises(StorageError):
        node.log.flush()
    assert node.log.offline_reason is not None
    assert node.log.high_watermark == 0


@pytest.mark.parametrize("room", [0, 1, 15, 16, 60, 68])
def test_a_full_disk_refuses_the_append_and_loses_nothing(room: int) -> None:
    node = Node()
    node.commit(b"a", b"b")
    node.faulty.capacity_bytes = node.faulty.used_bytes() + room
    with pytest.raises(StorageError, match="No space"):
        node.append(b"c")
    assert values(node.log) == [b"a", b"b"]
    assert node.log.offline_reason is None


def test_a_file_that_cannot_be_opened_now_may_be_opened_later(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    node.commit(b"a")
    node.log._segments[-1].release()
    monkeypatch.setattr(node.faulty, "open", _refuse)
    with pytest.raises(StorageError, match="Too many open files"):
        node.append(b"b")
    monkeypatch.undo()
    assert node.commit(b"c") == 1


def _refuse(path: object) -> None:
    raise StorageError(f"cannot open {path}: Too many open files")


def test_nothing_of_a_refused_append_comes_back_after_a_kill() -> None:
    node = Node()
    node.commit(b"a")
    node.faulty.capacity_bytes = node.faulty.used_bytes() + len(batch(b"b")) + 10
    with pytest.raises(StorageError):
        node.log.append(batch(b"b") + batch(b"c"))
    node.faulty.capacity_bytes = None
    node.kill_and_start()
    assert values(node.log) == [b"a"]


def test_appending_goes_on_when_there_is_space_again() -> None:
    node = Node()
    node.commit(b"a")
    node.faulty.capacity_bytes = node.faulty.used_bytes() + 20
    with pytest.raises(StorageError):
        node.append(b"b")
    node.faulty.capacity_bytes = None
    assert node.commit(b"c") == 1
    node.cut_power_and_start()
    assert values(node.log) == [b"a", b"c"]


def test_a_full_disk_at_a_roll_loses_nothing() -> None:
    node = Node(segment_bytes="200")
    node.commit(b"a" * 100)
    node.faulty.capacity_bytes = node.faulty.used_bytes()
    with pytest.raises(StorageError):
        node.append(b"b" * 100)
    node.faulty.capacity_bytes = None
    node.commit(b"c")
    node.cut_power_and_start()
    assert values(node.log) == [b"a" * 100, b"c"]


# Read


def test_reading_begins_with_the_batch_that_holds_the_offset() -> None:
    node = Node()
    node.append(b"a", b"b", b"c")
    node.append(b"d")
    node.log.flush()
    assert offsets(node, 1, 10_000) == [0, 3]


def test_a_read_holds_whole_batches_only() -> None:
    node = Node()
    node.commit(*[b"v" * 30] * 10)
    size = len(batch(b"v" * 30))
    assert offsets(node, 2, size * 3) == [2, 3, 4]
    assert offsets(node, 2, size * 3 - 1) == [2, 3]


def test_one_batch_comes_however_large_it_is() -> None:
    node = Node()
    node.commit(b"v" * 1000, b"w")
    assert offsets(node, 0, 1) == [0]
    assert offsets(node, 0, 1, minimum_one=False) == []


def test_one_batch_comes_also_after_a_restart() -> None:
    node = Node()
    node.commit(b"v" * 1000, b"w")
    node.restart()
    assert offsets(node, 0, 1, minimum_one=False) == []
    assert offsets(node, 0, 1) == [0]


def test_a_read_goes_on_across_segments() -> None:
    node = Node(segment_bytes="200")
    node.commit(*[b"v" * 50] * 12)
    assert len(node.files(".log")) > 4
    assert offsets(node, 3, 100_000) == list(range(3, 12))
    assert len(node.log.read(3, 100_000).buffers) > 3


@pytest.mark.parametrize("max_bytes", [1, 130, 500, 100_000])
@pytest.mark.parametrize("restarted", [False, True])
def test_reading_on_gives_every_record_once(max_bytes: int, *, restarted: bool) -> None:
    node = Node(segment_bytes="700", index_interval_bytes="100")
    written = [b"%d" % number * (number % 7 + 1) for number in range(60)]
    node.commit(*written)
    if restarted:
        node.restart()
    records = read_all(node.log, max_bytes=max_bytes)
    assert [(record.offset, record.value) for record in records] == list(enumerate(written))


@pytest.mark.parametrize("offset", range(40))
def test_every_offset_is_found_through_the_index(offset: int) -> None:
    node = Node(segment_bytes="2000", index_interval_bytes="150")
    node.commit(*[b"x" * (number % 5 * 20) for number in range(40)])
    assert offsets(node, offset, 1) == [offset]


def test_reading_at_the_end_gives_nothing() -> None:
    node = Node()
    node.commit(b"a")
    node.append(b"b")
    assert offsets(node, 1, 1000) == []
    assert offsets(node, 2, 1000) == []


@pytest.mark.parametrize("offset", [-1, 3])
def test_reading_outside_the_log_is_out_of_range(offset: int) -> None:
    node = Node()
    node.commit(b"a", b"b")
    with pytest.raises(OffsetOutOfRangeError, match=r"\[0, 2\]"):
        node.log.read(offset, 1000)


def test_what_was_read_stays_when_the_partition_is_deleted() -> None:
    node = Node()
    node.commit(b"a" * 300_000)
    result = node.log.read(0, 1 << 20)
    node.directory.delete(node.log.topic_partition)
    node.directory.write_checkpoints()
    assert read_header(result.buffers[0]).size_bytes == result.size_bytes


# Idempotent producers


def test_a_repeated_batch_is_answered_with_its_first_offset() -> None:
    node = Node()
    node.append(b"x")
    node.log.append(sent_by(9, 0, b"a", b"b"))
    again = node.log.append(sent_by(9, 0, b"a", b"b"))
    assert (again.base_offset, again.last_offset, again.duplicate) == (1, 2, True)
    assert node.log.log_end_offset == 3


@pytest.mark.parametrize("end", ["restart", "kill_and_start", "cut_power_and_start"])
def test_all_five_last_batches_are_known_again_after_a_start(end: str) -> None:
    node = Node()
    for number in range(8):
        node.log.append(sent_by(9, number, b"%d" % number))
    node.log.flush()
    getattr(node, end)()
    assert [node.log.append(sent_by(9, number, b"%d" % number)).base_offset for number in range(3, 8)] == [
        3,
        4,
        5,
        6,
        7,
    ]
    assert node.log.append(sent_by(9, 8, b"8")).base_offset == 8


def test_a_gap_in_the_sequence_is_refused() -> None:
    node = Node()
    node.log.append(sent_by(9, 0, b"a"))
    with pytest.raises(OutOfOrderSequenceError):
        node.log.append(sent_by(9, 2, b"c"))


def test_a_fenced_producer_is_refused_after_a_restart_too() -> None:
    node = Node()
    node.log.append(sent_by(9, 0, b"a", epoch=5))
    node.restart()
    with pytest.raises(InvalidProducerEpochError):
        node.log.append(sent_by(9, 1, b"b", epoch=4))


def test_a_batch_that_was_not_written_does_not_count_for_the_sequence() -> None:
    node = Node()
    node.log.append(sent_by(9, 0, b"a"))
    node.faulty.capacity_bytes = node.faulty.used_bytes()
    with pytest.raises(StorageError):
        node.log.append(sent_by(9, 1, b"b"))
    node.faulty.capacity_bytes = None
    assert node.log.append(sent_by(9, 1, b"b")).base_offset == 1


def test_an_idle_producer_is_forgotten_after_a_day() -> None:
    node = Node()
    node.log.append(sent_by(9, 0, b"a"))
    node.clock.advance(86_401)
    node.log.write_recovery_checkpoint()
    assert node.log.statistics().producers == 0


# Segments


def test_a_segment_ends_before_it_grows_over_its_size() -> None:
    node = Node(segment_bytes="500")
    node.commit(*[b"v" * 60] * 20)
    sizes = [len(node.faulty.content(path)) for path in node.files(".log")]
    assert all(size <= 500 for size in sizes)
    assert len(sizes) == 7


def test_a_segment_ends_when_its_records_span_too_much_time() -> None:
    node = Node(segment_ms="1000")
    node.log.append(batch(b"a", timestamp_ms=NOW_MS))
    node.log.append(batch(b"b", timestamp_ms=NOW_MS + 1000))
    node.log.append(batch(b"c", timestamp_ms=NOW_MS + 1001))
    assert [path.name for path in node.files(".log")] == ["00000000000000000000.log", "00000000000000000002.log"]


def test_a_segment_of_records_without_timestamps_ends_by_the_clock() -> None:
    node = Node(segment_ms="1000")
    node.log.append(batch(b"a", timestamp_ms=-1))
    node.clock.advance(2)
    node.log.append(batch(b"b", timestamp_ms=-1))
    assert len(node.files(".log")) == 2


def test_a_segment_ends_when_its_index_is_full() -> None:
    node = Node(segment_index_bytes="24", index_interval_bytes="0")
    node.commit(*[b"v"] * 10)
    assert all(len(node.faulty.content(path)) <= 24 for path in node.files("index"))
    assert len(node.files(".log")) >= 5


def test_index_files_are_as_long_as_their_entries() -> None:
    node = Node(index_interval_bytes="100")
    node.commit(*[b"v" * 50] * 10)
    node.directory.close()
    assert [len(node.faulty.content(path)) for path in node.files(".index")] == [8 * 9]


def test_files_over_the_limit_are_closed_and_opened_again() -> None:
    node = Node(segment_bytes="200", flush="os")
    node.log._context.open_files.limit = 3
    written = [b"%d" % number * 50 for number in range(20)]
    for value in written:
        node.append(value)
        node.log.flush()
    assert len(node.log._context.open_files) <= 4
    assert values(node.log) == written


# The beginning


def test_deleted_records_cannot_be_read() -> None:
    node = Node()
    node.commit(*[b"v"] * 5)
    assert node.log.delete_records(3) == 3
    with pytest.raises(OffsetOutOfRangeError):
        node.log.read(2, 1000)
    assert len(read_all(node.log, 3)) == 2


def test_deleting_up_to_the_high_watermark() -> None:
    node = Node()
    node.commit(b"a", b"b")
    node.append(b"c")
    assert node.log.delete_records(-1) == 2


def test_deleting_past_the_high_watermark_is_out_of_range() -> None:
    node = Node()
    node.commit(b"a")
    node.append(b"b")
    with pytest.raises(OffsetOutOfRangeError):
        node.log.delete_records(2)


def test_the_log_start_never_goes_back() -> None:
    node = Node()
    node.commit(*[b"v"] * 5)
    node.log.delete_records(3)
    assert node.log.delete_records(1) == 3


def test_segments_before_the_log_start_are_removed_once_it_is_durable() -> None:
    node = Node(segment_bytes="200")
    node.commit(*[b"v" * 50] * 12)
    before = len(node.files(".log"))
    node.log.delete_records(8)
    assert len(node.files(".log")) == before
    node.directory.write_checkpoints()
    node.directory.write_checkpoints()
    assert len(node.files(".log")) < before
    assert [record.offset for record in read_all(node.log, 8)] == [8, 9, 10, 11]


def test_the_log_start_outlasts_a_restart_once_checkpointed() -> None:
    node = Node()
    node.commit(*[b"v"] * 5)
    node.log.delete_records(3)
    node.directory.write_checkpoints()
    node.cut_power_and_start()
    assert node.log.log_start_offset == 3


# Leader epochs


def test_an_epoch_ends_where_the_next_life_began() -> None:
    node = Node()
    node.commit(b"a", b"b")
    node.kill_and_start()
    node.commit(b"c")
    assert node.log.leader_epoch == 1
    assert node.log.end_offset_for_epoch(0) == (0, 2)
    assert node.log.end_offset_for_epoch(1) == (1, 3)


def test_statistics_tell_how_it_stands() -> None:
    node = Node(segment_bytes="200")
    node.commit(*[b"v" * 50] * 4)
    node.append(b"w")
    stats = node.log.statistics()
    assert (stats.segments, stats.high_watermark, stats.log_end_offset, stats.recovery_point) == (4, 4, 5, 4)
    assert stats.size_bytes == sum(len(node.faulty.content(path)) for path in node.files(".log"))


def test_repeats_of_old_records_are_known_over_rolls_and_restarts_for_a_day() -> None:
    node = Node(segment_bytes="300", flush="commit")
    rows = [NewRecord(None, b"a" * 100, (), 5)]
    first = build_batch(rows, producer=ProducerStamp(7, 0, 0))
    node.log.append(first)
    for _ in range(5):
        node.log.append(batch(b"b" * 200))
    assert node.log.statistics().segments > 2
    assert node.log.append(first).duplicate
    node.restart()
    assert node.log.append(first).duplicate
    node.clock.advance(86_400)
    for _ in range(2):
        node.log.append(batch(b"b" * 200, timestamp_ms=node.clock.time_ms()))
    assert not node.log.append(first).duplicate
