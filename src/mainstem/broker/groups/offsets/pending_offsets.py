"""Offsets that open transactions commit: they count when the transaction commits, and are forgotten when it aborts.

A transaction is named by its producer id and the partition of ``__consumer_offsets`` that it writes to, as its records
and its marker are. The last one in the log counts: a transaction that commits does not take back what was committed
or removed after its own records.

Pure state without I/O, a replay of the log's transactional records and markers; one owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mainstem.broker.groups.records import OffsetKey, OffsetRecord


class _Pending(NamedTuple):
    """``number`` is its place among all that was pending; ``change`` is None when it was overtaken."""

    number: int
    change: OffsetRecord | None


class PendingOffsets:
    """The offsets that each open transaction commits."""

    def __init__(self) -> None:
        self._of_transaction: dict[tuple[int, int], dict[OffsetKey, _Pending]] = {}
        self._transactions_of: dict[str, set[tuple[int, int]]] = {}
        self._next_number = 0

    def add(self, partition: int, producer_id: int, change: OffsetRecord) -> None:
        """An open transaction says so."""
        pending = _Pending(self._next_number, change)
        self._next_number += 1
        self._of_transaction.setdefault((partition, producer_id), {})[change.key] = pending
        self._transactions_of.setdefault(change.key.group_id, set()).add((partition, producer_id))

    def overtake(self, keys: Iterable[OffsetKey]) -> None:
        """These were committed or removed otherwise since: what is pending for them will not count.

        They stay unstable until their transactions end.
        """
        for key in keys:
            self._overtake(key, self._next_number)

    def _overtake(self, key: OffsetKey, before_number: int) -> None:
        for transaction in self._transactions_of.get(key.group_id, ()):
            held = self._of_transaction[transaction]
            pending = held.get(key)
            if pending is not None and pending.number < before_number:
                held[key] = _Pending(pending.number, None)

    def end(self, partition: int, producer_id: int, *, commit: bool) -> list[OffsetRecord]:
        """The transaction has its marker; returns what counts now."""
        held = self._of_transaction.pop((partition, producer_id), {})
        for group_id in {key.group_id for key in held}:
            transactions = self._transactions_of[group_id]
            transactions.discard((partition, producer_id))
            if not transactions:
                del self._transactions_of[group_id]
        if not commit:
            return []
        for key, pending in held.items():
            self._overtake(key, pending.number)
        return [pending.change for pending in held.values() if pending.change is not None]

    def of_group(self, group_id: str) -> frozenset[tuple[str, int]]:
        """The topics and partitions for which an open transaction commits offsets of the group."""
        return frozenset(
            (key.topic, key.partition)
            for transaction in self._transactions_of.get(group_id, ())
            for key in self._of_transaction[transaction]
            if key.group_id == group_id
        )

    def keys_of_group(self, group_id: str) -> list[OffsetKey]:
        """Every offset of the group that an open transaction commits."""
        return [OffsetKey(group_id, topic, partition) for topic, partition in self.of_group(group_id)]

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        """Every offset in ``topic`` that an open transaction commits."""
        return [key for held in self._of_transaction.values() for key in held if key.topic == topic]
