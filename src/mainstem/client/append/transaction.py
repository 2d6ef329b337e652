"""``Transaction``: records in any topics and partitions, and offsets of groups, that count together or not at all.

    with log.transaction() as tx:
        tx.append("orders", order, key=order["id"])
        tx.commit_offsets("order-maker", reader.position)

The end of the block commits, an exception aborts. Until the commit no reader sees anything of it. Records are sent in
batches as they gather, so a transaction may be larger than memory; appending tells what is wrong with a record no later
than the commit. A transaction is used by one thread.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final
from uuid import UUID

from mainstem.client.records import EncodedRecord, HeadersLike, encoded, encoded_headers, traced
from mainstem.client.values import key_bytes, value_bytes
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.produce.producers import BatchStamps
from mainstem.client.wire.produce.transactions import TransactionalProducer
from mainstem.clock import Clock
from mainstem.errors import InputError, LogUnavailableError, MainstemError, RecordTooLargeError
from mainstem.model import Position, TopicPartition
from mainstem.record.partitioner import partition_for
from mainstem.record.writer import NewRecord, build_batch
from mainstem.tracing.spans import sending

_BATCH_BYTES: Final = 256 * 1024
_GATHERED_BYTES: Final = 4 * 1024 * 1024

Explaining = Callable[[str], AbstractContextManager[None]]
"""Says in a topic's terms what is wrong with what is appended to it."""


class TransactionSession:
    """A transactional producer over a client of its own; its transactions follow one another. Takes over ``client``."""

    def __init__(self, client: WireClient, clock: Clock, transactional_id: str, timeout_s: float) -> None:
        self.client = client
        self.clock = clock
        self.producer = TransactionalProducer(client, transactional_id, timeout_s=timeout_s, clock=clock)
        self.is_broken = False
        """Whether it cannot go on: a request's fate is unknown, or another has taken over."""
        self._is_ready = False
        self._stamps: BatchStamps | None = None

    def begin(self) -> None:
        """Be ready for a transaction. Raises ConfigError, LogUnavailableError, RemoteError."""
        if not self._is_ready:
            self.producer.init()
            self._is_ready = True

    def produce(self, tp: TopicPartition, rows: Sequence[NewRecord], topic_id: UUID | None = None) -> int:
        """Append to a partition in the transaction, of this topic alone; returns the offset after the last record."""
        self.producer.add([tp])
        stamps = self._stamps = self._stamps or BatchStamps(self.producer.identity, is_transactional=True)
        stamps.adopt(self.producer.identity)
        try:
            batch = build_batch(rows, producer=stamps.next_stamp(tp))
            with self.producer.explaining():
                base_offset = self.client.produce(
                    tp, batch, transactional_id=self.producer.transactional_id, topic_id=topic_id
                )
        except RecordTooLargeError:
            if len(rows) == 1:
                raise
            half = len(rows) // 2  # too many for one batch, though each may be small enough
            self.produce(tp, rows[:half], topic_id)
            return self.produce(tp, rows[half:], topic_id)
        stamps.advance(tp, len(rows))
        return base_offset + len(rows)

    def close(self) -> None:
        self.client.close()


class Transaction:
    """One transaction, a context manager; ``Log.transaction`` makes it. The module's docstring has the contract."""

    def __init__(
        self,
        borrow: Callable[[], TransactionSession],
        give_back: Callable[[TransactionSession], None],
        explaining: Explaining,
    ) -> None:
        self._borrow = borrow
        self._give_back = give_back
        self._explaining = explaining
        self._session: TransactionSession | None = None
        self._gathered: dict[TopicPartition, list[NewRecord]] = {}
        self._gathered_bytes: dict[TopicPartition, int] = {}
        self._next_offsets: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, UUID] = {}
        """The topics that records were placed in: a recreated one may have another number of partitions."""
        self._keyless = random.random()
        self._position: Position | None = None
        self._unsent: BaseException | None = None
        """Why a batch was not acknowledged: then there is nothing to commit."""

    @property
    def position(self) -> Position:
        """The position just after what it has appended. Raises InputError before it is committed."""
        if self._position is None:
            raise InputError("a transaction has its position when it is committed: ask after the block")
        return self._position

    def append(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        headers: HeadersLike = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Append one record, as ``Log.append`` does; it counts when the transaction commits.

        Raises UnknownTopicError, RecordTooLargeError, SchemaError, LogUnavailableError, and of transactions
        ProducerFencedError and TransactionTimeoutError; each aborts the transaction when it leaves the block.
        """
        record = EncodedRecord(value_bytes(value), key_bytes(key), encoded_headers(headers), partition, timestamp_ms)
        self._append(topic, [record])

    def append_many(self, topic: str, records: Iterable[Any]) -> None:
        """Append records, as ``Log.append_many`` takes them. Raises what ``append`` raises."""
        self._append(topic, map(encoded, records))

    def commit_offsets(self, group: str, position: Position, *, metadata: str = "") -> None:
        """Commit ``position`` as where ``group`` goes on: it counts when the transaction commits.

        The group's members are not asked: use a group of your own. ``metadata`` is kept with each offset (at most
        ``offset.metadata.max.bytes``). Raises what ``append`` raises.
        """
        self._open().producer.commit_offsets(group, position, metadata)

    def _append(self, topic: str, records: Iterable[EncodedRecord]) -> None:
        session = self._open()
        with sending(topic, "create") as span, self._explaining(topic):
            count, now_ms = session.client.partition_count(topic), session.clock.time_ms()
            self._topic_ids.setdefault(topic, session.client.topics[topic].topic_id)
            for record in traced(records, span):
                number = record.partition
                if number is None:
                    number = int(self._keyless * count) if record.key is None else partition_for(record.key, count)
                timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
                row = NewRecord(record.key, record.value, record.headers, timestamp_ms)
                self._gather(TopicPartition(topic, number), row, record.size_bytes)
        if sum(self._gathered_bytes.values()) >= _GATHERED_BYTES:
            self._send_all()

    def _gather(self, tp: TopicPartition, row: NewRecord, size_bytes: int) -> None:
        self._gathered.setdefault(tp, []).append(row)
        self._gathered_bytes[tp] = self._gathered_bytes.get(tp, 0) + size_bytes
        if self._gathered_bytes[tp] >= _BATCH_BYTES:
            self._send(tp)

    def _send_all(self) -> None:
        self._open().producer.add(self._gathered.keys())
        for tp in list(self._gathered):
            with self._explaining(tp.topic):
                self._send(tp)

    def _send(self, tp: TopicPartition) -> None:
        del self._gathered_bytes[tp]
        try:
            self._next_offsets[tp] = self._open().produce(tp, self._gathered.pop(tp), self._topic_ids[tp.topic])
        except BaseException as error:
            self._unsent = error
            raise

    def _open(self) -> TransactionSession:
        if self._session is None:
            raise InputError("a transaction is used inside of its block: with log.transaction() as tx: …")
        return self._session

    def __enter__(self) -> Transaction:
        if self._session is not None or self._position is not None:
            raise InputError("a transaction is used once; ask the log for another")
        session = self._borrow()
        try:
            session.begin()
        except BaseException:
            session.close()
            raise
        self._session = session
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session = self._open()
        try:
            if error is None and self._unsent is not None:
                self._unsent.add_note("the block caught this, and the transaction is aborted for it")
                self._abort(session, self._unsent)
                raise self._unsent
            if error is None:
                self._commit(session)
            else:
                self._abort(session, error)
        except BaseException:
            session.is_broken = True
            raise
        finally:
            self._session = None
            if session.is_broken:
                session.close()
            else:
                self._give_back(session)

    def _commit(self, session: TransactionSession) -> None:
        try:
            self._send_all()
        except BaseException as error:
            self._abort(session, error)
            raise
        try:
            session.producer.end(commit=True)
        except LogUnavailableError as error:
            raise LogUnavailableError(f"{error}; it is unknown whether the transaction was committed") from error
        self._position = Position(self._next_offsets)

    def _abort(self, session: TransactionSession, error: BaseException) -> None:
        """Abort, as far as the log can be reached; if not, the time-out or the next instance does."""
        # What the block itself raises leaves the producer as it was; after anything else its state is not known.
        goes_on = self._unsent is None and isinstance(error, Exception) and not isinstance(error, MainstemError)
        session.is_broken = not goes_on
        try:
            session.producer.end(commit=False)
        except MainstemError as failed:
            session.is_broken = True
            error.add_note(f"the transaction could not be aborted, and ends with its time-out: {failed}")
