"""``WireClient``: a small synchronous client of any Kafka-protocol log, for raw fetches and raw record batches.

* Connections open when they are first needed, one to each broker. Versions are agreed on for each connection.
* Metadata is requested when needed, and cached; an answer that shows that it is stale refreshes it.
* Transient errors (a broker restarts, a leader moves) are retried, with growing pauses, until ``timeout_s`` is over;
  then LogUnavailableError is raised, which names the last error code. Permanent errors are raised at once.
* A request for a topic never creates it.

Concurrency: calls take turns, so one thread should own a client. ``close`` may be called from any thread at any time,
and ends waiting calls with LogUnavailableError.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from mainstem.addresses import Address, parse_bootstrap
from mainstem.client.failures import error_of, heals
from mainstem.client.security import Security
from mainstem.client.wire.cluster.fetching import FetchedPartition, FetchLimits, asked_in, fetch_request, read_response
from mainstem.client.wire.cluster.listed_offsets import list_offsets_request, listed_offsets, parts
from mainstem.client.wire.cluster.metadata import NO_LEADER, ClusterMetadata, TopicMetadata, recreated_topic
from mainstem.client.wire.cluster.producing import produce_request
from mainstem.client.wire.connection.connection import BrokerConnection, ConnectionOptions, ReceiveBuffer, exchanges
from mainstem.client.wire.connection.connections import Connections
from mainstem.client.wire.connection.deadline import Deadline, pauses_s
from mainstem.client.wire.connection.transport import Dial, NotConnectedError, dial_plain
from mainstem.clock import Clock, SystemClock
from mainstem.errors import InputError, LogUnavailableError, MainstemError, RemoteError, UnknownTopicError
from mainstem.model import TopicPartition, topic_was_recreated
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.fetch import FetchRequest
from mainstem.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from mainstem.protocol.schema import Buffer, Message
from mainstem.record.header import read_header

T = TypeVar("T")

LATEST: Final = -1
"""The end of a partition: its high watermark, or its last stable offset when reading what is committed."""
EARLIEST: Final = -2
"""The log start offset."""
_CLOSE_TIMEOUT_S: Final = 1.0
_AT_ONCE_MAX: Final = 50
_PARTITION_COUNT_S: Final = 60.0
_SEVERAL_LEADERS_WAIT_MS: Final = 50


class Isolation(IntEnum):
    """Whether a reader sees the records of transactions that are still open."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


def _options(client_id: str, dial: Dial | None, security: Security | None, clock: Clock) -> ConnectionOptions:
    """Raises ConfigError for a file of the security options that cannot be used."""
    security = security or Security.from_environment()
    if dial is None:
        dial = dial_plain
        if security.has_tls:
            from mainstem.client.wire.connection.tls import dial_tls

            dial = dial_tls(security.tls_context())
    return ConnectionOptions(client_id=client_id, dial=dial, security=security, clock=clock)


class _MayHealError(Exception):
    """An attempt failed in a way that may heal. Never leaves this module."""

    def __init__(self, error: MainstemError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class ProduceFlight:
    """A Produce request on its way to one leader, and what of it is not acknowledged yet."""

    connection: BrokerConnection | None
    """None when it could not be sent, and when its answer is there."""
    batches: dict[TopicPartition, bytes]
    topic_ids: dict[str, UUID]

    def partition_of(self, topic: Any, number: int) -> TopicPartition:
        """The partition that a part of the answer is about: by its topic's name, or by its id."""
        name = topic.name or next(name for name, topic_id in self.topic_ids.items() if topic_id == topic.topic_id)
        return TopicPartition(name, number)


class WireClient:
    """A client of one cluster. The module's docstring has the contract."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        client_id: str = "mainstem",
        timeout_s: float = 30.0,
        reuse_buffers: bool = False,
        dial: Dial | None = None,
        clock: Clock | None = None,
        security: Security | None = None,
    ) -> None:
        """Opens no connection yet. Raises ConfigError when ``bootstrap`` is not a list of addresses.

        Without ``security`` the environment says how to log in. With ``reuse_buffers`` the records of a fetch are valid
        only until the next fetch, which reuses their memory.
        """
        self.timeout_s = timeout_s
        self._bootstrap = parse_bootstrap(bootstrap)
        self._clock = clock or SystemClock()
        self._connections = Connections(_options(client_id, dial, security, self._clock))
        self._cluster = ClusterMetadata()
        self._buffers: dict[Address, ReceiveBuffer] | None = {} if reuse_buffers else None
        self._counted_until_s: dict[str, float] = {}
        self._closed = threading.Event()
        self._in_use = threading.Lock()

    # ---- what the cluster is

    def metadata(
        self,
        topics: Iterable[str] | None = None,
        *,
        wait: bool = False,
        topic_ids: Mapping[str, UUID] | None = None,
    ) -> dict[str, TopicMetadata]:
        """The named topics, or all of them, freshly asked for. One that does not exist is not in the answer.

        With ``wait``: wait until all named topics exist, those of ``topic_ids`` with these ids, and each of their
        partitions has a leader (brokers learn of a new topic late); UnknownTopicError when not within ``timeout_s``.
        """
        names = None if topics is None else frozenset(topics)
        if not wait or names is None:
            return self._retrying(lambda deadline: self._ask_metadata(names, deadline))
        return self._retrying(lambda deadline: self._complete(names, topic_ids or {}, deadline))

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has, as of a minute ago or later. Raises UnknownTopicError."""
        if topic not in self._cluster.topics or self._clock.monotonic_s() >= self._counted_until_s.get(topic, 0.0):
            if topic not in self.metadata([topic]):
                raise UnknownTopicError(f"there is no topic {topic!r}; mainstem topics list shows the topics")
            self._counted_until_s[topic] = self._clock.monotonic_s() + _PARTITION_COUNT_S
        return len(self._cluster.topics[topic].partitions)

    @property
    def bootstrap(self) -> str:
        """The addresses that the client was given."""
        return ",".join(map(str, self._bootstrap))

    @property
    def brokers(self) -> Mapping[int, Address]:
        """The brokers by id, as last known; empty before the first ``metadata``."""
        return self._cluster.brokers

    @property
    def topics(self) -> Mapping[str, TopicMetadata]:
        """The topics that were asked for, as last known: fetches use these ids and leaders."""
        return self._cluster.topics

    @property
    def cluster(self) -> ClusterMetadata:
        """The last known state of the cluster; empty before the first ``metadata``."""
        return self._cluster

    def version_of(self, message: type[Message]) -> int:
        """The highest version of a request that both sides know. Raises RemoteError when there is none."""
        return self._retrying(lambda deadline: self._connection(None, deadline).version_of(message))

    def features(self) -> Mapping[str, int]:
        """The cluster's finalized features and their levels (KIP-584), e.g. ``transaction.version``."""
        return self._retrying(lambda deadline: self._connection(None, deadline).features)

    # ---- reading

    def list_offsets(
        self,
        topic_partitions: Iterable[TopicPartition],
        at: int = LATEST,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int]:
        """The offset of each partition at EARLIEST, at LATEST, or of its first record at or after a time in ms.

        A partition that has no record at or after that time is not in the answer. Raises UnknownTopicError.
        """
        asked = list(dict.fromkeys(topic_partitions))
        [found] = self._retrying(lambda deadline: self._list_offsets(asked, [at], isolation, deadline))
        return found

    def list_ends(self, topic_partitions: Iterable[TopicPartition]) -> list[dict[TopicPartition, int]]:
        """Two maps: the offset of each partition at EARLIEST, and at LATEST. Raises UnknownTopicError."""
        asked = list(dict.fromkeys(topic_partitions))
        uncommitted = Isolation.READ_UNCOMMITTED
        return self._retrying(lambda deadline: self._list_offsets(asked, [EARLIEST, LATEST], uncommitted, deadline))

    def fetch(
        self,
        offsets: Mapping[TopicPartition, int],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 8 * 1024 * 1024,
        read_committed: bool = True,
    ) -> dict[TopicPartition, FetchedPartition]:
        """Record batches from each of the partitions, from the given offset on; waits as Kafka's Fetch does.

        Of partitions on several brokers it waits shortly at most: one broker's records must not wait for another's.

        Every partition is in the answer; what is wrong with one is its ``error`` (OffsetOutOfRangeError, …) and does
        not touch the others. Only when nothing can be had from any partition is it tried again, until ``timeout_s``.
        Raises UnknownTopicError for a partition that does not exist, LogUnavailableError.
        """
        if not offsets:
            return {}
        limits = FetchLimits(max_wait_ms, min_bytes, max_bytes, partition_max_bytes, read_committed)
        timeout_s = self.timeout_s + max_wait_ms / 1000
        return self._retrying(lambda deadline: self._fetch(offsets, limits, deadline), timeout_s=timeout_s)

    # ---- writing

    def produce(
        self,
        topic_partition: TopicPartition,
        batch: Buffer,
        *,
        acks: int = -1,
        transactional_id: str | None = None,
        topic_id: UUID | None = None,
    ) -> int:
        """Append record batches as they are; returns the offset of the first record once it is durable.

        A batch that carries a producer's stamp is sent again when its answer got lost; one without is not, because it
        could then be in the log twice: after a LogUnavailableError it is there once or not at all. ``topic_id``: the
        topic that it is for; another one of the same name is refused.
        Raises RecordTooLargeError, ProducerError, UnknownTopicError, CorruptBatchError, RemoteError; the last one also
        for a transient error code when the time is over: it shows that the log refused the batch.
        """
        if acks not in (-1, 1):
            raise InputError(f"acks={acks}: a position comes back only with acks=-1 (all) or 1")
        is_idempotent = read_header(batch).has_producer
        return self._retrying(
            lambda deadline: self._produce(topic_partition, batch, acks, transactional_id, topic_id, deadline),
            resends=is_idempotent,
            keeps_refusals=True,
        )

    def send_produce(
        self, batches: Mapping[TopicPartition, bytes], *, transactional_id: str | None = None
    ) -> list[ProduceFlight]:
        """Send a batch to each partition, in a request to each leader, without waiting and without trying again.

        What could not be sent has no ``connection``. Until all flights are received, in their order, the client is for
        nothing else. Raises UnknownTopicError.
        """
        with self._in_use:
            return self._send_produce(batches, transactional_id, Deadline(self._clock, self.timeout_s))

    def receive_produced(self, flight: ProduceFlight) -> tuple[dict[TopicPartition, int], int]:
        """The answer: the first offset of each batch that was appended, and for how many ms the log wants quiet.

        What is not in it was refused, or its answer got lost.
        """
        connection, flight.connection = flight.connection, None
        if connection is None or not connection.is_open:
            return {}, 0
        deadline = Deadline(self._clock, self.timeout_s)
        with self._in_use:
            try:
                answer = connection.receive(deadline)
            except MainstemError:
                return {}, 0
        offsets = {
            flight.partition_of(topic, result.index): int(result.base_offset)
            for topic in answer.responses
            for result in topic.partition_responses
            if result.error_code == ErrorCode.NONE
        }
        self._forget({tp.topic for tp in flight.batches if tp not in offsets})
        return offsets, int(answer.throttle_time_ms)

    # ---- anything else

    def request(
        self,
        body: Message,
        node: int | None = None,
        *,
        version_max: int | None = None,
        timeout_s: float | None = None,
        codes: Callable[[Any], Iterable[int]] | None = None,
        resends: bool = False,
        moves: bool = False,
    ) -> Any:
        """Send any request, to the broker with the id ``node`` or to any, in the highest version both sides know.

        Connecting is retried until ``timeout_s``. A request that may have reached the broker is sent again in two cases
        only: ``resends`` (the request is idempotent), or ``codes``, which returns the error codes of an answer, finds a
        transient one. The caller checks other codes. Raises LogUnavailableError, and RemoteError when the broker does
        not know the API. With ``moves`` (another broker can serve the request, too) it raises NotConnectedError at once
        when the broker cannot be connected to.
        """

        def attempt(deadline: Deadline) -> Any:
            answer = self._connection(node, deadline).exchange(body, deadline, version_max)
            for code in codes(answer) if codes else ():
                if heals(code):
                    raise _MayHealError(error_of(code, type(body).__name__))
            return answer

        return self._retrying(attempt, timeout_s=timeout_s, resends=resends, moves=moves)

    def request_all(self, requests: Sequence[tuple[Message, int]], *, version_max: int | None = None) -> list[Any]:
        """Send requests, each to the broker with its id, without waiting between them; the answers are in their order.

        All are sent again when one of them got lost, so they must be idempotent. Raises LogUnavailableError, and
        NotConnectedError at once when a broker cannot be connected to, because another one may serve the request.
        """
        answers: list[Any] = []
        for first in range(0, len(requests), _AT_ONCE_MAX):
            part = requests[first : first + _AT_ONCE_MAX]
            answers += self._retrying(partial(self._exchange_all, part, version_max), moves=True)
        return answers

    def close(self) -> None:
        """Close all connections; from any thread. What waits on one of them ends with LogUnavailableError."""
        self._closed.set()
        self._connections.abort()
        if self._in_use.acquire(timeout=_CLOSE_TIMEOUT_S):
            self._connections.close()
            self._in_use.release()

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- attempts: each is one try, and says by _MayHealError or LogUnavailableError that another may be worth it

    def _exchange_all(
        self, requests: Sequence[tuple[Message, int]], version_max: int | None, deadline: Deadline
    ) -> list[Any]:
        calls = ((self._connection(node, deadline), body) for body, node in requests)
        with closing(exchanges(calls, deadline, version_max, in_flight_max=len(requests))) as answers:
            return list(answers)

    def _ask_metadata(self, names: frozenset[str] | None, deadline: Deadline) -> dict[str, TopicMetadata]:
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in sorted(names)]
        connection = self._connection(None, deadline)
        answer = connection.exchange(MetadataRequest(topics=asked, allow_auto_topic_creation=False), deadline)
        self._cluster = self._cluster.learn(answer, names)
        topics = self._cluster.topics
        return {name: topics[name] for name in (topics if names is None else names) if name in topics}

    def _complete(
        self, names: frozenset[str], topic_ids: Mapping[str, UUID], deadline: Deadline
    ) -> dict[str, TopicMetadata]:
        found = self._ask_metadata(names, deadline)
        for name in names:
            if name not in found or topic_was_recreated(topic_ids.get(name), found[name].topic_id):
                raise _MayHealError(UnknownTopicError(f"there is no topic {name!r}"))
            for partition in found[name].partitions:
                self._leader(TopicPartition(name, partition))
        return found

    def _list_offsets(
        self, asked: list[TopicPartition], times: Sequence[int], isolation: Isolation, deadline: Deadline
    ) -> list[dict[TopicPartition, int]]:
        """The offsets at each of the times. A broker works on the next request while an answer is read."""
        by_leader = self._by_leader(asked, deadline)
        found: list[dict[TopicPartition, int]] = [{} for _ in times]
        todo = [
            (leader, list_offsets_request(part, at, int(isolation)), offsets)
            for leader, topic_partitions in by_leader.items()
            for at, offsets in zip(times, found, strict=True)
            for part in parts(topic_partitions)
        ]
        calls = ((self._connections.to(leader, deadline), request) for leader, request, _ in todo)
        with closing(exchanges(calls, deadline, in_flight_max=2)) as answers:
            for (_, _, offsets), answer in zip(todo, answers, strict=True):
                for tp, code, offset in listed_offsets(answer):
                    if code:
                        self._check(code, tp, f"{tp}: its offsets cannot be listed")
                    if offset >= 0:
                        offsets[tp] = offset
        return found

    def _fetch(
        self, offsets: Mapping[TopicPartition, int], limits: FetchLimits, deadline: Deadline
    ) -> dict[TopicPartition, FetchedPartition]:
        answers: dict[TopicPartition, FetchedPartition] = {}
        sent: list[tuple[BrokerConnection, FetchRequest]] = []
        try:
            by_leader = self._by_leader(offsets, deadline)
            if len(by_leader) > 1:
                limits = replace(limits, max_wait_ms=min(limits.max_wait_ms, _SEVERAL_LEADERS_WAIT_MS))
            for leader, topic_partitions in by_leader.items():
                part = {tp: offsets[tp] for tp in topic_partitions}
                request, version_max = fetch_request(part, self._cluster.topics, limits)
                try:
                    connection = self._connections.to(leader, deadline)
                    connection.send(request, deadline, version_max)
                    sent.append((connection, request))
                except LogUnavailableError as error:
                    answers.update(dict.fromkeys(part, FetchedPartition.failed(error, heals=True)))
            for connection, request in sent:
                try:
                    answers.update(read_response(connection.receive(deadline, self._buffer(connection)), request))
                except LogUnavailableError as error:
                    answers.update(dict.fromkeys(asked_in(request), FetchedPartition.failed(error, heals=True)))
        except BaseException:
            for connection, _ in sent:  # unread answers may be on their way
                connection.close()
            raise
        return self._judged(answers, deadline)

    def _judged(
        self, answers: dict[TopicPartition, FetchedPartition], deadline: Deadline
    ) -> dict[TopicPartition, FetchedPartition]:
        """The answers, unless all of them are errors that may heal; then _MayHealError."""
        healing = [tp for tp, fetched in answers.items() if fetched.heals]
        topic_ids = {tp.topic: self._cluster.topics[tp.topic].topic_id for tp in healing}
        self._forget(topic_ids)
        if any(isinstance(answers[tp].error, UnknownTopicError) for tp in healing):
            now = self._ask_metadata(frozenset(topic_ids), deadline)
            for tp in healing:
                if tp.topic not in now or topic_was_recreated(topic_ids[tp.topic], now[tp.topic].topic_id):
                    answers[tp] = FetchedPartition.failed(recreated_topic(tp.topic))
        if healing and all(fetched.heals for fetched in answers.values()):
            raise _MayHealError(answers[healing[0]].error or LogUnavailableError("no answer"))
        return answers

    def _buffer(self, connection: BrokerConnection) -> ReceiveBuffer | None:
        if self._buffers is None:
            return None
        return self._buffers.setdefault(connection.address, ReceiveBuffer())

    def _produce(
        self,
        tp: TopicPartition,
        batch: Buffer,
        acks: int,
        transactional_id: str | None,
        wanted_id: UUID | None,
        deadline: Deadline,
    ) -> int:
        [leader] = self._by_leader([tp], deadline)
        topics = self._cluster.topics
        if topic_was_recreated(wanted_id, topics[tp.topic].topic_id):
            raise recreated_topic(tp.topic)
        request, version_max = produce_request(
            {tp: batch}, topics, acks=acks, transactional_id=transactional_id, timeout_s=self.timeout_s
        )
        answer = self._connections.to(leader, deadline).exchange(request, deadline, version_max)
        result = answer.responses[0].partition_responses[0]
        details = [entry.batch_index_error_message for entry in result.record_errors]
        said = next((text for text in [*details, result.error_message] if text), None)
        self._check(result.error_code, tp, f"{tp} refuses the record batch", said)
        return int(result.base_offset)

    def _send_produce(
        self, batches: Mapping[TopicPartition, bytes], transactional_id: str | None, deadline: Deadline
    ) -> list[ProduceFlight]:
        try:
            by_leader = self._by_leader(batches, deadline)
        except (_MayHealError, LogUnavailableError):
            return [ProduceFlight(None, dict(batches), {})]
        flights = []
        for leader, tps in by_leader.items():
            topics = {tp.topic: self._cluster.topics[tp.topic] for tp in tps}
            topic_ids = {name: topic.topic_id for name, topic in topics.items()}
            flight = ProduceFlight(None, {tp: batches[tp] for tp in tps}, topic_ids)
            request, version_max = produce_request(
                flight.batches, topics, acks=-1, transactional_id=transactional_id, timeout_s=self.timeout_s
            )
            flights.append(flight)
            try:
                connection = self._connections.to(leader, deadline)
                connection.send(request, deadline, version_max)
            except LogUnavailableError:
                continue  # the caller sees that it has no connection
            flight.connection = connection
        return flights

    # ---- what attempts are made of

    def _connection(self, node: int | None, deadline: Deadline) -> BrokerConnection:
        if node is None:
            return self._connections.to_any([*self._cluster.brokers.values(), *self._bootstrap], deadline)
        if node not in self._cluster.brokers:
            self._ask_metadata(frozenset(), deadline)
        if node not in self._cluster.brokers:
            raise NotConnectedError(f"broker {node} is not in the cluster just now")
        return self._connections.to(self._cluster.brokers[node], deadline)

    def _by_leader(self, asked: Iterable[TopicPartition], deadline: Deadline) -> dict[Address, list[TopicPartition]]:
        """The partitions by their leaders' addresses; asks for metadata that is missing. Raises UnknownTopicError.

        A partition that is not known may be new: its topic is asked for again.
        """
        asked, known = list(asked), self._cluster.topics
        missing = {tp.topic for tp in asked if tp.topic not in known or tp.partition not in known[tp.topic].partitions}
        if missing:
            self._ask_metadata(frozenset(missing), deadline)
        by_leader: defaultdict[Address, list[TopicPartition]] = defaultdict(list)
        for tp in asked:
            by_leader[self._leader(tp)].append(tp)
        return by_leader

    def _leader(self, tp: TopicPartition) -> Address:
        topic = self._cluster.topics.get(tp.topic)
        if topic is None:
            raise UnknownTopicError(f"there is no topic {tp.topic!r}")
        partition = topic.partitions.get(tp.partition)
        if partition is None:
            self._forget({tp.topic})
            count = len(topic.partitions)
            raise UnknownTopicError(f"there is no partition {tp}: the topic has {count}, numbered from 0")
        address = self._cluster.brokers.get(partition.leader_id)
        if partition.leader_id == NO_LEADER or address is None:
            self._forget({tp.topic})
            raise _MayHealError(error_of(ErrorCode.LEADER_NOT_AVAILABLE, str(tp)))
        return address

    def _check(self, code: int, tp: TopicPartition, context: str, said: str | None = None) -> None:
        if code == ErrorCode.NONE:
            return
        error = error_of(code, context, said)
        if heals(code):
            self._forget({tp.topic})
            raise _MayHealError(error)
        raise error

    def _forget(self, topics: Iterable[str]) -> None:
        for topic in list(topics):
            self._cluster = self._cluster.without(topic)

    def _retrying(
        self,
        attempt: Callable[[Deadline], T],
        *,
        timeout_s: float | None = None,
        resends: bool = True,
        moves: bool = False,
        keeps_refusals: bool = False,
    ) -> T:
        """Run ``attempt`` until it succeeds, fails for good, or the time is over.

        Without ``resends`` an attempt that may have reached the broker is the last, with ``moves`` one that did not.
        With ``keeps_refusals`` a transient error code stays a RemoteError when the time is over.
        """
        deadline, lost = Deadline(self._clock, self.timeout_s if timeout_s is None else timeout_s), None
        with self._in_use:
            for pause_s in pauses_s():
                try:
                    return attempt(deadline)
                except _MayHealError as again:
                    failure = again.error
                except NotConnectedError as error:
                    if moves and not self._closed.is_set():
                        raise
                    failure = error
                except LogUnavailableError as error:
                    if not resends:
                        raise
                    failure = error
                except MainstemError as error:
                    if lost is None:
                        raise
                    raise error from lost  # an earlier attempt may have been carried out
                if isinstance(failure, LogUnavailableError):
                    lost = lost if isinstance(failure, NotConnectedError) else failure
                    self._forget(self._cluster.topics)
                if deadline.left_s() <= pause_s or self._closed.wait(pause_s):
                    raise self._given_up(failure, deadline, keeps_refusals=keeps_refusals) from lost or failure
        raise AssertionError("the pauses never end")

    def _given_up(self, failure: MainstemError, deadline: Deadline, *, keeps_refusals: bool) -> MainstemError:
        if self._closed.is_set():
            return LogUnavailableError("the client is closed")
        is_refused = isinstance(failure, RemoteError) and not keeps_refusals
        if is_refused or isinstance(failure, LogUnavailableError):
            return LogUnavailableError(f"gave up after {deadline.timeout_s:g} s: {failure}")
        return failure
