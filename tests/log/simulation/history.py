"""A seeded history of one partition: what producers, operators, the clock and the disk do to it, step by step.

Everything is drawn from the seed, so a seed replays the same way. After each step the log must say what the model says;
after each start, that it kept what it had to and nothing that was not appended.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePath

from mainstem.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    PartitionOfflineError,
    StorageError,
    TransactionCoordinatorFencedError,
)
from mainstem.log.files.names import CUT, LOG, offset_file
from mainstem.log.node.directory import LogDirectory
from mainstem.log.partition.config import LogConfig
from mainstem.log.segments.batch_scan import Start, walk_past_damage
from mainstem.record.header import BatchHeader
from mainstem.record.writer import ProducerStamp
from mainstem.testing.clock import ManualClock
from mainstem.testing.disk import FaultyDisk
from tests.log.simulation.model import Batch, Model, Producer, parse
from tests.log.support import DATA, DIRECTORY, NOW_MS, PARTITION, TOPIC_ID, batch, read_committed

IDEMPOTENT, TRANSACTIONAL = (1, 2), (5, 6, 7)
CLOCK_JUMP_MS_MAX = 4 * 3_600_000


class History:
    """One seed's: its disk, its clock, the node on them, and what the partition must be."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = FaultyDisk(seed)
        self.clock = ManualClock(NOW_MS)
        self.model = Model()
        self.configs = {
            "segment.bytes": str(self.chance.choice((600, 900, 1500))),
            "index.interval.bytes": "150",
            "message.timestamp.after.max.ms": str(1 << 40),
            "flush": self.chance.choices(("commit", "os"), (4, 1))[0],
        }
        self.failing_syncs = self.chance.choice((0.0, 0.0, 0.1))
        self.full_disks = self.chance.choice((0.0, 0.0, 0.1))
        self.leader_epoch = -1
        self.is_unclean = False
        self.trace: list[str] = []

    def copy(self, disk: FaultyDisk, seed: int) -> History:
        """The same up to now, to go on from differently, on a copy of its disk; without its node."""
        twin = History(seed)
        twin.disk = disk
        twin.clock.set_time_ms(self.clock.time_ms())
        twin.model = self.model.copy()
        twin.configs = dict(self.configs)
        twin.leader_epoch, twin.is_unclean = self.leader_epoch, self.is_unclean
        return twin

    # Lives

    def open(self) -> None:
        """Open the node's directory, and the partition, which is made if it is not there."""
        self.disk.capacity_bytes = None
        self.disk.fail_syncs("*", times=0)
        self.disk.fail_syncs("*.log", times=0)
        self.directory = LogDirectory.start(self.disk, self.clock, DATA)
        self.directory.open_partitions(lambda _: LogConfig.of(self.configs), lambda _: TOPIC_ID)
        if not self.directory.holds(PARTITION):
            self.directory.create(PARTITION.topic, 0, TOPIC_ID, LogConfig.of(self.configs))
        self.log = self.directory.get(PARTITION)

    def start(self, must_keep: int) -> None:
        """Open it and compare what it holds; ``must_keep`` says how far nothing may be missing."""
        self.open()
        log = self.log
        assert log.high_watermark == log.log_end_offset
        if must_keep > 0:  # before, all may be gone, as if there had been no life
            assert log.leader_epoch >= self.leader_epoch + self.is_unclean, "two lives lead with the same epoch"
        self.leader_epoch, self.is_unclean = log.leader_epoch, True
        self.model.keep(self.read_everything(), log.log_start_offset, log.log_end_offset, must_keep)
        for name in self.disk.list(DIRECTORY):
            if name.endswith(CUT):
                self._compare_cut(name)
        self._trace(f"start {len(self.model.batches)}")
        self.compare()
        self.compare_reads()

    def _compare_cut(self, name: str) -> None:
        """What a recovery has set aside is not in the log, and its offsets are not given again."""
        first_offset = int(name[:20])
        log = DIRECTORY / offset_file(first_offset, LOG)
        if self.disk.exists(log):  # a batch of an offset before its end is the value of a record
            first_offset = max((each.next_offset for each in self._proven(log, first_offset)), default=first_offset)
        for header in self._proven(DIRECTORY / name, first_offset):
            assert header.next_offset <= self.log.log_end_offset, "an offset is given again"
            assert all(each.base_offset != header.base_offset for each in self.model.batches), "a batch is back"

    def _proven(self, path: PurePath, first_offset: int) -> list[BatchHeader]:
        """The headers of the whole batches in a file, of this offset or a later one."""
        file = self.disk.open(path)
        walk = walk_past_damage(file, Start(0, first_offset), file.size_bytes(), prove=True)
        return [header for _, header in walk]

    def start_after_power_cut(self) -> None:
        """What was not synced may be gone."""
        self.disk.power_cut()
        self.start(self.model.durable)

    def start_after_kill(self) -> None:
        """What was written is there."""
        self.disk.kill()
        self.start(self.model.log_end)

    def end_cleanly(self) -> None:
        """Close, if the disk lets it."""
        self.disk.capacity_bytes = None
        self.is_unclean = False  # should power fail in the middle, either may be
        try:
            self.directory.close()
            self.is_unclean = self.log.offline_reason is not None
            if self.log.offline_reason is None:
                self.model.durable = self.model.checkpointed = self.model.log_end
            self.model.durable_log_start = self.model.log_start
        except StorageError as error:
            self.is_unclean = True
            self._trace(f"close: {error}")

    def run(self, steps: int) -> None:
        """Go on with the history."""
        for _ in range(steps):
            step = self.chance.choices(_STEPS, _WEIGHTS)[0]
            if self.chance.random() < self.failing_syncs:
                self.disk.fail_syncs(self.chance.choice(("*.log", "*")))
            self.disk.capacity_bytes = None
            if self.chance.random() < self.full_disks:
                self.disk.capacity_bytes = self.disk.used_bytes() + self.chance.choice((0, 50, 300))
            try:
                step(self)
                self._trace(step.__name__)
            except (StorageError, PartitionOfflineError) as error:
                self.model.in_flight = None
                self._trace(f"{step.__name__}: {error}")
            self.disk.capacity_bytes = None
            self.compare()

    def _trace(self, text: str) -> None:
        self.trace.append(f"{self.disk.calls} {text} {self.model.log_end} {self.model.visible}")

    # Steps of producers

    def append_plain(self) -> None:
        self._append(-1, -1, -1, is_transactional=False)

    def append_idempotent(self) -> None:
        producer_id = self.chance.choice(IDEMPOTENT)
        known = self.model.producer(producer_id)
        if self.chance.random() < 0.1:  # its connection was lost
            self._append(producer_id, known.epoch + 1, 0, is_transactional=False)
        else:
            self._append(producer_id, *self._next_of(known), is_transactional=False)

    def append_transactional(self) -> None:
        producer_id = self.chance.choice(TRANSACTIONAL)
        self._append(producer_id, *self._next_of(self.model.producer(producer_id)), is_transactional=True)

    def _next_of(self, known: Producer) -> tuple[int, int]:
        """Epoch and sequence to go on with: a new epoch where the last batch may be deleted, and forgotten."""
        if known.epoch < 0 or (known.batches and known.batches[-1].base_offset < self.model.log_start):
            return known.epoch + 1, 0
        return known.epoch, known.next_sequence

    def _append(self, producer_id: int, epoch: int, base_sequence: int, *, is_transactional: bool) -> None:
        start, count = self.model.log_end, self.chance.randint(1, 3)
        size = self.chance.choice((1, 40, 120))
        values = tuple(b"%d:%x" % (start + at, self.chance.getrandbits(32)) + b"." * size for at in range(count))
        self.clock.advance(0.01)
        timestamp_ms = self.clock.time_ms() + self.chance.randint(-50, 50)
        new = Batch(start, values, timestamp_ms, producer_id, epoch, base_sequence, is_transactional)
        self.model.in_flight = new
        assert not self.log.append(encode(new)).duplicate
        self._appended(new)

    def _appended(self, new: Batch) -> None:
        self.model.append(new)
        if self.configs["flush"] == "os":
            self.model.visible = self.model.log_end

    def end_transaction(self) -> None:
        """Commit or abort, with the same epoch or (KIP-890) the next one; also where there is nothing to end."""
        producer_id = self.chance.choice(TRANSACTIONAL)
        known = self.model.producer(producer_id)
        epoch = max(known.epoch, 0) + (self.chance.random() < 0.5)
        coordinator_epoch = max(known.coordinator_epoch, 0) + (self.chance.random() < 0.2)
        is_commit = self.chance.random() < 0.6
        time_ms = self.clock.time_ms()
        new = Batch(self.model.log_end, (), time_ms, producer_id, epoch, -1, True, is_commit, coordinator_epoch)
        self.model.in_flight = new
        self.log.append_marker(
            producer_id, epoch, commit=is_commit, coordinator_epoch=coordinator_epoch, timestamp_ms=time_ms
        )
        self._appended(new)

    def repeat(self) -> None:
        """A producer sends one of its last five batches again."""
        known = self._pick_known()
        last = [each for each in known.batches[-5:] if each.base_offset >= self.model.log_start] if known else []
        if last:
            again = self.chance.choice(last)
            result = self.log.append(encode(again))
            assert (result.duplicate, result.base_offset) == (True, again.base_offset)

    def send_wrongly(self) -> None:
        """Zombies, gaps, writes outside the open transaction, and a coordinator that was replaced."""
        known = self._pick_known()
        if known is None or not known.batches or known.last_offset < self.model.log_start:
            return
        last = known.batches[-1]
        gap = last._replace(base_sequence=known.next_sequence + 1)
        expect(OutOfOrderSequenceError, lambda: self.log.append(encode(gap)))
        zombie = last._replace(epoch=known.epoch - 1, base_sequence=known.next_sequence)
        if known.epoch > 0:
            expect(InvalidProducerEpochError, lambda: self.log.append(encode(zombie)))
        if known.open_since is not None and known.open_since >= self.model.log_start:
            plain = last._replace(base_sequence=known.next_sequence, is_transactional=False)
            expect(InvalidTransactionStateError, lambda: self.log.append(encode(plain)))
        if known.coordinator_epoch > 0 and last.producer_id in TRANSACTIONAL:
            self._send_stale_marker(known, last.producer_id)

    def _send_stale_marker(self, known: Producer, producer_id: int) -> None:
        last_marker = max(
            b.base_offset for b in self.model.batches if b.is_commit is not None and b.producer_id == producer_id
        )
        if last_marker >= self.model.log_start:
            stale = known.coordinator_epoch - 1
            expect(
                TransactionCoordinatorFencedError,
                lambda: self.log.append_marker(
                    producer_id, known.epoch, commit=True, coordinator_epoch=stale, timestamp_ms=0
                ),
            )

    def _pick_known(self) -> Producer | None:
        known = self.model.producer(self.chance.choice(IDEMPOTENT + TRANSACTIONAL))
        return known if known.epoch >= 0 and self.log.offline_reason is None else None

    # Steps of the node

    def flush(self) -> None:
        flush = self.log.start_flush()
        if flush is None:
            return
        end = self.model.log_end
        try:
            if self.chance.random() < 0.3:
                with suppress(StorageError):  # a full disk: nothing was appended
                    self.append_plain()
            self.model.in_flight = None
            flush.run()
        except StorageError as error:
            self.log.finish_flush(flush, error)
            raise
        self.log.finish_flush(flush)
        self.model.durable = end
        self.model.visible = max(self.model.visible, end)

    def write_checkpoints(self) -> None:
        log_start, log_end = self.model.log_start, self.model.log_end
        recovery_point = self.log.recovery_point
        try:
            self.directory.write_checkpoints()
            self.model.durable_log_start = log_start
            self.model.checkpointed = self.log.recovery_point
        finally:
            if self.log.recovery_point > recovery_point:  # it flushed in the background, too
                self.model.durable = log_end

    def write_recovery_checkpoint(self) -> None:
        self.log.write_recovery_checkpoint()

    def delete_records(self) -> None:
        end = min(self.model.visible, self.model.durable)
        if end >= self.model.log_start:
            target = self.chance.randint(self.model.log_start, end)
            assert self.log.delete_records(target) == target
            self.model.log_start = target

    def expire(self) -> None:
        """Retention, for once by a small size or a short time."""
        if self.model.durable < self.model.visible:
            return
        by_time = self.chance.random() < 0.5
        limits = {"retention.ms": "3600000"} if by_time else {"retention.bytes": "1000"}
        self.log.update_config(LogConfig.of(self.configs | limits))
        try:
            log_start = self.log.cleaning.expire(self.clock.time_ms())
        finally:
            self.log.update_config(LogConfig.of(self.configs))
        gone = [each for each in self.model.batches if self.model.log_start <= each.base_offset < log_start]
        if by_time:
            newest_ms = max((each.timestamp_ms + len(each.values) for each in gone), default=0)
            assert newest_ms < self.clock.time_ms() - 3_600_000 + 10
        elif gone:
            assert self.log.size_bytes >= 1000
        self.model.log_start = log_start

    def change_config(self) -> None:
        name, *choices = self.chance.choice(
            (("flush", "commit", "os"), ("segment.bytes", "600", "900", "1500"), ("segment.ms", "600000", "604800000"))
        )
        self.configs[name] = self.chance.choice(choices)
        self.log.update_config(LogConfig.of(self.configs))
        if self.configs["flush"] == "os":
            self.model.visible = self.model.log_end

    def jump_clock(self) -> None:
        jump_ms = self.chance.randint(-CLOCK_JUMP_MS_MAX, CLOCK_JUMP_MS_MAX)
        low, high = NOW_MS - CLOCK_JUMP_MS_MAX, NOW_MS + CLOCK_JUMP_MS_MAX
        self.clock.set_time_ms(min(max(self.clock.time_ms() + jump_ms, low), high))

    def restart(self) -> None:
        """A clean end and a start, or a kill and a start."""
        if self.chance.random() < 0.5:
            self.end_cleanly()
        self.start_after_kill()

    # What readers see

    def compare(self) -> None:
        """The offsets, after every step."""
        log, model = self.log, self.model
        offsets = (log.log_start_offset, log.high_watermark, log.log_end_offset)
        assert offsets == (model.log_start, model.visible, model.log_end)
        low, high = model.last_stable_bounds()
        assert low <= log.last_stable_offset <= high, f"last stable {log.last_stable_offset} not in [{low}, {high}]"
        assert log.recovery_point <= log.log_end_offset

    def read(self) -> None:
        self.compare_reads()

    def compare_reads(self) -> None:
        """One read of each kind."""
        log, model, chance = self.log, self.model, self.chance
        offset = chance.randint(model.log_start, model.visible)
        max_bytes = chance.choice((1, 300, 1000, 1 << 20))
        visible = [each for each in model.batches if offset < each.next_offset <= model.visible]
        found = parse(log.read(offset, max_bytes).buffers)
        assert found == visible[: len(found)]
        assert bool(found) == bool(visible)
        expected = model.committed_values(offset, log.last_stable_offset)
        assert read_committed(log, offset, max_bytes) == expected, f"committed from {offset}"
        timestamp_ms = self.clock.time_ms() + chance.randint(-100, 100)
        at = log.offset_for_timestamp(timestamp_ms)
        assert (at.offset if at is not None else None) == model.first_at_or_after(timestamp_ms)

    def read_everything(self) -> list[Batch]:
        """All visible batches."""
        found: list[Batch] = []
        offset = self.log.log_start_offset
        while offset < self.log.high_watermark:
            batches = parse(self.log.read(offset, self.chance.choice((1, 1000, 1 << 20))).buffers)
            if not batches:
                break
            found += batches
            offset = batches[-1].next_offset
        return found


def encode(new: Batch) -> bytes:
    """The bytes that a producer sends."""
    stamp = ProducerStamp(new.producer_id, new.epoch, new.base_sequence, new.is_transactional)
    return batch(*new.values, timestamp_ms=new.timestamp_ms, producer=stamp)


def expect(kind: type[Exception], call: Callable[[], object]) -> None:
    """The log must refuse this."""
    try:
        call()
    except kind:
        return
    raise AssertionError(f"not refused with {kind.__name__}")


_WEIGHTED: dict[Callable[[History], None], float] = {
    History.append_plain: 12,
    History.append_idempotent: 12,
    History.append_transactional: 24,
    History.end_transaction: 14,
    History.repeat: 4,
    History.send_wrongly: 3,
    History.flush: 16,
    History.write_checkpoints: 6,
    History.write_recovery_checkpoint: 3,
    History.delete_records: 3,
    History.expire: 2,
    History.change_config: 2,
    History.jump_clock: 2,
    History.restart: 2,
    History.read: 4,
}
_STEPS, _WEIGHTS = list(_WEIGHTED), list(_WEIGHTED.values())
