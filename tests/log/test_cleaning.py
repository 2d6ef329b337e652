from __future__ import annotations

import pytest

from mainstem.log.partition.config import LogConfig
from mainstem.testing.disk import PowerCutError
from tests.log.support import NOW_MS, Node, batch, read_all, values

HOUR_MS = 3_600_000


def hourly(**configs: str) -> Node:
    """A partition with a segment for each of six hours, of which the newest is the active one."""
    node = Node(segment_bytes="150", **configs)
    for hour in range(6):
        node.clock.set_time_ms(NOW_MS + hour * HOUR_MS)
        node.log.append(batch(b"%d" % hour * 60, timestamp_ms=NOW_MS + hour * HOUR_MS))
    node.log.flush()
    assert node.log.statistics().segments == 6
    return node


def remove_files(node: Node) -> None:
    node.directory.write_checkpoints()
    node.directory.write_checkpoints()


# Retention by time


def test_segments_whose_newest_record_is_too_old_go() -> None:
    node = hourly(retention_ms=str(2 * HOUR_MS))
    assert node.log.cleaning.expire(node.clock.time_ms()) == 3
    remove_files(node)
    assert len(node.files(".log")) == 3
    assert [record.offset for record in read_all(node.log, 3)] == [3, 4, 5]


def test_a_record_that_is_exactly_so_old_stays() -> None:
    node = hourly(retention_ms=str(5 * HOUR_MS))
    assert node.log.cleaning.expire(node.clock.time_ms()) == 0
    assert node.log.cleaning.expire(node.clock.time_ms() + 1) == 1


def test_an_old_segment_behind_a_younger_one_stays_until_that_goes() -> None:
    node = Node(segment_bytes="150", retention_ms=str(HOUR_MS))
    for age_hours in (0, 9, 9):
        node.log.append(batch(b"v" * 60, timestamp_ms=NOW_MS - age_hours * HOUR_MS))
    node.log.flush()
    assert node.log.cleaning.expire(NOW_MS) == 0


def test_an_idle_active_segment_is_rolled_and_goes() -> None:
    node = hourly(retention_ms=str(HOUR_MS))
    node.clock.advance(7200)
    assert node.log.cleaning.expire(node.clock.time_ms()) == 6
    remove_files(node)
    assert [path.name for path in node.files(".log")] == [f"{6:020d}.log"]
    assert node.commit(b"next") == 6
    node.cut_power_and_start()
    assert (node.log.log_start_offset, node.log.log_end_offset) == (6, 7)
    assert [record.value for record in read_all(node.log, 6)] == [b"next"]


def test_nothing_goes_that_is_not_on_the_disk() -> None:
    node = Node(segment_bytes="150", retention_ms="1")
    node.commit(b"a" * 60)
    node.append(b"b" * 60)
    node.append(b"c" * 60)
    node.clock.advance(60)
    assert node.log.cleaning.expire(node.clock.time_ms()) == node.log.high_watermark == 1
    node.log.flush()
    assert values(node.log, 1) == [b"b" * 60, b"c" * 60]


def test_records_without_a_timestamp_age_from_the_partitions_opening() -> None:
    node = Node(segment_bytes="150", retention_ms=str(HOUR_MS))
    for _ in range(3):
        node.log.append(batch(b"v" * 60, timestamp_ms=-1))
    node.log.flush()
    assert node.log.cleaning.expire(NOW_MS + HOUR_MS) == 0
    assert node.log.cleaning.expire(NOW_MS + HOUR_MS + 1) == 3


# Retention by size


def test_the_oldest_segments_go_while_retention_bytes_stay() -> None:
    node = hourly()
    size = node.log.size_bytes // 6
    for keep, start in ((size * 6, 0), (size * 5 + 1, 0), (size * 5, 1), (size * 2 + 1, 3), (size, 5)):
        node.log.update_config(LogConfig.of({"retention.bytes": str(keep)}))
        assert node.log.cleaning.expire(NOW_MS) == start


def test_without_delete_in_the_policy_nothing_expires() -> None:
    node = hourly()
    node.log.update_config(LogConfig.of({"retention.ms": "1", "retention.bytes": "1", "cleanup.policy": "compact"}))
    assert node.log.cleaning.expire(node.clock.time_ms() + HOUR_MS) == 0


def test_with_both_policies_records_expire() -> None:
    node = hourly()
    node.log.update_config(LogConfig.of({"retention.ms": str(HOUR_MS), "cleanup.policy": "compact,delete"}))
    assert node.log.cleaning.expire(node.clock.time_ms()) == 4


# While others read


def test_a_view_that_was_handed_out_outlives_its_files() -> None:
    node = hourly(retention_ms=str(HOUR_MS))
    held = node.log.read(0, 1 << 20).buffers
    before = [bytes(buffer) for buffer in held]
    node.log.cleaning.expire(node.clock.time_ms())
    remove_files(node)
    assert [bytes(buffer) for buffer in held] == before


def test_a_segment_under_a_flush_goes_when_the_flush_has_ended() -> None:
    node = hourly(retention_ms="1")
    node.append(b"x" * 60)
    flush = node.log.start_flush()
    assert flush is not None
    node.append(b"y" * 60)
    node.clock.advance(60)
    node.log.cleaning.expire(node.clock.time_ms())
    flush.run()
    node.log.finish_flush(flush)
    node.log.flush()
    node.log.cleaning.expire(node.clock.time_ms())
    remove_files(node)
    assert len(node.files(".log")) == 1
    assert node.log.log_start_offset == 8


def test_the_files_of_a_topic_made_anew_are_not_those_that_were_to_go() -> None:
    node = hourly(retention_ms=str(HOUR_MS))
    node.log.cleaning.expire(node.clock.time_ms())
    node.directory.write_checkpoints()
    node.directory.delete(node.log.topic_partition)
    node.log = node.directory.create("events", 0, node.log.topic_id, node.log.config)
    node.commit(b"new")
    remove_files(node)
    assert values(node.log) == [b"new"]
    node.cut_power_and_start()
    assert values(node.log) == [b"new"]


# Crashes


@pytest.mark.parametrize("age_hours", [0, 2])
@pytest.mark.parametrize("power", ["cut", "killed"])
def test_power_lost_at_any_storage_call_of_a_retention_leaves_a_right_log(age_hours: int, power: str) -> None:
    for cut_at in range(1, 200):
        node = hourly(retention_ms=str(2 * HOUR_MS))
        node.clock.advance(age_hours * 3600)
        node.faulty.cut_power_at_call = cut_at
        try:
            start = node.log.cleaning.expire(node.clock.time_ms())
            remove_files(node)
            break
        except PowerCutError:
            if power == "cut":
                node.faulty.power_cut()
        node.faulty.kill()
        node.start()
        log = node.log
        assert log.log_end_offset == 6
        assert log.log_start_offset in (0, 1, 2, 3, 5)
        found = [record.offset for record in read_all(log, log.log_start_offset)]
        assert found == list(range(log.log_start_offset, 6))
        assert log.cleaning.expire(node.clock.time_ms()) == min(3 + age_hours, 6)
        remove_files(node)
        assert node.commit(b"next") == 6
        assert not node.files(".deleted")
    assert cut_at > 20
    assert start == 3 + age_hours


def test_files_before_a_durable_log_start_are_gone_after_a_start() -> None:
    node = hourly(retention_ms=str(2 * HOUR_MS))
    node.log.cleaning.expire(node.clock.time_ms())
    node.directory.write_checkpoints()
    assert len(node.files(".log")) == 6
    node.kill_and_start()
    assert len(node.files(".log")) == 3
    assert node.log.log_start_offset == 3
