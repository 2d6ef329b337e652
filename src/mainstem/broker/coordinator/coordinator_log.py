"""The runtime of the coordinators: groups, share groups and transactions change what they keep in this order.

1. A step takes the state and an event. It returns the new state, the records that describe it, and the reply. Steps are
   pure: they change no state that others see.
2. ``change`` appends the records, all or none, to the partition of the internal topic that keeps the state's key.
3. ``change`` then applies the new state.
4. The reply leaves when all records that the partition held when it was made are durable (``until_durable``, ``run``).
   So no client sees state that a power cut can undo.

When the disk refuses in 2, nothing is applied: the memory stays what the log says, and the client is refused
(``error_codes.coordinator_code``). When the flush fails in 4, the log may keep the records or lose them. The partition
then takes no writes and ``partition_refusal`` refuses every request for its keys, until the next start replays the log.

The topic is created when the first key needs it. Concurrency: the event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from mainstem.broker.coordinator.effects import Effects, StateRecord
from mainstem.broker.coordinator.replay import Take, replay
from mainstem.broker.error_codes import coordinator_code
from mainstem.broker.storage.group_commit import GroupCommit
from mainstem.broker.storage.topics import Topics
from mainstem.clock import Clock
from mainstem.errors import MainstemError, PartitionOfflineError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.errors import ErrorCode
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch

_LOG: Final = logging.getLogger("mainstem.broker.coordinator")


class CoordinatorLog:
    """One internal topic. Its replay is the state of a coordinator by key: by group id, by transactional id."""

    def __init__(self, topics: Topics, commit: GroupCommit, clock: Clock, topic_name: str) -> None:
        self._topics = topics
        self._commit = commit
        self._clock = clock
        self._topic_name = topic_name
        self._damaged: set[PartitionLog] = set()

    # ---- start

    def load(self, take: Take, what: str) -> None:
        """Give every record to ``take``. A damaged partition serves no key until it is repaired."""
        self._damaged = replay(self._topics.get(self._topic_name), take, _LOG, what)

    # ---- partitions

    def find(self, key: str) -> PartitionLog | None:
        """The partition that keeps the key; None until the topic exists. Raises PartitionOfflineError."""
        topic = self._topics.get(self._topic_name)
        return None if topic is None else topic.partition(_partition_of(key, len(topic.partitions)))

    def partition(self, key: str) -> PartitionLog:
        """The partition that keeps the key; the topic is created if need be. Raises the log's errors."""
        topic = self._topics.ensure_internal(self._topic_name)
        return topic.partition(_partition_of(key, len(topic.partitions)))

    def keeps(self, log: PartitionLog, key: str) -> bool:
        """Whether ``log``, a partition of the topic, is the one that keeps the key."""
        topic = self._topics.get(self._topic_name)
        return topic is not None and _partition_of(key, len(topic.partitions)) == log.topic_partition.partition

    def all_partitions(self) -> list[PartitionLog] | None:
        """Every partition of the topic; None when one of them cannot be served."""
        topic = self._topics.get(self._topic_name)
        if topic is None:
            return []
        return None if self._damaged or len(topic.logs) < len(topic.partitions) else list(topic.logs)

    def is_damaged(self, key: str) -> bool:
        """Whether the records of the key's partition could not be read. Raises PartitionOfflineError."""
        return bool(self._damaged) and self.find(key) in self._damaged

    def partition_refusal(self, key: str) -> ErrorCode:
        """COORDINATOR_NOT_AVAILABLE when the key's partition is damaged or offline."""
        try:
            log = self.find(key)
        except PartitionOfflineError:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        is_unusable = log is not None and (log in self._damaged or log.offline_reason is not None)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_unusable else ErrorCode.NONE

    # ---- changes

    def change(
        self,
        key: str,
        records: Sequence[StateRecord],
        apply: Callable[[], None] | None = None,
        *,
        producer: ProducerStamp | None = None,
    ) -> int:
        """Append the records of a change, then apply it; returns the offset after the records, 0 without any.

        Raises the log's errors: then nothing was applied. With ``producer`` the records count when its transaction
        commits. Leave ``apply`` out only where the memory changes whatever the log says.
        """
        next_offset, log = 0, None
        if records:
            log = self.partition(key)
            time_ms = self._clock.time_ms()
            batch = build_batch(
                [NewRecord(record.key, record.value, (), time_ms) for record in records], producer=producer
            )
            appended = log.append(batch, is_own=producer is None, from_coordinator=producer is not None)
            next_offset = appended.last_offset + 1
        if apply is not None:
            apply()
        if log is not None:
            self._commit.appended(log)  # last: with log.flush=os it answers fetches, and the next requests may follow
        return next_offset

    async def until_durable(self, *keys: str) -> None:
        """Return when all that the partitions of these keys hold now is durable. Raises the log's errors."""
        for log in dict.fromkeys(map(self.find, keys)):
            if log is not None:
                await self._commit.durable(log, log.log_end_offset)

    def run(self, key: str, effects: Effects, apply: Callable[[], None]) -> MainstemError | None:
        """Write a step's records, apply it, and give its answers when they are durable.

        Returns the error of records that could not be written: nothing was applied, and the answers say so.
        """
        try:
            self.change(key, effects.records, apply)
            log = self.find(key)
        except MainstemError as error:
            _refuse(effects, error)
            return error

        def flushed(error: MainstemError | None) -> None:
            if error is not None:
                _refuse(effects, error)
            else:
                for reply, answer in effects.answers:
                    reply(answer)

        if log is None or not effects.answers:
            flushed(None)
        else:
            self._commit.when_durable(log, log.log_end_offset, flushed)
        return None


def _refuse(effects: Effects, error: MainstemError) -> None:
    _LOG.error("the records of a coordinator could not be written: %s", error)
    for reply, answer in effects.answers:
        answer.error_code = coordinator_code(error)  # type: ignore[attr-defined]
        reply(answer)


def _partition_of(key: str, partitions: int) -> int:
    """The partition that keeps a key, as Kafka's coordinators pick it: by Java's hash of the string."""
    code = 0
    data = key.encode("utf-16-be")
    for high, low in zip(data[::2], data[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    signed = code - (1 << 32) if code & 0x80000000 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
