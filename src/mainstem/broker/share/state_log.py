"""Keeps the state of every share partition; the state is a replay of ``__share_group_state``.

A change is applied only after it was written. Locks are not in the log: a change of them alone is applied at once, and
a restart ends them (``InFlight.written``). After a set number of updates of a share partition a snapshot of it is
written. Records before the oldest needed snapshot are deleted. So a start replays a bounded number of records. An idle
share partition gets a new snapshot when its old one alone would keep much of the log.

The topic is created when the first share group needs it. Concurrency: the event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from mainstem.broker.coordinator.coordinator_log import CoordinatorLog
from mainstem.broker.error_codes import refusal
from mainstem.broker.share.in_flight import InFlight, Run
from mainstem.broker.share.state_records import (
    Epochs,
    ShareKey,
    ShareSnapshot,
    Update,
    read_state_change,
    snapshot_record,
    update_record,
)
from mainstem.broker.storage.group_commit import GroupCommit
from mainstem.broker.storage.topics import SHARE_STATE_TOPIC, Topics
from mainstem.clock import Clock
from mainstem.errors import MainstemError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.errors import ErrorCode
from mainstem.record.header import BatchHeader
from mainstem.record.reader import DecodedRecord

_LOG: Final = logging.getLogger("mainstem.broker.share")
_COLD_AFTER_SNAPSHOTS: Final = 8
"""For one share partition the log may keep this many times the records between two snapshots."""


class SharePartition:
    """A group's view of one partition. ``snapshot_offset`` is where its last durable snapshot lies; -1 for none."""

    __slots__ = ("created_ms", "epochs", "in_flight", "key", "snapshot_offset", "updates")

    def __init__(self, key: ShareKey, epochs: Epochs, in_flight: InFlight, created_ms: int) -> None:
        self.key = key
        self.epochs = epochs
        self.in_flight = in_flight
        self.created_ms = created_ms
        self.updates = 0
        self.snapshot_offset = -1

    def updated(self, in_flight: InFlight) -> None:
        """An update was written."""
        self.in_flight = in_flight
        self.updates += 1

    def snapshotted(self, epochs: Epochs, in_flight: InFlight) -> None:
        """A snapshot was written."""
        self.epochs, self.in_flight, self.updates = epochs, in_flight, 0


class ShareStateLog:
    """All share partitions of this node."""

    def __init__(self, topics: Topics, commit: GroupCommit, clock: Clock, updates_per_snapshot: int) -> None:
        self._log = CoordinatorLog(topics, commit, clock, SHARE_STATE_TOPIC)
        self._commit = commit
        self._clock = clock
        self._updates_per_snapshot = updates_per_snapshot
        self._partitions: dict[str, dict[ShareKey, SharePartition]] = {}
        self._pruned_at: dict[PartitionLog, int] = {}

    # ---- start

    def load(self) -> None:
        """Replay the topic. A damaged partition of it serves no share partition until it is repaired."""
        self._log.load(self._take, "share groups")

    def _take(self, _log: PartitionLog, _header: BatchHeader, records: Sequence[DecodedRecord]) -> None:
        for record in records:
            change = read_state_change(record.key or b"", record.value)
            if isinstance(change, Update):
                held = self.get(change.key)
                if held is not None:  # else it was removed later, and its snapshot is deleted already
                    held.updated(held.in_flight.applied(change.runs, change.start_offset))
            elif change is not None and change.in_flight is not None:
                partition = SharePartition(change.key, change.epochs, change.in_flight, change.created_ms)
                partition.snapshot_offset = record.offset
                self._partitions.setdefault(change.key.group_id, {})[change.key] = partition
            elif change is not None:
                self._forget(change.key)

    # ---- what there is

    def get(self, key: ShareKey) -> SharePartition | None:
        return self._partitions.get(key.group_id, {}).get(key)

    def all(self) -> list[SharePartition]:
        """All share partitions of the node."""
        return [partition for held in self._partitions.values() for partition in held.values()]

    def of_group(self, group_id: str) -> list[SharePartition]:
        """All share partitions of a group."""
        return list(self._partitions.get(group_id, {}).values())

    def of_topic(self, topic_id: UUID) -> list[SharePartition]:
        """The share partitions of all groups in a topic."""
        return [
            partition
            for held in self._partitions.values()
            for key, partition in held.items()
            if key.topic_id == topic_id
        ]

    def check(self, key: ShareKey) -> None:
        """Whether the state of a share partition is known. Raises RemoteError, PartitionOfflineError."""
        if self._log.is_damaged(key.text):
            raise refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the state of this share partition is damaged")

    # ---- changes: each raises the log's errors, and then changes nothing

    def create(self, key: ShareKey, start_offset: int, leader_epoch: int) -> SharePartition:
        """Begin to keep the state of a share partition."""
        self.check(key)
        partition = SharePartition(key, Epochs(0, leader_epoch, -1), InFlight(start_offset), self._clock.time_ms())
        self._write_snapshot(partition, partition.epochs, partition.in_flight)
        self._partitions.setdefault(key.group_id, {})[key] = partition
        return partition

    def reset(self, partition: SharePartition, start_offset: int) -> None:
        """Restart the share partition at an offset; its in-flight records are forgotten."""
        epochs = partition.epochs._replace(state=partition.epochs.state + 1)
        self._write_snapshot(partition, epochs, InFlight(start_offset))

    def replace(self, partition: SharePartition, in_flight: InFlight) -> None:
        """Let the share partition have another state, whatever it had."""
        self._write_snapshot(partition, partition.epochs, in_flight)

    def change(self, partition: SharePartition, runs: Sequence[Run], start_offset: int = -1) -> None:
        """Apply the result of a step; ``start_offset`` is the log's, if it has moved."""
        before = partition.in_flight
        after = before.applied(runs, start_offset)
        if _is_unwritten(runs, before, after):
            partition.in_flight = after
        elif partition.updates >= self._updates_per_snapshot:
            self._write_snapshot(partition, partition.epochs, after)
        else:
            record = update_record(partition.key, partition.epochs, runs, before, after)
            self._log.change(partition.key.text, [record], lambda: partition.updated(after))

    def remove(self, partitions: Iterable[SharePartition]) -> None:
        """Forget share partitions."""
        for partition in partitions:
            record = snapshot_record(ShareSnapshot(partition.key, partition.epochs, None, -1), 0)
            self._log.change(partition.key.text, [record], partial(self._forget, partition.key))

    async def until_durable(self, keys: Iterable[ShareKey]) -> None:
        """Return when all that was written of these share partitions is durable. Raises the log's errors."""
        await self._log.until_durable(*(key.text for key in keys))

    # ---- the log

    def _forget(self, key: ShareKey) -> None:
        of_group = self._partitions.get(key.group_id, {})
        of_group.pop(key, None)
        if not of_group:
            self._partitions.pop(key.group_id, None)

    def _write_snapshot(self, partition: SharePartition, epochs: Epochs, in_flight: InFlight) -> None:
        key, epochs = partition.key, epochs._replace(snapshot=epochs.snapshot + 1)
        snapshot = ShareSnapshot(key, epochs, in_flight, partition.created_ms)
        record = snapshot_record(snapshot, self._clock.time_ms())
        next_offset = self._log.change(key.text, [record], lambda: partition.snapshotted(epochs, in_flight))
        log = self._log.partition(key.text)

        def durable(error: MainstemError | None) -> None:
            if error is None:
                partition.snapshot_offset = max(partition.snapshot_offset, next_offset - 1)
                self._prune(log)

        self._commit.when_durable(log, next_offset, durable)

    def _prune(self, log: PartitionLog) -> None:
        """Delete records that no state needs any more, once enough was written since the last time."""
        a_round = self._updates_per_snapshot + 1
        if log.log_end_offset - self._pruned_at.get(log, log.log_start_offset) < a_round:
            return
        self._pruned_at[log] = log.log_end_offset
        here = [partition for partition in self.all() if self._log.keeps(log, partition.key.text)]
        floor = min((partition.snapshot_offset for partition in here), default=-1)
        if floor - log.log_start_offset >= a_round:
            log.delete_records(floor)
        coldest = min(here, key=lambda partition: partition.snapshot_offset, default=None)
        if coldest is not None and log.log_end_offset - floor > (_COLD_AFTER_SNAPSHOTS + len(here)) * a_round:
            try:
                self._write_snapshot(coldest, coldest.epochs, coldest.in_flight)
            except MainstemError as error:  # the next one tries again
                _LOG.warning("no snapshot of %s could be written: %s", coldest.key.text, error)


def _is_unwritten(runs: Sequence[Run], before: InFlight, after: InFlight) -> bool:
    """Whether nothing changes that the log knows: locks are in memory alone."""
    if before == after:
        return True
    return all(run.state.written is not run.state for run in runs) and before.written() == after.written()
