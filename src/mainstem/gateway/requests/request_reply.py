"""Request and reply: append a request, find its state. All state is in the log.

The steps of a request, the same before and after a restart of the gateway:

1. The reply topic exists (created at the topic's first request: one partition, a key index if the log supports it).
2. The request is appended, with its correlation id and reply topic as headers.
3. A worker appends a record with the correlation id as its key to the reply topic.
4. A waiting client gets the reply from the topic's follower; a later request finds it by its key.

``GET /requests/{id}`` returns the reply, if there is one; else it reads the request's record. The request is unknown
when no record with its correlation id is at its offset. It is expired when retention removed it, or when it is older
than the retention of the reply topic. A request after an open transaction cannot be read yet, and counts as pending.

Blocking; safe from any thread.
"""

from __future__ import annotations

import threading
from typing import Any, Final, NamedTuple

from mainstem.client.append.append_options import AppendOptions, option_headers
from mainstem.client.http.request_reply import (
    CORRELATION_ID,
    REPLY_TOPIC,
    RequestId,
    correlation_id,
    fresh_secret,
    repeatable_secret,
    reply_topic_of,
    unknown_request,
)
from mainstem.client.log import Log
from mainstem.clock import Clock, SystemClock
from mainstem.errors import ConfigError, InputError, OffsetOutOfRangeError, RequestExpiredError, UnknownTopicError
from mainstem.gateway.http.record_bodies import RequestBody
from mainstem.model import Position, Record, TopicPartition

REPLY_RETENTION_MS: Final = 86_400_000
_KEY_INDEX: Final = {"mainstem.key.index": "true"}
_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": str(REPLY_RETENTION_MS)}
_RETENTION_KNOWN_FOR_S: Final = 60.0


class PreparedRequest(NamedTuple):
    """A request that is ready to be appended."""

    secret: bytes
    reply_topic: str
    reply_from: int
    options: AppendOptions

    @property
    def correlation_id(self) -> str:
        """The text that names it in the log."""
        return correlation_id(self.secret)


class Requests:
    """Requests in a log, and their replies."""

    def __init__(self, log: Log, clock: Clock | None = None) -> None:
        self._log = log
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._retention: dict[str, tuple[int, float]] = {}

    def prepare(self, topic: str, body: RequestBody, options: AppendOptions) -> PreparedRequest:
        """Make sure of the topics. Raises UnknownTopicError, InputError for a topic that takes no requests."""
        reserved = {CORRELATION_ID, REPLY_TOPIC} & set(body.headers)
        if reserved:
            raise InputError(f"the header {min(reserved)} is set by the gateway: leave it out")
        reply_topic = reply_topic_of(topic)
        self._log.end(topic)  # raises UnknownTopicError
        option_headers(options)  # refuses an idempotency key that is too long
        key = options.get("idempotency_key")
        reply_from = self._floor(reply_topic)
        if key is None:
            return PreparedRequest(fresh_secret(), reply_topic, reply_from, options)
        # A repeat gets the first request's reply, however old, so the secret is derived from the key. The log stores
        # only a hash of the key: a reader of the log must not be able to ask for the reply.
        # Both use the same parts: a request that the log treats as a repeat has the first one's correlation id.
        parts = (topic, str(key), repr(body.key))
        secret = repeatable_secret("secret", *parts)
        hashed = repeatable_secret("idempotency key", *parts).hex()
        return PreparedRequest(secret, reply_topic, 0, {**options, "idempotency_key": hashed})

    def append(self, topic: str, body: RequestBody, prepared: PreparedRequest) -> tuple[RequestId, Position]:
        """Append the request; its id, and the position just after it. Raises what an append raises."""
        headers = {
            **body.headers,
            CORRELATION_ID: prepared.correlation_id,
            REPLY_TOPIC: prepared.reply_topic,
        }
        position = self._log.append(topic, body.value, key=body.key, headers=headers, **prepared.options)
        [(tp, next_offset)] = position.items()
        return RequestId(prepared.secret, topic, tp.partition, next_offset - 1, prepared.reply_from), position

    def reply(self, request: RequestId) -> Record | None:
        """The reply, if it is in the log."""
        topic = reply_topic_of(request.topic)
        try:
            beginning, end = self._log.beginning(topic), self._log.end(topic)
        except UnknownTopicError:
            return None
        for tp, end_offset in end.items():
            start = beginning.get(tp, 0)
            if request.reply_from <= end_offset:  # else the topic was recreated since
                start = max(start, request.reply_from)
            found = self._first(tp, start, request.correlation_id)
            if found is not None:
                return found
        return None

    def pending(self, request: RequestId) -> Position:
        """The position just after a request that has no reply. Raises UnknownRequestError, RequestExpiredError."""
        tp = request.topic_partition
        try:
            beginning, end = self._log.beginning(request.topic), self._log.end(request.topic)
        except UnknownTopicError:
            raise unknown_request() from None
        if request.offset >= end.get(tp, 0):
            raise unknown_request()
        if request.offset < beginning.get(tp, 0):
            raise RequestExpiredError(f"retention has removed the request at {tp}:{request.offset}")
        here, after = Position({tp: request.offset}), Position({tp: request.offset + 1})
        try:
            record = next(self._log.read(request.topic, start=here, end=after), None)
        except OffsetOutOfRangeError:  # an open transaction is before it
            return after
        if record is None or (CORRELATION_ID, request.correlation_id.encode()) not in record.headers:
            raise unknown_request()
        retention_ms = self._retention_ms(reply_topic_of(request.topic))
        if 0 <= retention_ms < self._clock.time_ms() - record.timestamp_ms:
            raise RequestExpiredError(f"no reply within {retention_ms} ms, which is how long replies are kept")
        return record.position

    def _first(self, tp: TopicPartition, start: int, key: str) -> Record | None:
        try:
            reader = self._log.read_key(tp.topic, key, start=Position({tp: start}), partition=tp.partition, limit=1)
            return next(reader, None)
        except OffsetOutOfRangeError:  # an open transaction is before it: there is nothing to see yet
            return None

    def _floor(self, reply_topic: str) -> int:
        """An offset that no reply to a coming request is before; makes the topic if need be."""
        try:
            return min(self._log.end(reply_topic).values())
        except UnknownTopicError:
            self._create(reply_topic)
            return 0

    def _create(self, reply_topic: str) -> None:
        try:
            self._log.create_topic(reply_topic, partitions=1, configs={**_CONFIGS, **_KEY_INDEX}, exist_ok=True)
        except ConfigError:  # not a Mainstem: replies are found by reading the topic
            self._log.create_topic(reply_topic, partitions=1, configs=_CONFIGS, exist_ok=True)

    def _retention_ms(self, topic: str) -> int:
        """How long replies are kept, as of a minute ago; -1 without end."""
        with self._lock:
            known, until_s = self._retention.get(topic, (-1, 0.0))
        if self._clock.monotonic_s() < until_s:
            return known
        try:
            configs: Any = self._log.describe_topic(topic).configs
        except UnknownTopicError:
            configs = {}
        known = int(configs.get("retention.ms") or -1)
        with self._lock:
            self._retention[topic] = known, self._clock.monotonic_s() + _RETENTION_KNOWN_FOR_S
        return known
