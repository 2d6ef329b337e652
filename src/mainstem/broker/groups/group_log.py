"""``__consumer_offsets`` as the coordinators use it: the partition of a group, its records, and answers that wait.

The topic is created when the first group needs it. Every answer waits until all records that the group's partition held
when the answer was made are durable. So no client sees state that a power cut can undo.

Concurrency: the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from mainstem.broker.groups.effects import Effects, GroupRecord, Reply
from mainstem.broker.groups.records import partition_of
from mainstem.broker.storage.replay import replay
from mainstem.broker.storage.topics import OFFSETS_TOPIC
from mainstem.errors import MainstemError, PartitionOfflineError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.schema import Message
from mainstem.record.constants import NO_SEQUENCE, ControlType
from mainstem.record.header import BatchHeader
from mainstem.record.reader import DecodedRecord, read_control_type
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch

if TYPE_CHECKING:
    from mainstem.broker.storage.group_commit import GroupCommit
    from mainstem.broker.storage.topics import Topics
    from mainstem.clock import Clock
    from mainstem.log.partition.partition_log import PartitionLog
    from mainstem.model import TopicPartition

_LOG: Final = logging.getLogger("mainstem.broker.groups")


class TransactionalRecords(Protocol):
    """The receiver of the records that transactions wrote to a partition, and of their ends."""

    def replay(self, partition: int, producer_id: int, key: bytes, value: bytes | None) -> None: ...

    def end_transaction(self, partition: int, producer_id: int, *, commit: bool) -> None: ...


class GroupLog:
    """The records of all groups of this node."""

    def __init__(self, topics: Topics, commit: GroupCommit, clock: Clock) -> None:
        self._topics = topics
        self._commit = commit
        self._clock = clock
        self._damaged: set[PartitionLog] = set()

    def replay(self, apply: Callable[[bytes, bytes | None], None], transactions: TransactionalRecords) -> None:
        """Give every record to ``apply``, in order, but those of transactions, and their markers, to ``transactions``.

        A partition that is damaged serves no group until it is mended.
        """

        def take(log: PartitionLog, header: BatchHeader, records: Sequence[DecodedRecord]) -> None:
            _take(log.topic_partition.partition, header, records, apply, transactions)

        self._damaged = replay(self._topics.get(OFFSETS_TOPIC), take, _LOG, "groups")

    def refusal(self, group_id: str) -> ErrorCode:
        """Why nothing can be said of a group: it has no name, or its partition is damaged or offline."""
        return self.partition_refusal(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def partition_refusal(self, group_id: str) -> ErrorCode:
        """Why nothing can be said of a group's partition. A group without a name has one, too: offsets that clients of
        old committed to it are served, as in Kafka.
        """
        try:
            log = self._find(group_id)
        except PartitionOfflineError:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        is_unusable = log is not None and (log in self._damaged or log.offline_reason is not None)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_unusable else ErrorCode.NONE

    def write(self, group_id: str, records: Sequence[GroupRecord]) -> None:
        """Append records of one group, all or none. Raises the log's errors."""
        log = self._find_or_create(group_id)
        if records:
            time_ms = self._clock.time_ms()
            batch = build_batch([NewRecord(record.key, record.value, (), time_ms) for record in records])
            log.append(batch, is_own=True)
            self._commit.appended(log)

    def write_in_transaction(
        self, group_id: str, records: Sequence[GroupRecord], producer_id: int, producer_epoch: int
    ) -> None:
        """Append records that count when the producer's transaction commits. Raises the log's errors."""
        log = self._find_or_create(group_id)
        time_ms = self._clock.time_ms()
        batch = build_batch(
            [NewRecord(record.key, record.value, (), time_ms) for record in records],
            producer=ProducerStamp(producer_id, producer_epoch, NO_SEQUENCE, is_transactional=True),
        )
        log.append(batch, from_coordinator=True)
        self._commit.appended(log)

    def topic_partition(self, group_id: str) -> TopicPartition:
        """The partition that keeps the group; it is created when it is not there. Raises the log's errors."""
        return self._find_or_create(group_id).topic_partition

    async def settled(self, group_id: str) -> None:
        """Return when all that the group's partition holds now is durable. Raises the log's errors."""
        log = self._find(group_id)
        if log is not None:
            await self._commit.durable(log, log.log_end_offset)

    def run(self, group_id: str, effects: Effects) -> bool:
        """Write a step's records, and give its answers when all that its group's partition holds is durable.

        False: the records could not be written, and the answers say so; what the step changed must not be kept.
        """
        try:
            if effects.records:
                self.write(group_id, effects.records)
            log = self._find(group_id)
        except MainstemError as error:
            _refuse(effects, error)
            return False

        def settled(error: MainstemError | None) -> None:
            if error is not None:
                _refuse(effects, error)
            else:
                for reply, answer in effects.answers:
                    reply(answer)

        if log is None or not effects.answers:
            settled(None)
        else:
            self._commit.when_durable(log, log.log_end_offset, settled)
        return True

    def _find_or_create(self, group_id: str) -> PartitionLog:
        topic = self._topics.ensure_internal(OFFSETS_TOPIC)
        return topic.partition(partition_of(group_id, len(topic.partitions)))

    def _find(self, group_id: str) -> PartitionLog | None:
        """The partition that keeps the group; None until the topic exists. Raises PartitionOfflineError."""
        topic = self._topics.get(OFFSETS_TOPIC)
        return None if topic is None else topic.partition(partition_of(group_id, len(topic.partitions)))


def _take(
    partition: int,
    header: BatchHeader,
    records: Sequence[DecodedRecord],
    apply: Callable[[bytes, bytes | None], None],
    transactions: TransactionalRecords,
) -> None:
    if header.is_control:
        control_type = read_control_type(records[0]) if records else None
        if control_type is not None:
            transactions.end_transaction(partition, header.producer_id, commit=control_type is ControlType.COMMIT)
    elif header.is_transactional:
        for record in records:
            transactions.replay(partition, header.producer_id, record.key or b"", record.value)
    else:
        for record in records:
            apply(record.key or b"", record.value)


def new_reply() -> tuple[asyncio.Future[Message], Reply]:
    """A handler's answer that comes later, and where a step gives it."""
    future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def reply(answer: Message) -> None:
        if not future.done():
            future.set_result(answer)

    return future, reply


def _refuse(effects: Effects, error: MainstemError) -> None:
    """Answer NOT_COORDINATOR after a failed write, so that the clients look for the coordinator again."""
    _LOG.error("a group's records could not be written: %s", error)
    for reply, answer in effects.answers:
        answer.error_code = ErrorCode.NOT_COORDINATOR  # type: ignore[attr-defined]
        reply(answer)
