"""``__consumer_offsets`` as the coordinators of groups use it; ``CoordinatorLog`` says how changes are made.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mainstem.broker.coordinator.coordinator_log import CoordinatorLog
from mainstem.broker.storage.group_commit import GroupCommit
from mainstem.broker.storage.topics import OFFSETS_TOPIC, Topics
from mainstem.clock import Clock
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.errors import ErrorCode
from mainstem.record.constants import ControlType
from mainstem.record.header import BatchHeader
from mainstem.record.reader import DecodedRecord, read_control_type


class TransactionalRecords(Protocol):
    """The receiver of the records that transactions wrote to a partition, and of their ends."""

    def replay(self, partition: int, producer_id: int, key: bytes, value: bytes | None) -> None: ...

    def end_transaction(self, partition: int, producer_id: int, *, commit: bool) -> None: ...


class GroupLog(CoordinatorLog):
    """The records of all groups of this node, by group id."""

    def __init__(self, topics: Topics, commit: GroupCommit, clock: Clock) -> None:
        super().__init__(topics, commit, clock, OFFSETS_TOPIC)

    def replay(self, apply: Callable[[bytes, bytes | None], None], transactions: TransactionalRecords) -> None:
        """Give the records to ``apply``, in order; those of transactions, and markers, to ``transactions``."""

        def take(log: PartitionLog, header: BatchHeader, records: Sequence[DecodedRecord]) -> None:
            _take(log.topic_partition.partition, header, records, apply, transactions)

        self.load(take, "groups")

    def refusal(self, group_id: str) -> ErrorCode:
        """Why a group cannot be served: it has no name, or its partition is damaged or offline.

        Offsets take ``partition_refusal``: old clients committed to a group without a name, as in Kafka.
        """
        return self.partition_refusal(group_id) if group_id else ErrorCode.INVALID_GROUP_ID


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
