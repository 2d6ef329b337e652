"""Compaction from end to end over the Disk port: what stays, what goes, and crashes at every storage call."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import pytest

from mainstem.errors import CorruptBatchError, StorageError
from mainstem.log.cleaning.compaction import compact
from mainstem.log.cleaning.compaction_job import CleanedSegment, CompactionResult
from mainstem.log.files.names import LOG, SEAL
from mainstem.record.constants import Compression
from mainstem.record.header import iter_headers
from mainstem.record.reader import read_records
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch
from mainstem.testing.disk import PowerCutError
from tests.log.support import NOW_MS, Node, read_all, swap_in

DAY_MS = 86_400_000
MAP_BYTES = 1 << 20


def keyed(key: bytes, value: bytes | None, timestamp_ms: int = NOW_MS, **build: object) -> bytes:
    return build_batch([NewRecord(key, value, (), timestamp_ms)], **build)  # type: ignore[arg-type]


def compacted_node(**configs: str) -> Node:
    return Node(cleanup_policy="compact", segment_bytes="300", index_interval_bytes="100", **configs)


def put(node: Node, *pairs: tuple[bytes, bytes | None], **build: object) -> None:
    for key, value in pairs:
        node.log.append(keyed(key, value, node.clock.time_ms(), **build))
    node.log.flush()


def run(node: Node, cleaned_offset: int = 0, map_bytes: int = MAP_BYTES) -> CompactionResult | None:
    """One compaction, as the broker has it done; None when there is nothing to do."""
    cleaning, now_ms = node.log.cleaning, node.clock.time_ms()
    dirty = cleaning.dirty(now_ms, cleaned_offset)
    if dirty is None:
        return None
    for answer in compact(node.disk, cleaning.compaction_job(dirty, now_ms, map_bytes)):
        if isinstance(answer, CompactionResult):
            return answer
        assert swap_in(node.log, answer)
    raise AssertionError("a run ends with its result")


def pairs(node: Node) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in read_all(node.log, node.log.log_start_offset)]


def latest(history: list[tuple[int, bytes, bytes | None]], from_offset: int) -> list[tuple[int, bytes, bytes | None]]:
    """What compaction up to ``from_offset`` leaves: the latest of each key before it, and all behind."""
    last = {key: offset for offset, key, _ in history if offset < from_offset}
    return [row for row in history if row[0] >= from_offset or last[row[1]] == row[0]]


def write_history(node: Node, seed: int, count: int = 40) -> list[tuple[int, bytes, bytes | None]]:
    chance = random.Random(seed)
    history = []
    for _ in range(count):
        key, value = b"k%d" % chance.randint(0, 6), chance.randbytes(chance.randint(1, 60))
        history.append((node.log.log_end_offset, key, value))
        put(node, (key, value), compression=chance.choice([Compression.NONE, Compression.ZSTD]))
    return history


# What stays


@pytest.mark.parametrize("seed", range(5))
def test_the_latest_of_each_key_stays_at_its_offset_and_the_active_segment_as_it_is(seed: int) -> None:
    node = compacted_node()
    history = write_history(node, seed)
    before = node.log.size_bytes
    active = node.log._segments.active.base_offset
    result = run(node)
    assert result is not None
    assert result.cleaned_offset == active
    assert pairs(node) == latest(history, active)
    assert node.log.size_bytes < before


def test_segments_that_became_small_are_put_together_by_the_next_run() -> None:
    node = compacted_node()
    write_history(node, 1)
    before = len(node.log._segments)
    run(node)
    put(node, *[(b"new", b"n" * 60)] * 4)
    run(node)
    assert len(node.log._segments) < before


def test_reads_from_any_offset_go_on_at_the_next_record_that_is_left() -> None:
    node = compacted_node()
    history = latest(write_history(node, 3), node.log._segments.active.base_offset)
    run(node)
    for offset in range(node.log.log_end_offset):
        found = [record.offset for record in read_all(node.log, offset)]
        assert found == [row[0] for row in history if row[0] >= offset]


def test_batches_follow_on_one_another_behind_compaction_too() -> None:
    node = compacted_node()
    write_history(node, 3)
    run(node)
    next_offset = 0
    while next_offset < node.log.high_watermark:
        for buffer in node.log.read(next_offset, 1 << 20).buffers:
            for _, header in iter_headers(buffer):
                assert header.base_offset == next_offset
                next_offset = header.next_offset


def test_a_second_run_changes_nothing_when_nothing_is_new() -> None:
    node = compacted_node()
    write_history(node, 1)
    first = run(node)
    assert first is not None
    assert node.log.cleaning.dirty(NOW_MS, first.cleaned_offset) is None
    again = pairs(node)
    run(node)
    assert pairs(node) == again


def test_later_records_take_the_place_of_those_that_were_compacted_before() -> None:
    node = compacted_node()
    history = write_history(node, 1)
    first = run(node)
    assert first is not None
    history += write_history(node, 2)
    second = run(node, first.cleaned_offset)
    assert second is not None
    assert pairs(node) == latest(history, node.log._segments.active.base_offset)


def test_lookups_by_time_are_exact_behind_compaction() -> None:
    node = compacted_node()
    for number in range(30):
        put(node, (b"k%d" % (number % 4), b"%d" % number * 20))
        node.clock.advance(1)
    run(node)
    left = read_all(node.log)
    for timestamp_ms in range(NOW_MS - 500, NOW_MS + 31_000, 500):
        expected = next((record for record in left if record.timestamp_ms >= timestamp_ms), None)
        found = node.log.offset_for_timestamp(timestamp_ms)
        assert (found.offset if found else None) == (expected.offset if expected else None)
    greatest = node.log.max_timestamp()
    assert greatest is not None
    assert greatest.timestamp_ms == max(record.timestamp_ms for record in left)


def test_a_restart_finds_what_was_compacted_with_and_without_index_files() -> None:
    node = compacted_node()
    write_history(node, 4)
    run(node)
    expected = pairs(node)
    node.restart()
    assert pairs(node) == expected
    node.cut_power_and_start()
    assert pairs(node) == expected
    for suffix in (SEAL, ".index", ".timeindex", ".snapshot"):
        for path in node.files(suffix):
            node.disk.remove(path)
    node.kill_and_start()
    assert pairs(node) == expected


def test_a_tombstone_takes_its_key_along_once_its_horizon_has_passed() -> None:
    node = compacted_node(delete_retention_ms=str(DAY_MS))
    put(node, (b"a", b"1" * 60), (b"a", None), *[(b"b", b"2" * 60)] * 6)
    run(node)
    assert (1, b"a", None) in pairs(node)
    node.clock.advance(DAY_MS / 1000 - 1)
    put(node, *[(b"b", b"3" * 60)] * 6)
    run(node)
    assert (1, b"a", None) in pairs(node)
    node.clock.advance(2)
    put(node, *[(b"b", b"4" * 60)] * 6)
    run(node)
    assert b"a" not in [key for _, key, _ in pairs(node)]


def test_the_last_batch_of_a_producer_keeps_its_sequence() -> None:
    node = compacted_node()
    put(node, (b"a", b"1" * 60), producer=ProducerStamp(5, 0, 0))
    put(node, (b"a", b"2" * 60), producer=ProducerStamp(5, 0, 1))
    put(node, *[(b"a", b"3" * 60)] * 8)
    run(node)
    assert pairs(node)[0][2] == b"3" * 60
    for path in node.files(".snapshot"):
        node.disk.remove(path)
    node.kill_and_start()
    duplicate = node.log.append(keyed(b"a", b"2" * 60, producer=ProducerStamp(5, 0, 1)))
    assert (duplicate.duplicate, duplicate.base_offset) == (True, 1)


# What may be compacted


def test_young_records_wait_for_the_minimum_lag() -> None:
    node = compacted_node(min_compaction_lag_ms="60000")
    put(node, *[(b"a", b"1" * 60)] * 8)
    assert node.log.cleaning.dirty(node.clock.time_ms(), 0) is None
    node.clock.advance(61)
    assert node.log.cleaning.dirty(node.clock.time_ms(), 0) is not None


def test_records_over_the_maximum_lag_are_urgent_and_rolled_out_of_the_active_segment() -> None:
    node = compacted_node(max_compaction_lag_ms="60000")
    put(node, (b"a", b"1"))
    assert node.log.cleaning.dirty(node.clock.time_ms(), 0) is None
    node.clock.advance(61)
    dirty = node.log.cleaning.dirty(node.clock.time_ms(), 0)
    assert dirty is not None
    assert (dirty.end_offset, dirty.is_overdue) == (1, True)


def test_the_dirty_ratio_counts_the_bytes_that_are_new() -> None:
    node = compacted_node()
    put(node, *[(b"%d" % number, b"1" * 60) for number in range(8)])
    dirty = node.log.cleaning.dirty(NOW_MS, 0)
    assert dirty is not None
    assert dirty.ratio == 1.0
    half = node.log.cleaning.dirty(NOW_MS, 4)
    assert half is not None
    assert 0.3 < half.ratio < 0.8
    assert half.is_worth(0.1)
    assert not half.is_worth(0.9)


def test_what_is_not_durable_is_not_compacted() -> None:
    node = compacted_node()
    for number in range(8):
        node.log.append(keyed(b"a", b"%d" % number * 60))
    assert node.log.cleaning.dirty(NOW_MS, 0) is None


def test_a_map_that_is_too_small_ends_the_run_early_and_the_next_goes_on() -> None:
    node = Node(cleanup_policy="compact", segment_bytes="20000")
    for start in range(0, 3000, 100):
        rows = [NewRecord(b"%d" % (number % 2000), b"%d" % number, (), NOW_MS) for number in range(start, start + 100)]
        node.log.append(build_batch(rows))
    node.log.flush()
    first = run(node, 0, map_bytes=24 * 1024)
    assert first is not None
    assert 0 < first.cleaned_offset < 1000
    cleaned = first.cleaned_offset
    while (result := run(node, cleaned, map_bytes=24 * 1024)) is not None:
        assert result.cleaned_offset > cleaned
        cleaned = result.cleaned_offset
    active = node.log._segments.active.base_offset
    kept = [offset for offset, _, _ in pairs(node)]
    assert kept == [offset for offset in range(3000) if offset + 2000 >= active]


# Damage, and others at work


def test_a_damaged_segment_is_not_compacted_and_nothing_is_lost() -> None:
    node = compacted_node()
    write_history(node, 1)
    path = node.files(LOG)[1]
    node.faulty.flip_bit(path, 70)
    content = {each: node.faulty.content(each) for each in node.files(LOG)}
    with pytest.raises(CorruptBatchError, match=path.name):
        run(node)
    assert {each: node.faulty.content(each) for each in node.files(LOG)} == content


def test_views_outlive_the_segments_that_they_show() -> None:
    node = compacted_node()
    write_history(node, 1)
    held = node.log.read(0, 1 << 20).buffers
    before = [bytes(buffer) for buffer in held]
    run(node)
    assert [bytes(buffer) for buffer in held] == before


def test_a_swap_is_given_up_when_retention_took_a_segment_meanwhile() -> None:
    node = compacted_node()
    history = write_history(node, 1)
    dirty = node.log.cleaning.dirty(NOW_MS, 0)
    assert dirty is not None
    answers = compact(node.disk, node.log.cleaning.compaction_job(dirty, NOW_MS, MAP_BYTES))
    cleaned = next(answers)
    assert isinstance(cleaned, CleanedSegment)
    node.log.delete_records(node.log._segments[2].base_offset)
    node.directory.write_checkpoints()
    node.directory.write_checkpoints()
    assert not swap_in(node.log, cleaned)
    start = node.log.log_start_offset
    assert pairs(node) == [row for row in history if row[0] >= start]
    node.cut_power_and_start()
    assert pairs(node) == [row for row in history if row[0] >= start]


def test_readers_and_writers_go_on_between_the_steps_of_a_swap() -> None:
    node = compacted_node()
    history = write_history(node, 2)
    cleaning = node.log.cleaning
    dirty = cleaning.dirty(NOW_MS, 0)
    assert dirty is not None

    def check() -> None:
        put(node, (b"new", b"n" * 50))
        history.append((node.log.log_end_offset - 1, b"new", b"n" * 50))
        found = pairs(node)
        assert set(latest(history, dirty.end_offset)) <= set(found) <= set(history)
        assert [row[0] for row in found] == sorted({row[0] for row in found})

    for answer in compact(node.disk, cleaning.compaction_job(dirty, NOW_MS, MAP_BYTES)):
        if not isinstance(answer, CleanedSegment):
            break
        swap = cleaning.prepare_swap(answer)
        assert swap is not None
        check()
        swap.sync()
        new = cleaning.begin_swap(swap)
        assert new is not None
        check()
        swap.sync()
        cleaning.end_swap(swap, new)
        check()
        swap.clean_up()
        check()


# Crashes


def crashes(seed: int, at_most: int = 2000) -> Iterator[tuple[Node, list[tuple[int, bytes, bytes | None]]]]:
    """The same compaction, with power lost at each of its storage calls in turn."""
    for cut_at in range(1, at_most):
        node = compacted_node()
        history = write_history(node, 1, count=14)
        node.directory.write_checkpoints()
        node.faulty._chance.seed(seed * 10_000 + cut_at)
        node.faulty.cut_power_at_call = cut_at
        try:
            run(node)
        except PowerCutError:
            yield node, history
        else:
            assert cut_at > 100
            return
    raise AssertionError("the run has more storage calls than that")


@pytest.mark.parametrize("power", ["cut", "killed"])
def test_power_lost_at_any_storage_call_leaves_a_right_log(power: str) -> None:
    for node, history in crashes(seed=len(power)):
        active = node.log._segments.active.base_offset
        if power == "cut":
            node.faulty.power_cut()
        node.faulty.kill()
        node.start()
        found = pairs(node)
        assert set(latest(history, active)) <= set(found) <= set(history)
        assert [row[0] for row in found] == sorted({row[0] for row in found})
        assert node.log.log_end_offset == len(history)
        left = [name for name in node.disk.list(node.log.directory) if name.endswith((".cleaned", ".swap", ".deleted"))]
        assert left == []
        run(node)
        assert [row for row in pairs(node) if row[0] < active] == [
            row for row in latest(history, active) if row[0] < active
        ]


def test_a_disk_that_is_full_ends_the_run_and_leaves_the_log_as_it_was() -> None:
    node = compacted_node()
    history = write_history(node, 1)
    node.faulty.capacity_bytes = node.faulty.used_bytes() + 20
    with pytest.raises(StorageError):
        run(node)
    assert pairs(node) == history
    node.faulty.capacity_bytes = None
    assert run(node) is not None


def failures(at_most: int = 2000) -> Iterator[tuple[Node, list[tuple[int, bytes, bytes | None]]]]:
    """The same compaction, with each of its storage calls failing in turn, and the process going on."""
    for fails_at in range(1, at_most):
        node = compacted_node()
        history = write_history(node, 1, count=14)
        node.directory.write_checkpoints()
        node.faulty.fail_at_call = fails_at
        try:
            run(node)
        except StorageError:
            yield node, history
        else:
            if node.faulty.fail_at_call is not None:
                assert fails_at > 100
                return
    raise AssertionError("the run has more storage calls than that")


@pytest.mark.parametrize("power", ["cut", "killed"])
def test_a_storage_call_that_fails_loses_nothing_of_what_comes_after_it(power: str) -> None:
    """A compacted segment that is not installed must not come back over those that were compacted later."""
    for node, history in failures():
        bases = [segment.base_offset for segment in node.log._segments]
        node.log.delete_records(bases[1])
        for _ in range(2):
            node.directory.write_checkpoints()
        for number in range(14):
            history.append((node.log.log_end_offset, b"new %d" % number, b"n" * 60))
            put(node, history[-1][1:])
        with suppress(StorageError):  # of an old segment that was set aside: only the next opening heals this
            run(node)
        if power == "cut":
            node.cut_power_and_start()
        else:
            node.kill_and_start()
        found = pairs(node)
        rest = [row for row in history if row[0] >= node.log.log_start_offset]
        assert set(latest(rest, node.log.log_end_offset)) <= set(found) <= set(rest)
        assert [row[0] for row in found] == sorted({row[0] for row in found})


# Transactions


def transact(node: Node, producer_id: int, sequence: int, *pairs: tuple[bytes, bytes], commit: bool | None) -> None:
    """A transaction of one batch for each pair, and its marker if it ends."""
    for number, (key, value) in enumerate(pairs):
        stamp = ProducerStamp(producer_id, 0, sequence + number, True)
        node.log.append(keyed(key, value, node.clock.time_ms(), producer=stamp))
    if commit is not None:
        node.log.append_marker(producer_id, 0, commit=commit, coordinator_epoch=0, timestamp_ms=node.clock.time_ms())
    node.log.flush()


def committed(node: Node) -> list[tuple[bytes | None, bytes | None]]:
    """What a reader of committed records gets."""
    found, offset = [], node.log.log_start_offset
    while offset < node.log.last_stable_offset:
        result = node.log.read(offset, 1 << 20, committed=True)
        aborted, dropping = list(result.aborted), set()
        for buffer in result.buffers:
            for at, header in iter_headers(buffer):
                offset = header.next_offset
                while aborted and aborted[0].first_offset <= header.base_offset:
                    dropping.add(aborted.pop(0).producer_id)
                if header.is_control:
                    dropping.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in dropping):
                    rows = read_records(buffer[at : at + header.size_bytes])
                    found += [(record.key, record.value) for record in rows]
    return found


def markers(node: Node) -> list[int]:
    buffers = node.log.read(node.log.log_start_offset, 1 << 20).buffers
    headers = [header for buffer in buffers for _, header in iter_headers(buffer)]
    return [header.base_offset for header in headers if header.is_control and header.record_count]


def test_aborted_records_go_and_cover_nothing() -> None:
    node = compacted_node()
    put(node, (b"a", b"1" * 60))
    transact(node, 7, 0, (b"a", b"2" * 60), (b"b", b"3" * 60), commit=False)
    transact(node, 8, 0, (b"c", b"4" * 60), commit=True)
    put(node, *[(b"x", b"5" * 60)] * 6)
    run(node)
    assert committed(node)[:2] == [(b"a", b"1" * 60), (b"c", b"4" * 60)]
    assert [value for _, _, value in pairs(node)][:2] == [b"1" * 60, b"4" * 60]
    node.restart()
    assert committed(node)[:2] == [(b"a", b"1" * 60), (b"c", b"4" * 60)]


def test_a_marker_stays_while_its_transaction_has_records_and_until_its_horizon_behind_that() -> None:
    node = compacted_node(delete_retention_ms=str(DAY_MS))
    transact(node, 7, 0, (b"a", b"1" * 60), commit=True)  # marker at 1
    transact(node, 8, 0, (b"b", b"1" * 60), commit=False)  # marker at 3
    transact(node, 9, 0, (b"z", b"1" * 60), commit=True)  # marker at 5, and z is never written again
    node.log._producers._entries.clear()  # long expired
    put(node, *[(b"a", b"2" * 60)] * 6)
    for days, expected in ((0, [1, 3, 5]), (0, [1, 3, 5]), (0.9, [1, 3, 5]), (0.2, [5]), (10, [5])):
        node.clock.advance(days * 86400)
        put(node, *[(b"a", b"3" * 60)] * 6)
        run(node)
        assert markers(node) == expected
        assert committed(node)[0] == (b"z", b"1" * 60)


def test_nothing_behind_the_start_of_an_open_transaction_is_compacted() -> None:
    node = compacted_node()
    put(node, *[(b"a", b"1" * 60)] * 4)
    transact(node, 7, 0, (b"a", b"2" * 60), commit=None)
    put(node, *[(b"a", b"3" * 60)] * 8)
    run(node)
    assert [offset for offset, _, _ in pairs(node) if offset >= 4] == list(range(4, 13))
    assert len(pairs(node)) < 13


def test_a_transaction_whose_marker_lies_behind_what_is_compacted_is_known_to_be_aborted() -> None:
    node = compacted_node(min_compaction_lag_ms="1000")
    put(node, (b"a", b"1" * 60))
    transact(node, 7, 0, (b"a", b"2" * 60), (b"a", b"3" * 60), (b"a", b"4" * 60), commit=None)
    put(node, (b"b", b"5" * 60))
    node.clock.advance(2)
    transact(node, 7, 3, (b"a", b"6" * 60), commit=False)
    put(node, *[(b"b", b"7" * 60)] * 6)
    dirty = node.log.cleaning.dirty(node.clock.time_ms(), 0)
    assert dirty is not None
    assert dirty.end_offset < 6
    run(node)
    assert committed(node)[0] == (b"a", b"1" * 60)
    assert b"2" * 60 not in [value for _, _, value in pairs(node)]
    node.kill_and_start()
    assert committed(node)[0] == (b"a", b"1" * 60)


@pytest.mark.parametrize("seed", range(6))
def test_committed_readers_see_the_latest_of_each_key_whatever_transactions_did(seed: int) -> None:
    chance = random.Random(seed)
    node = compacted_node()
    sequences = dict.fromkeys(range(1, 5), 0)
    for _ in range(40):
        producer_id = chance.randint(1, 4)
        rows = [(b"k%d" % chance.randint(0, 9), chance.randbytes(40)) for _ in range(chance.randint(1, 3))]
        transact(node, producer_id, sequences[producer_id], *rows, commit=chance.choice([True, False, None]))
        sequences[producer_id] += len(rows)
    for producer_id in sequences:
        if node.log.open_transaction_start(producer_id) is not None:
            transact(node, producer_id, 0, commit=chance.choice([True, False]))
    expected = dict(committed(node))
    cleaned = 0
    for _ in range(3):
        result = run(node, cleaned)
        cleaned = result.cleaned_offset if result is not None else cleaned
        assert dict(committed(node)) == expected
        node.clock.advance(2 * 86400)
    node.restart()
    assert dict(committed(node)) == expected
    for path in [*node.files(SEAL), *node.files(".snapshot"), *node.files(".txnindex")]:
        node.disk.remove(path)
    node.kill_and_start()
    assert dict(committed(node)) == expected


def test_a_transaction_that_was_aborted_behind_the_last_stable_offset_takes_no_key() -> None:
    node = compacted_node()
    put(node, (b"k", b"old"))
    node.log.append(keyed(b"k", b"aborted", producer=ProducerStamp(5, 0, 0, is_transactional=True)))
    put(node, *[(b"x", b"%d" % number * 60) for number in range(6)])
    node.log.append(keyed(b"y", b"open", producer=ProducerStamp(6, 0, 0, is_transactional=True)))
    node.log.append_marker(5, 0, commit=False, coordinator_epoch=0, timestamp_ms=NOW_MS)
    node.log.flush()
    assert run(node) is not None
    assert [value for _, key, value in pairs(node) if key == b"k"] == [b"old"]
