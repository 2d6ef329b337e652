"""Seeded histories on a disk that loses power at every storage call: nothing that was acknowledged may change.

The model is a list: what was appended, by offset, and how far it was acknowledged (the high watermark after a finished
flush). After each cut the log is opened again and must hold all acknowledged records, at their offsets, unchanged, and
behind them nothing but what was appended, in order.
"""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from mainstem.errors import PartitionOfflineError, StorageError
from mainstem.log.config import LogConfig
from mainstem.log.directory import LogDirectory
from mainstem.log.partition_log import PartitionLog
from mainstem.testing.clock import ManualClock
from mainstem.testing.disk import FaultyDisk, PowerCutError
from tests.log.support import DATA, NOW_MS, PARTITION, TOPIC_ID, read_all, sent_by

CONFIGS = {"segment.bytes": "700", "index.interval.bytes": "150"}


class History:
    """One run of a seed over several lives of a node."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = FaultyDisk(seed)
        self.clock = ManualClock(NOW_MS)
        self.appended: dict[int, bytes] = {}
        self.acknowledged = 0
        self.may_exist: dict[int, set[bytes]] = {}
        self.sequence = 0
        self.epoch = 0
        self.failing_syncs = 0.0

    def live(self, steps: int) -> None:
        """Open, check, and go on with the history until power fails or ``steps`` are done."""
        directory = LogDirectory.open(self.disk, self.clock, DATA, CONFIGS)
        if not directory.holds(PARTITION):
            assert self.acknowledged == 0
            directory.create(PARTITION.topic, 0, TOPIC_ID, LogConfig.of(CONFIGS))
        log = directory.get(PARTITION)
        self.check(log)
        for _ in range(steps):
            self.step(directory, log)
        directory.close()

    def step(self, directory: LogDirectory, log: PartitionLog) -> None:
        what = self.chance.random()
        if self.chance.random() < self.failing_syncs:
            self.disk.fail_syncs("*.log" if what < 0.7 else "*", times=1)
        if what < 0.6:
            self.append(log)
        elif what < 0.85:
            self.flush(log)
        elif what < 0.95:
            directory.write_checkpoints()
        else:
            log.write_retrace_point()

    def append(self, log: PartitionLog) -> None:
        count = self.chance.randint(1, 3)
        written = [b"%d:%d:" % (log.log_end_offset + at, self.chance.getrandbits(60)) for at in range(count)]
        written = [value.ljust(self.chance.choice((20, 60, 200)), b".") for value in written]
        for at, value in enumerate(written):
            self.may_exist.setdefault(log.log_end_offset + at, set()).add(value)
        self.clock.advance(0.01)
        result = log.append(sent_by(1, self.sequence, *written, epoch=self.epoch))
        assert not result.duplicate
        self.sequence += count
        self.appended.update(enumerate(written, result.base_offset))

    def flush(self, log: PartitionLog) -> None:
        flush = log.start_flush()
        if flush is not None:
            flush.run()
            log.finish_flush(flush)
            self.acknowledged = log.high_watermark

    def check(self, log: PartitionLog) -> None:
        """What a start finds; then the producer begins a new epoch, as one that lost its connection does."""
        stats = log.statistics()
        assert stats.log_start_offset <= stats.high_watermark == stats.log_end_offset
        assert stats.high_watermark >= self.acknowledged
        records = {record.offset: record.value for record in read_all(log)}
        for offset in range(self.acknowledged):
            assert records.get(offset) == self.appended.get(offset), f"offset {offset}"
        assert all(value in self.may_exist[offset] for offset, value in records.items())
        assert list(records) == sorted(records)
        unacknowledged = [offset for offset in records if offset >= self.acknowledged]
        assert unacknowledged == list(range(self.acknowledged, self.acknowledged + len(unacknowledged)))
        self.appended = {offset: value for offset, value in records.items() if value is not None}
        self.acknowledged = stats.high_watermark
        self.epoch, self.sequence = self.epoch + 1, 0


def run_with_cuts(seed: int, cut_at: int) -> bool:
    """One history with a power cut at a call, a second life, and a last look; whether the cut came at all."""
    history = History(seed)
    history.disk.cut_power_at_call = cut_at
    try:
        history.live(steps=24)
    except PowerCutError:
        history.disk.power_cut()
        history.live(steps=10)
        history.disk.kill()
        history.live(steps=0)
        return True
    return False


@pytest.mark.parametrize("seed", range(2))
def test_a_power_cut_at_any_storage_call_loses_nothing_acknowledged(seed: int) -> None:
    cut_at = 1
    while run_with_cuts(seed, cut_at):
        cut_at += 1
    assert cut_at > 100


@pytest.mark.parametrize("seed", range(100, 130))
def test_power_cuts_in_recoveries_lose_nothing_acknowledged(seed: int) -> None:
    history = History(seed)
    chance = random.Random(seed)
    for _ in range(12):
        history.disk.cut_power_at_call = chance.randint(1, 150)
        try:
            history.live(steps=chance.randint(0, 30))
        except PowerCutError:
            if chance.random() < 0.7:
                history.disk.power_cut()
        history.disk.kill()
    history.live(steps=0)


@pytest.mark.parametrize("seed", range(200, 220))
def test_failing_syncs_and_kills_lose_nothing_acknowledged(seed: int) -> None:
    history = History(seed)
    history.failing_syncs = 0.1
    chance = random.Random(seed)
    for _ in range(10):
        with suppress(StorageError, PartitionOfflineError):
            history.live(steps=chance.randint(0, 20))
        if chance.random() < 0.5:
            history.disk.power_cut()
        history.disk.kill()
    history.disk.fail_syncs("*.log", times=0)
    history.disk.fail_syncs("*", times=0)
    history.live(steps=0)
