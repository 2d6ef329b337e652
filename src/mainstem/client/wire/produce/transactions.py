"""A transactional producer by the Kafka protocol: its identity, the partitions of its transaction, and its end.

Records are sent by ``WireClient.produce``, stamped with ``identity`` and in the name of ``transactional_id``, to
partitions that were added before; several connections may send them. Every request here may be sent twice: adding is
idempotent, and a log that raises the epoch with each end (KIP-890) recognizes a repeated end.

Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.connection.deadline import Deadline
from mainstem.client.wire.produce import transaction_requests
from mainstem.client.wire.produce.producers import ProducerIdentity, init_producer_id
from mainstem.client.wire.produce.transaction_requests import ProducerInstance
from mainstem.clock import Clock, SystemClock
from mainstem.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    MainstemError,
    ProducerFencedError,
    TransactionTimeoutError,
)
from mainstem.model import Position, TopicPartition

_ENDED_BY_OTHERS: Final = (ProducerFencedError, InvalidProducerEpochError, InvalidTransactionStateError)


class TransactionalProducer:
    """One instance of the producer ``transactional_id``; it fences those that were there before."""

    def __init__(
        self, client: WireClient, transactional_id: str, *, timeout_s: float = 60.0, clock: Clock | None = None
    ) -> None:
        """``timeout_s`` is how long a transaction may take. The client stays the caller's."""
        self.transactional_id = transactional_id
        self.timeout_s = timeout_s
        self._client = client
        self._clock = clock or SystemClock()
        self._identity: ProducerIdentity | None = None
        self._added: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._deadline: Deadline | None = None

    @property
    def identity(self) -> ProducerIdentity:
        """The producer id and epoch of batches. When they change after a transaction, sequences begin at 0."""
        assert self._identity is not None, "begin the producer first"
        return self._identity

    @property
    def has_begun(self) -> bool:
        """Whether anything is part of the transaction: only then there is one to end."""
        return bool(self._added or self._groups)

    def init(self) -> None:
        """Take over the transactional id; what an older instance left open is aborted. To be called first.

        Raises ConfigError for a time-out over the log's ``transaction.max.timeout.ms``, LogUnavailableError.
        """
        self._identity = init_producer_id(
            self._client, self.transactional_id, transaction_timeout_ms=max(1, round(self.timeout_s * 1000))
        )

    def add(self, partitions: Collection[TopicPartition]) -> None:
        """Make partitions part of the transaction, unless they are. Raises what ``explained`` makes of a refusal."""
        new = set(partitions) - self._added
        if not new:
            return
        self._note_begin()
        with self.explaining():
            transaction_requests.add_partitions(self._client, self._instance, new)
        self._added |= new

    def commit_offsets(self, group: str, position: Position, metadata: str = "") -> None:
        """Commit ``position`` for ``group`` with the transaction. Raises what ``explained`` makes of a refusal."""
        self._note_begin()
        with self.explaining():
            if group not in self._groups:
                transaction_requests.add_group(self._client, self._instance, group)
                self._groups.add(group)
            entries = {tp: (offset, metadata) for tp, offset in position.items()}
            transaction_requests.commit_offsets(self._client, self._instance, group, entries)

    def end(self, *, commit: bool) -> None:
        """Commit or abort; nothing to do when nothing has begun. Raises what ``explained`` makes of a refusal.

        LogUnavailableError leaves open whether it was ended.
        """
        if not self.has_begun:
            return
        with self.explaining():
            self._identity = transaction_requests.end(self._client, self._instance, commit=commit)
        self._added.clear()
        self._groups.clear()
        self._deadline = None

    def explained(self, error: MainstemError) -> MainstemError:
        """The error that a refusal means for a transaction: it took too long, or another producer has taken over."""
        if not isinstance(error, _ENDED_BY_OTHERS):
            return error
        if self._deadline is not None and self._deadline.is_over:
            return TransactionTimeoutError(
                f"the transaction of {self.transactional_id!r} took longer than {self.timeout_s:g} s and was aborted: "
                "nothing of it counts; begin another, with less in it or a longer timeout_s"
            )
        if isinstance(error, InvalidTransactionStateError):
            return error
        return ProducerFencedError(
            f"another producer has taken over the transactional id {self.transactional_id!r}, and this one's "
            "transaction was aborted: end this program, or give each its own id"
        )

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Raise what ``explained`` makes of an error inside; any other error goes on as it is, with its own cause."""
        try:
            yield
        except MainstemError as error:
            explained = self.explained(error)
            if explained is error:
                raise
            raise explained from error

    def _note_begin(self) -> None:
        if self._deadline is None:
            self._deadline = Deadline(self._clock, self.timeout_s)

    @property
    def _instance(self) -> ProducerInstance:
        return ProducerInstance(self.transactional_id, *self.identity)
