"""Seeded histories of a compacted topic: keys, tombstones, transactions, compaction runs that end in the middle, cuts.

The model is all that was ever written. Compaction may take a record only if a reader who builds a table of the latest
committed value of each key cannot tell; what it leaves stays at its offset; and behind its end nothing is missing.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from mainstem.log.cleaning.compaction import compact
from mainstem.log.cleaning.compaction_job import CompactionResult
from mainstem.log.node.directory import LogDirectory
from mainstem.log.partition.config import LogConfig
from mainstem.record.header import iter_headers
from mainstem.record.reader import iter_records
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch
from mainstem.testing.clock import ManualClock
from mainstem.testing.disk import CutDisk, FaultyDisk
from tests.log.support import DATA, NOW_MS, PARTITION, TOPIC_ID, committed_records, swap_in

KEYS = tuple(b"k%d" % number for number in range(5))
PRODUCERS = (5, 6)
MAP_BYTES = 1 << 16


class Written(NamedTuple):
    """One record, or a marker, which has no key. ``producer_id`` is -1 outside of transactions."""

    offset: int
    key: bytes | None
    value: bytes | None
    producer_id: int
    is_commit: bool | None = None


class CompactedHistory:
    """One seed's."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = FaultyDisk(seed)
        self.clock = ManualClock(NOW_MS)
        self.configs = {
            "cleanup.policy": "compact",
            "segment.bytes": "500",
            "index.interval.bytes": "150",
            "delete.retention.ms": self.chance.choice(("0", "1000000")),
        }
        self.written: list[Written] = []
        self.durable = self.cleaned_offset = self.compacted_end = 0

    def copy(self, disk: FaultyDisk, seed: int) -> CompactedHistory:
        """The same up to now, to go on from differently, on a copy of its disk."""
        twin = CompactedHistory(seed)
        twin.__dict__.update(self.__dict__, disk=disk, chance=random.Random(seed), written=list(self.written))
        return twin

    def start(self, must_keep: int) -> None:
        """Open the node; all before ``must_keep`` must be there, and of the rest the first ones or none."""
        self.directory = LogDirectory.start(self.disk, self.clock, DATA)
        self.directory.open_partitions(lambda _: LogConfig.of(self.configs), lambda _: TOPIC_ID)
        if not self.directory.holds(PARTITION):
            self.directory.create(PARTITION.topic, 0, TOPIC_ID, LogConfig.of(self.configs))
        self.log = self.directory.get(PARTITION)
        headers = [each for buffer in self._buffers() for _, each in iter_headers(buffer)]
        end = headers[-1].next_offset if headers else 0
        assert end >= must_keep, f"the log ends at {end}, {must_keep} was durable"
        self.written = [each for each in self.written if each.offset < end]
        self.durable = end
        self.compare()

    def start_after_power_cut(self) -> None:
        self.disk.power_cut()
        self.start(self.durable)

    def run(self, steps: int) -> None:
        """Go on with the history."""
        for _ in range(steps):
            self.chance.choices(_STEPS, _WEIGHTS)[0](self)
            self.compare()

    # Steps

    def append(self) -> None:
        self._append(-1)

    def append_in_transaction(self) -> None:
        self._append(self.chance.choice(PRODUCERS))

    def _append(self, producer_id: int) -> None:
        self.clock.advance(0.01)
        base_offset, count = self.log.log_end_offset, self.chance.randint(1, 3)
        for at in range(count):
            value = None if self.chance.random() < 0.2 else b"%d:%x" % (base_offset + at, self.chance.getrandbits(64))
            self.written.append(Written(base_offset + at, self.chance.choice(KEYS), value, producer_id))
        rows = [NewRecord(each.key, each.value, (), self.clock.time_ms()) for each in self.written[-count:]]
        stamp = None
        if producer_id >= 0:
            sent = [each for each in self.written[:-count] if each.producer_id == producer_id and each.key is not None]
            stamp = ProducerStamp(producer_id, 0, len(sent), is_transactional=True)
        assert not self.log.append(build_batch(rows, producer=stamp)).duplicate

    def end_transaction(self) -> None:
        producer_id, is_commit = self.chance.choice(PRODUCERS), self.chance.random() < 0.6
        self.written.append(Written(self.log.log_end_offset, None, None, producer_id, is_commit))
        time_ms = self.clock.time_ms()
        self.log.append_marker(producer_id, 0, commit=is_commit, coordinator_epoch=0, timestamp_ms=time_ms)

    def flush(self) -> None:
        self.log.flush()
        # A start that had to cut the log goes on behind what it cut: before the recovery point there may be no record.
        before = (each.offset + 1 for each in self.written if each.offset < self.log.recovery_point)
        self.durable = max(before, default=0)

    def write_checkpoints(self) -> None:
        self.directory.write_checkpoints()

    def compact(self) -> None:
        """A run, which may end in the middle, as when the worker is killed."""
        dirty = self.log.cleaning.dirty(self.clock.time_ms(), self.cleaned_offset)
        if dirty is None:
            return
        job = self.log.cleaning.compaction_job(dirty, self.clock.time_ms(), MAP_BYTES)
        self.compacted_end = max(self.compacted_end, dirty.end_offset)
        for answer in compact(self.disk, job):
            if isinstance(answer, CompactionResult):
                self.cleaned_offset = answer.cleaned_offset
            elif self.chance.random() < 0.1:
                return
            else:
                assert swap_in(self.log, answer)

    def pass_time(self) -> None:
        self.clock.advance(self.chance.choice((1, 2_000)))

    def restart(self) -> None:
        if self.chance.random() < 0.5:
            self.directory.close()
        self.disk.kill()
        self.cleaned_offset = self.chance.choice((0, self.cleaned_offset))
        self.start(self.written[-1].offset + 1 if self.written else 0)

    # What readers see

    def _buffers(self) -> list[memoryview]:
        found: list[memoryview] = []
        offset = 0
        while offset < self.log.high_watermark:
            buffers = self.log.read(offset, self.chance.choice((1, 500, 1 << 20))).buffers
            if not buffers:
                break
            found += buffers
            offset = [header.next_offset for _, header in iter_headers(buffers[-1])][-1]
        return found

    def compare(self) -> None:
        """Every record that is there was written there; all behind the compacted part are; tables are the same."""
        log = self.log
        by_offset = {each.offset: each for each in self.written}
        found = [record for buffer in self._buffers() for record in iter_records(buffer)]
        for record in found:
            assert (record.key, record.value) == by_offset[record.offset][1:3], f"offset {record.offset}"
        here = {record.offset for record in found}
        expected = {each.offset for each in self.written if each.key is not None and each.offset < log.high_watermark}
        assert {offset for offset in expected if offset >= self.compacted_end} <= here
        stable = self._last_stable()
        assert log.last_stable_offset == stable
        table = _table((record.key, record.value) for record in committed_records(log, 0, 700))
        committed = [each for each in self.written if each.offset < stable and self._is_committed(each)]
        assert table == _table((each.key, each.value) for each in committed)

    def _is_committed(self, record: Written) -> bool:
        if record.key is None:
            return False
        ends = (each for each in self.written if each.offset > record.offset and each.key is None)
        end = next((each for each in ends if each.producer_id == record.producer_id), None)
        return record.producer_id < 0 or (end is not None and bool(end.is_commit))

    def _last_stable(self) -> int:
        open_since: dict[int, int] = {}
        for each in self.written:
            if each.offset >= self.log.high_watermark or each.producer_id < 0:
                continue
            if each.key is None:
                open_since.pop(each.producer_id, None)
            else:
                open_since.setdefault(each.producer_id, each.offset)
        return min(open_since.values(), default=self.log.high_watermark)


def _table(pairs: object) -> dict[bytes | None, bytes]:
    """The latest value of each key, without those that were deleted."""
    latest = dict(pairs)  # type: ignore[call-overload]
    return {key: value for key, value in latest.items() if value is not None}


_WEIGHTED = {
    CompactedHistory.append: 20,
    CompactedHistory.append_in_transaction: 20,
    CompactedHistory.end_transaction: 14,
    CompactedHistory.flush: 16,
    CompactedHistory.write_checkpoints: 4,
    CompactedHistory.compact: 10,
    CompactedHistory.pass_time: 3,
    CompactedHistory.restart: 4,
}
_STEPS, _WEIGHTS = list(_WEIGHTED), list(_WEIGHTED.values())


def run_compacted(seed: int, steps: int = 60) -> CompactedHistory:
    """A history, a power cut, and a second life."""
    history = CompactedHistory(seed)
    history.start(0)
    history.run(steps)
    history.start_after_power_cut()
    history.run(steps // 4)
    history.start_after_power_cut()
    return history


def cut_compaction_everywhere(seed: int, steps: int = 40) -> int:
    """A history, then a compaction that is cut at each of its storage calls; how many cuts were made."""
    history = CompactedHistory(seed)
    history.start(0)
    history.run(steps)
    history.flush()
    cuts = 0

    def on_call(cut: CutDisk) -> None:
        nonlocal cuts
        cuts += 1
        history.copy(cut.copy(seed + cuts), seed + cuts).start_after_power_cut()

    history.disk.on_call = on_call
    history.compact()
    history.disk.on_call = None
    history.compare()
    return cuts
