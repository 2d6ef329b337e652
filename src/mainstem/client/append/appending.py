"""How records get into the log: a few at once over a session of their own, many through librdkafka.

Both ways are idempotent with ``acks=all`` and partition alike. Errors are said in the topic's terms: how to create one
that is not there, and how large its records may be. librdkafka is loaded when it is first needed. Thread-safe.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from mainstem.client.append.append_options import AppendOptions, TopicFeatures, option_headers
from mainstem.client.append.session import AppendSession
from mainstem.client.append.transaction import Transaction, TransactionSession
from mainstem.client.records import EncodedRecord, traced
from mainstem.client.security import Security
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.topics import topic_configs
from mainstem.client.wire.connection.pool import Pool
from mainstem.clock import Clock
from mainstem.errors import (
    AuthorizationError,
    InvalidRecordError,
    LogUnavailableError,
    MainstemError,
    OutcomeUnknownError,
    RecordTooLargeError,
    RemoteError,
    UnknownTopicError,
)
from mainstem.model import Position
from mainstem.record.append_headers import IDEMPOTENCY_KEY
from mainstem.tracing.spans import sending

if TYPE_CHECKING:
    from mainstem.client.append.producer import BulkProducer

_AT_ONCE_RECORDS: Final = 500
_AT_ONCE_BYTES: Final = 256 * 1024
_SERVE_EVERY: Final = 1000
_MAX_MESSAGE_BYTES: Final = "max.message.bytes"
_MAX_MESSAGE_BYTES_DEFAULT: Final = 1_048_588


class ClientSettings(NamedTuple):
    """How a client reaches the log, and as whom; ``timeout_s`` is how long it waits for the log."""

    bootstrap: str
    client_id: str
    timeout_s: float
    security: Security


class Appender:
    """Appends to the log that ``settings`` names."""

    def __init__(self, settings: ClientSettings, make_client: Callable[[], WireClient], clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._sessions = Pool(lambda: AppendSession(make_client(), clock))
        self._clients = Pool(make_client)
        self._features = TopicFeatures(make_client, clock)
        self._make_client = make_client
        self._transactions: dict[float, list[TransactionSession]] = {}
        self._lock = threading.Lock()
        self._is_closed = False
        self._producers: dict[int, BulkProducer] = {}
        self._limits_bytes: dict[str, int] = {}

    def append(self, topic: str, records: Iterator[EncodedRecord]) -> Position:
        """Append records by the way that suits their number; returns the position just after all of them."""
        head, size_bytes = [], 0
        for record in records:
            head.append(record)
            size_bytes += record.size_bytes
            if len(head) >= _AT_ONCE_RECORDS or size_bytes >= _AT_ONCE_BYTES:
                return self.append_in_bulk(topic, itertools.chain(head, records))
        return self.append_at_once(topic, head)

    def append_at_once(self, topic: str, records: Iterable[EncodedRecord], topic_id: UUID | None = None) -> Position:
        """Append a few records, with the least latency; with ``topic_id`` only to the topic with this id."""
        with sending(topic) as span, self._explaining(topic), self._sessions.borrow() as session:
            position = session.append(topic, traced(records, span), topic_id)
            if span is not None:
                span.landed(position)
            return position

    def append_with_options(self, topic: str, record: EncodedRecord, options: AppendOptions) -> Position:
        """Append one record under conditions, or with an idempotency key: ``options`` names them.

        With a key no outcome is unknown for long: to append again is to ask what became of it.
        Raises ConditionFailedError, UnsupportedFeatureError, InputError, and what an append raises.
        """
        headers, topic_id = option_headers(options), options.get("expect_topic_id")
        if not headers:
            return self.append_at_once(topic, [record], topic_id)
        with self._explaining(topic):
            self._features.check(topic, options)
        key = dict(headers).get(IDEMPOTENCY_KEY)
        # By its idempotency key a retry selects the same partition.
        with_headers = replace(record, headers=(*record.headers, *headers), placed_by=key)
        try:
            return self.append_at_once(topic, [with_headers], topic_id)
        except OutcomeUnknownError as error:
            if key is None:
                raise
            raise LogUnavailableError(f"{error}; append again with the same idempotency key") from error
        except InvalidRecordError:
            self._features.forget(topic)
            raise

    def append_in_bulk(self, topic: str, records: Iterable[EncodedRecord]) -> Position:
        """Append many records, in few batches; memory is bounded."""
        from mainstem.client.append.producer import Appended

        with sending(topic) as span, self._explaining(topic):
            producer, appended = self._producer(self._limit_bytes(topic)), Appended()
            try:
                for number, record in enumerate(traced(records, span), 1):
                    producer.send(topic, record, appended)
                    if number % _SERVE_EVERY == 0:
                        producer.serve()
                        if appended.error is not None:
                            break
                position = producer.wait(appended, topic)
            except MainstemError as error:
                self._drop_broken(producer)
                if isinstance(error, LogUnavailableError):  # librdkafka does not tell what it had sent
                    raise OutcomeUnknownError(f"it is not known which records were appended: {error}") from error
                raise
            if span is not None:
                span.landed(position)
            return position

    def transaction(self, transactional_id: str | None, timeout_s: float) -> Transaction:
        """A transaction that has not begun. Without an id it uses a generated, unique one, also for the next."""

        def borrow() -> TransactionSession:
            with self._lock:
                if self._is_closed:
                    raise LogUnavailableError("the client is closed")
                idle = self._transactions.get(timeout_s) if transactional_id is None else None
                if idle:
                    return idle.pop()
            name = transactional_id or f"{self._settings.client_id}-{uuid.uuid4()}"
            return TransactionSession(self._make_client(), self._clock, name, timeout_s)

        def give_back(session: TransactionSession) -> None:
            with self._lock:
                if transactional_id is None and not self._is_closed:
                    self._transactions.setdefault(timeout_s, []).append(session)
                    return
            session.close()

        return Transaction(borrow, give_back, self._explaining)

    def forget(self, topic: str) -> None:
        """Forget what was known of a topic, as it is being deleted."""
        self._limits_bytes.pop(topic, None)
        self._features.forget(topic)

    def close(self) -> None:
        """Deliver what was sent, then disconnect. Raises LogUnavailableError when something was not delivered."""
        with self._lock:
            self._is_closed = True
            producers, self._producers = list(self._producers.values()), {}
            transactions, self._transactions = list(self._transactions.values()), {}
        self._sessions.close()
        self._clients.close()
        self._features.close()
        for session in itertools.chain.from_iterable(transactions):
            session.close()
        for producer in producers:
            producer.close(self._settings.timeout_s)

    @contextmanager
    def _explaining(self, topic: str) -> Iterator[None]:
        try:
            yield
        except RecordTooLargeError as error:
            limit = f"whose {_MAX_MESSAGE_BYTES} is {self._limit_bytes(topic)}"
            raise RecordTooLargeError(f"the record is too large for topic {topic!r}, {limit}") from error
        except UnknownTopicError as error:
            self.forget(topic)
            if self._exists(topic):
                raise
            raise UnknownTopicError(
                f"there is no topic {topic!r}; create it: log.create_topic({topic!r}), "
                f"or: mainstem topics create {topic}"
            ) from error

    def _exists(self, topic: str) -> bool:
        with self._clients.borrow() as client:
            return topic in client.metadata([topic])

    def _limit_bytes(self, topic: str) -> int:
        """The topic's ``max.message.bytes``, looked up once. Raises UnknownTopicError."""
        limit = self._limits_bytes.get(topic)
        if limit is None:
            with self._clients.borrow() as client:
                client.partition_count(topic)
                try:
                    text = topic_configs(client, topic, [_MAX_MESSAGE_BYTES]).get(_MAX_MESSAGE_BYTES)
                except (
                    RemoteError,
                    AuthorizationError,
                ):  # a user that may write may not be allowed to describe: then use the default
                    text = None
            limit = self._limits_bytes[topic] = int(text) if text else _MAX_MESSAGE_BYTES_DEFAULT
        return limit

    def _producer(self, limit_bytes: int) -> BulkProducer:
        from mainstem.client.append.producer import BATCH_BYTES_MAX, BulkProducer, ProducerOptions

        batch_bytes = min(limit_bytes, BATCH_BYTES_MAX)
        with self._lock:
            if self._is_closed:
                raise LogUnavailableError("the client is closed")
            producer = self._producers.get(batch_bytes)
            if producer is None:
                options = ProducerOptions(*self._settings)
                producer = self._producers[batch_bytes] = BulkProducer(options, self._clock, batch_bytes)
            return producer

    def _drop_broken(self, producer: BulkProducer) -> None:
        with self._lock:
            if producer.is_broken:
                self._producers = {size: kept for size, kept in self._producers.items() if kept is not producer}
