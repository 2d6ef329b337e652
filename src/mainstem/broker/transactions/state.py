"""A transactional id: its producer, and the state of its transaction.

            ┌──────────────── init ────────────────┐
            ▼                                      │
          EMPTY ──add──► ONGOING ──end(commit)──► PREPARE_COMMIT ──all marked──► COMPLETE_COMMIT ──add──► ONGOING
            │               │                                                    ▲
            │               └──end(abort), init by another, time-out──► PREPARE_ABORT ──all marked──► COMPLETE_ABORT
            └──end(abort), transaction version 2──────────────────────────────►─┘

``init`` leads from any state but the two PREPARE ones to EMPTY, over an abort if a transaction is ongoing; ``add``
leads from EMPTY and both COMPLETE states to ONGOING; an EMPTY or COMPLETE id that is unused for long is forgotten.
The numbers of the states are those of Kafka's records, and so are their names.

Plain values without I/O: ``steps`` makes the next one of the one before, ``coordinator`` owns them.

Invariants: an epoch that a producer was given is never given to another one; a record of an older epoch is refused by
every partition that has seen a newer one or its marker; partitions are named only while a transaction is ONGOING or in
a PREPARE state; ``next_producer_epoch`` is not -1 only while a prepared transaction is kept for its own coordinator
(KIP-939), and while a transaction is being ended after which its producer gets another id or another epoch than the
markers have.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from mainstem.model import TopicPartition

NO_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 2**15 - 1
NO_TIMEOUT_MS: Final = 2**31 - 1
"""The time-out of a two-phase transaction, which waits for its own coordinator's decision (KIP-939)."""


class TransactionState(enum.IntEnum):
    """The states, by the numbers of Kafka's records; ``text`` is what Kafka's tools show."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


ENDING: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
IDLE: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})


class ProducerIdAndEpoch(NamedTuple):
    """A producer as it names itself in a request."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id as it is now. ``start_ms`` is -1 while no transaction has begun.

    ``producer_id`` and ``producer_epoch`` are what markers are written with; the producer itself uses ``client``. The
    ``version`` is the transaction version (KIP-890) of the client that wrote it last: from 2 on each end of a
    transaction raises the epoch. ``last_producer_epoch`` is the epoch that the same producer had before (KIP-360); it
    is not in Kafka's records, so a restart forgets it. ``previous_producer_id`` is the id that it had before its epochs
    were used up.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_ms: int
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    next_producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    version: int = 0

    @property
    def client(self) -> ProducerIdAndEpoch:
        """The id and epoch that the newest instance of the producer was given, or is given when this has ended."""
        if self.next_producer_epoch != NO_EPOCH:
            return ProducerIdAndEpoch(self.next_producer_id, self.next_producer_epoch)
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def is_kept(self) -> bool:
        """Whether it is a prepared transaction that a new instance of its producer is about to decide on."""
        return self.state is TransactionState.ONGOING and self.next_producer_epoch != NO_EPOCH

    @property
    def is_two_phase(self) -> bool:
        """Whether it waits for a decision from outside for as long as it takes."""
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left to give: the last one is kept to fence with."""
        return is_exhausted(self.client.epoch)

    @property
    def commits(self) -> bool:
        """Which marker ends it, in a PREPARE or COMPLETE state."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


def is_exhausted(epoch: int) -> bool:
    """Whether no producer may be given an epoch after this one."""
    return epoch >= EPOCH_MAX - 1
