"""``Worker``: answer the requests of a topic (``client.http.request_reply``), each exactly once.

    def price(request: ms.Record) -> object:
        return {"price": 17}

    with ms.Worker(log, "quotes", price) as worker:
        worker.run()

The steps of one round:

1. Read requests in the consumer group; workers of one group share the topic's partitions.
2. Call the function for each. The reply's value is what it returns (as ``Log.append`` takes values), or a
   ``client.records.NewRecord`` with headers of its own. An error that it raises becomes the header ``mainstem-error``.
3. In one transaction: the replies, and the group's offsets after the requests.

If a round ends before its transaction commits, the next worker of the partition repeats it: the function may be called
twice for one request, but only one reply counts. A round that fails is aborted and repeated with a new producer. The
reason: if a record is in flight at an abort, librdkafka gives its sequence to the next record, and the log would treat
that as a repeat. Records without the two headers, or with a reply topic that does not belong to this topic, are not
requests and are skipped.

``run`` is for one thread; ``stop`` is for any.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from mainstem.client.append.librdkafka import LIBRDKAFKA_LOG
from mainstem.client.failures import error_of
from mainstem.client.http.request_reply import CORRELATION_ID, ERROR, REPLY_TOPIC, error_text, reply_topic_of
from mainstem.client.records import EncodedRecord, NewRecord, encoded
from mainstem.errors import RecordTooLargeError
from mainstem.model import Record
from mainstem.tracing.spans import current_trace, processing, with_trace

if TYPE_CHECKING:
    from mainstem.client.log import Log

Answering = Callable[[Record], Any]
"""From a request to the reply's value."""

_ROUND_RECORDS: Final = 100
_REPLY_BYTES_MAX: Final = 1_000_000
_FAILURES_MAX: Final = 5
"""So many rounds may fail one after the other, as they do while the log restarts, before it is said."""
_POLL_S: Final = 0.1
_COMMIT_S: Final = 60.0
_ABORT_S: Final = 10.0
_TAKEN_OVER_MS: Final = 10_000
"""After a worker is killed: the time until the log ends its transaction and another worker gets its requests."""


class Worker:
    """One worker, a context manager that closes it. The module's docstring has the contract."""

    def __init__(self, log: Log, topic: str, function: Answering, *, group: str | None = None) -> None:
        """Join nothing yet: ``run`` does.

        Args:
            log: The log, whose address and security the worker's own connections use.
            topic: The topic of the requests.
            function: Gets each request as a record; returns the reply's value, as ``Log.append`` takes values, or a
                ``client.records.NewRecord`` with headers of its own. It may be called twice for one request.
            group: The consumer group whose workers share the requests; ``mainstem-worker-TOPIC`` unless given.

        Raises:
            InputError: The topic is one of the log's own, or its name is too long for a topic of replies.
        """
        self.topic = topic
        self.group = group or f"mainstem-worker-{topic}"
        self._reply_topic = reply_topic_of(topic)
        self._function = function
        self._stopping = threading.Event()
        common: dict[str, Any] = {
            "bootstrap.servers": log.bootstrap,
            **log.security.to_librdkafka(),
            "socket.nagle.disable": True,
            # With the default, librdkafka 2.16 creates a new broker object after a disconnect. A transaction's offsets
            # then wait for the old object for ever, because the cache of coordinators still refers to it.
            "metadata.recovery.strategy": "none",
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 1000,
        }
        self._consumer = Consumer(
            {
                **common,
                "group.id": self.group,
                "session.timeout.ms": _TAKEN_OVER_MS,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 500,
            },
            logger=LIBRDKAFKA_LOG,
        )
        self._producer_options: dict[str, Any] = {
            **common,
            "transactional.id": f"{self.group}-{uuid.uuid4()}",
            "transaction.timeout.ms": _TAKEN_OVER_MS,
            "linger.ms": 0,
            "partitioner": "murmur2_random",
        }
        self._producer: Producer | None = None
        self._failures = 0

    def run(self) -> None:
        """Answer requests until ``stop`` is called.

        Raises:
            UnknownTopicError: The topic of the requests, or that of the replies, does not exist.
            AuthorizationError: This user may not read, write or join the group.
            LogUnavailableError: Five rounds failed one after the other.
        """
        self._consumer.subscribe([self.topic])
        while not self._stopping.is_set():
            messages = self._poll()
            if messages:
                self._round(messages)

    def stop(self) -> None:
        """Let ``run`` end after the round that it is in."""
        self._stopping.set()

    def close(self) -> None:
        """Leave the group; the other workers get the requests that are not committed."""
        self.stop()
        self._consumer.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _poll(self) -> list[Message]:
        """The requests that are there; waits a moment for the first."""
        first = self._consumer.poll(_POLL_S)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(_ROUND_RECORDS - 1, 0)]
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._MAX_POLL_EXCEEDED:  # then it joins again by itself
                found = error_of(error.code(), f"requests of {self.topic!r} cannot be read", error.str())
                if not found.retriable:
                    raise found
        return [message for message in messages if message.error() is None]

    def _round(self, messages: Sequence[Message]) -> None:
        replies = [self._reply(message) for message in messages if self._is_request(message)]
        try:
            producer = self._ready_producer()
            producer.begin_transaction()
            for reply in replies:
                producer.produce(self._reply_topic, reply.value, reply.key, headers=list(reply.headers))
                producer.poll(0)
            producer.send_offsets_to_transaction(
                _offsets(messages), self._consumer.consumer_group_metadata(), _COMMIT_S
            )
            self._commit(producer)
            self._failures = 0
        except KafkaException as failure:
            self._give_up_round(failure.args[0], messages)

    def _ready_producer(self) -> Producer:
        if self._producer is None:
            producer = Producer(self._producer_options, logger=LIBRDKAFKA_LOG)
            producer.init_transactions(_COMMIT_S)
            self._producer = producer
        return self._producer

    def _commit(self, producer: Producer) -> None:
        while True:
            try:
                producer.commit_transaction(_COMMIT_S)
                return
            except KafkaException as failure:
                if not failure.args[0].retriable() or self._stopping.is_set():
                    raise

    def _give_up_round(self, error: KafkaError, messages: Sequence[Message]) -> None:
        """Nothing of the round counts. Do it again if that may help, else raise what happened."""
        producer, self._producer = self._producer, None
        self._failures += 1
        may_heal = error.retriable() or error.fatal() or error.txn_requires_abort()
        if producer is not None and not error.fatal():
            self._abort(producer)
        if not may_heal or self._failures > _FAILURES_MAX:
            raise error_of(error.code(), f"requests of {self.topic!r} cannot be answered", error.str())
        for start in _starts(messages):
            self._go_back(start)

    def _abort(self, producer: Producer) -> None:
        """End the round's transaction, if it has begun: until then it delays the readers of replies."""
        try:
            producer.abort_transaction(_ABORT_S)
        except KafkaException:
            return  # the log is away, or has ended it; if not, the next producer does, or its time-out

    def _go_back(self, start: TopicPartition) -> None:
        """Read a partition from there again, unless it is another worker's by now."""
        try:
            self._consumer.seek(start)
        except KafkaException as failure:
            held = {(each.topic, each.partition) for each in self._consumer.assignment()}
            if (start.topic, start.partition) in held:  # its requests would be passed over
                error = failure.args[0]
                raise error_of(
                    error.code(), f"requests of {self.topic!r} cannot be read again", error.str()
                ) from failure

    def _is_request(self, message: Message) -> bool:
        """Whether it asks for a reply into the topic that belongs to ours: clients cannot choose another."""
        headers = _headers(message)
        return bool(headers.get(CORRELATION_ID)) and headers.get(REPLY_TOPIC) == self._reply_topic.encode()

    def _reply(self, message: Message) -> EncodedRecord:
        correlation = _headers(message)[CORRELATION_ID] or b""
        with processing(record := _record(message), group=self.group) as span:
            try:
                reply = self._answer(record)
            except Exception as error:  # noqa: BLE001  # whatever it is, the asker is to hear of it
                reply = EncodedRecord(None, None, ((ERROR, error_text(error).encode()),))
                if span is not None:
                    span.record_exception(error)
            copied = tuple(pair for pair in reply.headers if pair[0] != CORRELATION_ID)
            headers = with_trace(copied, current_trace())
        return EncodedRecord(reply.value, correlation, (*headers, (CORRELATION_ID, correlation)))

    def _answer(self, request: Record) -> EncodedRecord:
        answer = self._function(request)
        reply = encoded(answer if isinstance(answer, NewRecord) else NewRecord(answer))
        if reply.size_bytes > _REPLY_BYTES_MAX:
            raise RecordTooLargeError(f"the reply has {reply.size_bytes} bytes, {_REPLY_BYTES_MAX} are allowed")
        return reply


def _headers(message: Message) -> dict[str, bytes | None]:
    return dict(_pairs(message))


def _pairs(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    found: Any = message.headers() or ()
    pairs = found.items() if isinstance(found, dict) else found
    return tuple((str(name), value.encode() if isinstance(value, str) else value) for name, value in pairs)


def _place(message: Message) -> tuple[str, int, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise AssertionError("a record that was read has its place")
    return topic, partition, offset


def _record(message: Message) -> Record:
    topic, partition, offset = _place(message)
    key: Any = message.key()
    value: Any = message.value()
    return Record(topic, partition, offset, message.timestamp()[1], key, value, _pairs(message))


def _offsets(messages: Sequence[Message]) -> list[TopicPartition]:
    """Where the group goes on after these requests."""
    ends: dict[tuple[str, int], int] = {}
    for topic, partition, offset in map(_place, messages):
        ends[topic, partition] = max(offset + 1, ends.get((topic, partition), 0))
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]


def _starts(messages: Sequence[Message]) -> list[TopicPartition]:
    starts: dict[tuple[str, int], int] = {}
    for topic, partition, offset in map(_place, messages):
        starts[topic, partition] = min(offset, starts.get((topic, partition), offset))
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in starts.items()]
