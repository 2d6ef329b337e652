"""Runs the steps of share partitions: reads what is to be acquired, writes what changes, and watches the locks.

Concurrency: the event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, NamedTuple

from mainstem.broker.configs.group_configs import GroupConfigs
from mainstem.broker.coordinator.timers import NEVER, GroupTimers
from mainstem.broker.share import acquisition
from mainstem.broker.share.acquisition import Acknowledgement, Acquired, AcquireMode, AcquireParams, AcquisitionLimits
from mainstem.broker.share.batches import holding, read_batches
from mainstem.broker.share.dead_letters.letter_writer import LetterWriter
from mainstem.broker.share.in_flight import InFlight, RecordState, Run
from mainstem.broker.share.state_log import SharePartition, ShareStateLog
from mainstem.broker.share.state_records import ShareKey
from mainstem.broker.storage.delayed_fetch import DelayedFetches
from mainstem.broker.storage.topics import Topics
from mainstem.clock import Clock
from mainstem.errors import MainstemError
from mainstem.log.partition.partition_log import PartitionLog

_LOG: Final = logging.getLogger("mainstem.broker.share")
_PASSES_MAX: Final = 16
"""The most reads of one fetch while nothing that it read is deliverable."""
_RETRY_S: Final = 1.0
"""The pause before archiving is tried again, when the disk refused it."""


class ShareFetchParams(NamedTuple):
    """The parameters of a member's fetch."""

    member_id: str
    records_max: int
    batch_size: int
    mode: AcquireMode


class ShareAcquiredRecords(NamedTuple):
    """The records that a member got of one partition: whole batches, and which of their records it acquired."""

    buffers: Sequence[memoryview] = ()
    acquired: Sequence[Acquired] = ()

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.buffers))

    @property
    def record_count(self) -> int:
        return sum(acquired.size for acquired in self.acquired)


class SharePartitionManager:
    """All share partitions of the node: which member holds which records, and until when."""

    def __init__(
        self,
        topics: Topics,
        fetches: DelayedFetches,
        clock: Clock,
        configs: GroupConfigs,
        state: ShareStateLog,
        letters: LetterWriter,
    ) -> None:
        self.letters = letters
        self._topics = topics
        self._fetches = fetches
        self._clock = clock
        self._configs = configs
        self._state = state
        self._locked: dict[str, SharePartition] = {}
        self._timers = GroupTimers(clock, self._expire)
        self._unarchived: dict[str, list[tuple[SharePartition, Sequence[Run]]]] = {}
        self._archive_timers = GroupTimers(clock, self._archive_again)

    def stop(self) -> None:
        """Forget all timers, and dead letters that are being written."""
        self._timers.stop()
        self._archive_timers.stop()
        self.letters.stop()

    def limits(self, group_id: str) -> AcquisitionLimits:
        """The limits from the group's configs."""
        return AcquisitionLimits(
            deliveries_max=self._configs.get(group_id, "share.delivery.count.limit"),
            lock_duration_s=self.lock_duration_ms(group_id) / 1000,
            locks_max=self._configs.get(group_id, "share.partition.max.record.locks"),
            may_renew=self._configs.get(group_id, "share.renew.acknowledge.enable"),
            reads_committed=self._configs.get(group_id, "share.isolation.level") == "read_committed",
            has_letters=self.letters.wants_letters(group_id),
        )

    def lock_duration_ms(self, group_id: str) -> int:
        """How long a member may hold a record."""
        return int(self._configs.get(group_id, "share.record.lock.duration.ms"))

    # ---- share partitions

    def open(self, key: ShareKey, log: PartitionLog) -> SharePartition:
        """The share partition, whose state is kept from now on if it was not. Raises RemoteError, the log's errors."""
        self._state.check(key)
        partition = self._state.get(key)
        if partition is None:
            partition = self._state.create(key, self._first_offset(key.group_id, log), log.leader_epoch)
        return partition

    def _first_offset(self, group_id: str, log: PartitionLog) -> int:
        reset = self._configs.get(group_id, "share.auto.offset.reset")
        if reset == "earliest":
            return log.log_start_offset
        if isinstance(reset, timedelta):
            since_ms = self._clock.time_ms() - int(reset.total_seconds() * 1000)
            found = log.offset_for_timestamp(since_ms)
            if found is not None:
                return max(found.offset, log.log_start_offset)
        return log.high_watermark

    def refresh(self, partition: SharePartition, log: PartitionLog) -> None:
        """Release records whose locks ended, and forget those before the log's start. Raises the log's errors."""
        state = partition.in_flight
        if log.log_start_offset > state.start_offset:
            self._state.change(partition, (), log.log_start_offset)
            state = partition.in_flight
        now_s = self._clock.monotonic_s()
        if state.next_deadline_s <= now_s:
            self._change(partition, acquisition.expire(state, now_s, self.limits(partition.key.group_id)))

    def cut_to(self, partition: SharePartition, log: PartitionLog) -> None:
        """Forget what is said of offsets that the log has no records for: it lost its end in a power cut, which a topic
        that does not flush before it acknowledges may. New records will get these offsets. Raises the log's errors.
        """
        state = partition.in_flight
        end = log.log_end_offset
        if state.end_offset > end:
            _LOG.warning("%s: the log ends at %d, before records that were delivered", partition.key.text, end)
            self._state.replace(partition, InFlight(min(state.start_offset, end), tuple(state.within(0, end - 1))))

    # ---- what members do

    def acquire(
        self,
        partition: SharePartition,
        log: PartitionLog,
        wanted: ShareFetchParams,
        limits: AcquisitionLimits,
        max_bytes: int,
    ) -> ShareAcquiredRecords:
        """Acquire available records for a member. ``limits`` are the group's. Raises the log's errors."""
        committed = limits.reads_committed
        deadline_s = self._clock.monotonic_s() + limits.lock_duration_s
        params = AcquireParams(wanted.member_id, wanted.records_max, wanted.batch_size, wanted.mode, deadline_s)
        self.refresh(partition, log)
        for _ in range(_PASSES_MAX):
            state = partition.in_flight
            offset = state.next_fetch_offset
            end = log.last_stable_offset if committed else log.high_watermark
            if offset >= end or _is_full(state, offset, limits):
                break
            result = log.read(offset, max_bytes, committed=committed)
            batches = read_batches(result.buffers, result.aborted)
            runs, acquired = acquisition.acquire(state, offset, [batch.extent for batch in batches], params, limits)
            if not runs:
                break
            self._change(partition, runs)
            if acquired:
                self._watch(partition)
                return ShareAcquiredRecords(holding(batches, acquired), acquired)
        return ShareAcquiredRecords()

    def acknowledge(
        self,
        partition: SharePartition,
        log: PartitionLog,
        member_id: str,
        batches: Sequence[Acknowledgement],
        *,
        may_renew: bool,
    ) -> None:
        """Apply a member's acknowledgements. Raises RemoteError, the log's errors: then nothing is changed."""
        self.refresh(partition, log)
        limits = self.limits(partition.key.group_id)
        limits = replace(limits, may_renew=limits.may_renew and may_renew)
        before = partition.in_flight
        runs = acquisition.acknowledge(before, member_id, batches, limits, self._clock.monotonic_s())
        self._change(partition, runs)
        self._watch(partition)
        if before.size >= limits.locks_max or any(run.state is RecordState.AVAILABLE for run in runs):
            self._fetches.wake(log)

    def release(self, partitions: Iterable[SharePartition], member_id: str) -> None:
        """Give back all that a member holds in these."""
        for partition in partitions:
            limits = self.limits(partition.key.group_id)
            self._give_back(partition, acquisition.release_member(partition.in_flight, member_id, limits))

    # ---- the clock

    def _watch(self, partition: SharePartition) -> None:
        name, deadline_s = partition.key.text, partition.in_flight.next_deadline_s
        self._timers.watch(name, deadline_s)
        if deadline_s == NEVER:
            self._locked.pop(name, None)
        else:
            self._locked[name] = partition

    def _expire(self, name: str) -> None:
        partition = self._locked.pop(name)
        if self._state.get(partition.key) is not partition:
            return  # it was removed
        limits = self.limits(partition.key.group_id)
        if self._give_back(partition, acquisition.expire(partition.in_flight, self._clock.monotonic_s(), limits)):
            self._watch(partition)

    def _give_back(self, partition: SharePartition, runs: Sequence[Run]) -> bool:
        """Write the released records, and wake the waiting fetches. False if the write failed: nothing is changed then.
        Acquired records stay so until the next request checks the locks.
        """
        if not runs:
            return True
        try:
            self._change(partition, runs)
        except MainstemError as error:
            _LOG.warning("%s: released records could not be written: %s", partition.key.text, error)
            return False
        self._wake(partition)
        return True

    def _wake(self, partition: SharePartition) -> None:
        """Wake the fetches that wait for records of this partition."""
        topic = self._topics.by_id(partition.key.topic_id)
        for log in topic.partitions.opened() if topic is not None else ():
            if log.topic_partition.partition == partition.key.partition:
                self._fetches.wake(log)

    # ---- changes

    def _change(self, partition: SharePartition, runs: Sequence[Run]) -> None:
        """Apply the result of a step, and begin the dead letters that it asks for. Raises the log's errors."""
        self._state.change(partition, runs)
        waiting = [run for run in runs if run.state.awaits_letter]
        if waiting:
            self.letters.write(partition.key, waiting, lambda written: self._archive(partition, written))

    def _archive(self, partition: SharePartition, written: Sequence[Run]) -> None:
        """Archive records whose dead letters are written, now or as soon as the disk takes it."""
        if not self._try_to_archive(partition, written):
            self._archive_later(partition.key.text, [(partition, written)])

    def _archive_later(self, name: str, waiting: Sequence[tuple[SharePartition, Sequence[Run]]]) -> None:
        self._unarchived.setdefault(name, []).extend(waiting)
        self._archive_timers.watch(name, self._clock.monotonic_s() + _RETRY_S)

    def _archive_again(self, name: str) -> None:
        """Archive what waits, up to the first failure. No request and no lock's end would start this: a timer does."""
        waiting = self._unarchived.pop(name)
        for done, (partition, written) in enumerate(waiting):
            if not self._try_to_archive(partition, written):
                self._archive_later(name, waiting[done:])
                return

    def _try_to_archive(self, partition: SharePartition, written: Iterable[Run]) -> bool:
        """Archive these records, but not those that an admin reset meanwhile. False if the write failed."""
        if self._state.get(partition.key) is not partition:
            return True  # it was removed
        runs = [
            held.to(RecordState.ARCHIVED)
            for run in written
            for held in partition.in_flight.within(run.first, run.last)
            if held.state is run.state
        ]
        return self._give_back(partition, runs)


def _is_full(state: InFlight, offset: int, limits: AcquisitionLimits) -> bool:
    """Whether only new records are left, and the limit of records in flight is reached."""
    return offset == state.end_offset and state.size >= limits.locks_max
