"""Offsets that transactions commit, as the coordinators see them: checked, written, and decided by the markers.

They are in ``__consumer_offsets`` as transactional batches in their producer's name, and count from the marker on.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mainstem.broker.groups.group_log import GroupLog
from mainstem.broker.groups.offsets.pending_offsets import PendingOffsets
from mainstem.broker.groups.records import (
    OFFSET_KEY_TYPES,
    CommittedOffset,
    OffsetRecord,
    key_type,
    offset_changes,
    offset_record,
    read_offset_change,
)
from mainstem.protocol.errors import ErrorCode
from mainstem.record.constants import NO_SEQUENCE
from mainstem.record.writer import ProducerStamp

_OLD_EPOCHS: Final = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH})


class TransactionalOffsets:
    """The offsets that open transactions are about to commit. ``apply`` takes those of a committed transaction."""

    def __init__(self, log: GroupLog, apply: Callable[[OffsetRecord], None]) -> None:
        self.pending = PendingOffsets()
        self._log = log
        self._apply = apply

    async def commit(
        self, group_id: str, producer_id: int, producer_epoch: int, committed: Mapping[tuple[str, int], CommittedOffset]
    ) -> None:
        """Keep offsets that count when the producer's transaction commits; returns when they are durable.

        Raises the log's errors: then nothing is kept.
        """
        changes = offset_changes(group_id, committed)
        partition = self._log.partition(group_id).topic_partition.partition

        def apply() -> None:
            for change in changes:
                self.pending.add(partition, producer_id, change)

        records = [offset_record(change.key, change.committed) for change in changes]
        stamp = ProducerStamp(producer_id, producer_epoch, NO_SEQUENCE, is_transactional=True)
        self._log.change(group_id, records, apply, producer=stamp)
        await self._log.until_durable(group_id)

    def replay(self, partition: int, producer_id: int, key: bytes, value: bytes | None) -> None:
        """A record that counts if its transaction commits: transactions commit offsets and nothing else."""
        if key_type(key) in OFFSET_KEY_TYPES:
            self.pending.add(partition, producer_id, read_offset_change(key, value))

    def end_transaction(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """A transaction got its marker in a partition of ``__consumer_offsets``: its offsets count, or are dropped."""
        for change in self.pending.end(partition, producer_id, commit=commit):
            self._apply(change)

    def unstable(self, group_id: str) -> frozenset[tuple[str, int]]:
        """The topics and partitions whose committed offset an open transaction is about to change."""
        return self.pending.of_group(group_id)


def as_in_transaction(code: ErrorCode) -> ErrorCode:
    """Translate the result of a member's generation or epoch check for a transaction.

    In a rebalance the member's generation is still current. An old member epoch counts as an old generation, and so
    does any epoch of a group that does not exist.
    """
    if code is ErrorCode.REBALANCE_IN_PROGRESS:
        return ErrorCode.NONE
    is_old = code in _OLD_EPOCHS or code is ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION if is_old else code
