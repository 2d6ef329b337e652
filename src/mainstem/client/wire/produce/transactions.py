"""A transactional producer by the Kafka protocol: who it is, what is part of its transaction, and how that ends.

Records go by ``WireClient.produce``, stamped with ``identity`` and in the name of ``transactional_id``, to partitions
that were added before; several connections may send them. Every request here may be sent twice: adding is idempotent,
and a log that raises the epoch with each end (KIP-890) takes a repeated end for what it is.

Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.coordinated import GROUP, TRANSACTION, ask_coordinator
from mainstem.client.wire.connection.deadline import Deadline
from mainstem.client.wire.produce.producers import ProducerIdentity, init_producer_id
from mainstem.clock import Clock, SystemClock
from mainstem.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    MainstemError,
    ProducerFencedError,
    TransactionTimeoutError,
)
from mainstem.model import Position, TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from mainstem.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from mainstem.protocol.messages.end_txn import EndTxnRequest
from mainstem.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from mainstem.protocol.schema import Message

_ENDED_BY_OTHERS: Final = (ProducerFencedError, InvalidProducerEpochError, InvalidTransactionStateError)
_OF_ONE_TRANSACTION_MAX: Final = 3
"""From version 4 on AddPartitionsToTxn is for brokers."""


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
        by_topic: dict[str, list[int]] = {}
        for each in sorted(new):
            by_topic.setdefault(each.topic, []).append(each.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in by_topic.items()
            ],
        )
        answer = self._ask(request, TRANSACTION, self.transactional_id, _partition_codes, _OF_ONE_TRANSACTION_MAX)
        self._check(_partition_codes(answer), "the partitions cannot be made part of the transaction")
        self._added |= new

    def commit_offsets(self, group: str, position: Position, metadata: str = "") -> None:
        """Commit ``position`` for ``group`` with the transaction. Raises what ``explained`` makes of a refusal."""
        producer_id, producer_epoch = self.identity
        self._note_begin()
        if group not in self._groups:
            adding = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                group_id=group,
            )
            answer = self._ask(adding, TRANSACTION, self.transactional_id, lambda answer: [answer.error_code])
            self._check([answer.error_code], f"group {group!r} cannot be made part of the transaction")
            self._groups.add(group)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            topics=_offset_topics(position, metadata),
        )
        answer = self._ask(request, GROUP, group, _offset_codes)
        self._check(_offset_codes(answer), f"the offsets of group {group!r} cannot be committed")

    def end(self, *, commit: bool) -> None:
        """Commit or abort; nothing to do when nothing has begun. Raises what ``explained`` makes of a refusal.

        LogUnavailableError leaves open whether it was ended.
        """
        if not self.has_begun:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=commit,
        )
        answer = self._ask(request, TRANSACTION, self.transactional_id, lambda answer: [answer.error_code])
        self._check([answer.error_code], "the transaction cannot be " + ("committed" if commit else "aborted"))
        if answer.producer_id >= 0:
            self._identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
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

    def _note_begin(self) -> None:
        if self._deadline is None:
            self._deadline = Deadline(self._clock, self.timeout_s)

    def _check(self, codes: Iterable[int], context: str) -> None:
        for code in codes:
            if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED):
                raise self.explained(error_of(code, context))

    def _ask(
        self,
        request: Message,
        key_type: int,
        key: str,
        codes: Callable[[Any], Collection[int]],
        version_max: int | None = None,
    ) -> Any:
        return ask_coordinator(self._client, request, key, key_type, codes, version_max=version_max)


def _partition_codes(answer: Any) -> list[int]:
    return [
        item.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for item in topic.results_by_partition
    ]


def _offset_codes(answer: Any) -> list[int]:
    return [item.error_code for topic in answer.topics for item in topic.partitions]


def _offset_topics(position: Position, metadata: str) -> list[TxnOffsetCommitRequestTopic]:
    by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for each, offset in position.items():
        item = TxnOffsetCommitRequestPartition(
            partition_index=each.partition, committed_offset=offset, committed_metadata=metadata
        )
        by_topic.setdefault(each.topic, []).append(item)
    return [TxnOffsetCommitRequestTopic(name=name, partitions=items) for name, items in by_topic.items()]
