"""``Log``: append to a log, read it, follow it, and look after its topics. Any log that speaks the Kafka protocol.

Appends are idempotent and ``acks=all``: when an append returns, its records are durable and its position names them.
Few records go at once, many through librdkafka. Reads are of committed records only, and their positions are exact.

A topic is never created by mistake: appending to one that does not exist is an UnknownTopicError.

Thread-safe. Nothing connects before the first call. After ``close`` every call is a LogUnavailableError.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from mainstem.addresses import parse_bootstrap
from mainstem.client.admin.cluster_admin import ClusterAdmin
from mainstem.client.admin.group_admin import GroupAdmin
from mainstem.client.append.append_options import AppendOptions
from mainstem.client.append.appending import Appender, ClientSettings
from mainstem.client.append.transaction import Transaction
from mainstem.client.read.key_reader import KeyReader
from mainstem.client.read.reader import FETCH_BYTES, BoundedReader, Follower
from mainstem.client.read.start import (
    Moment,
    bounds,
    end_offsets,
    offsets_at_time,
    partitions_of,
    start_offsets,
    topic_ids_of,
)
from mainstem.client.read.tree_reader import TreeReader
from mainstem.client.records import EncodedRecord, HeadersLike, encoded, encoded_headers
from mainstem.client.security import Security
from mainstem.client.values import key_bytes, value_bytes
from mainstem.client.wire.admin import groups as wire_groups
from mainstem.client.wire.cluster import topics as wire_topics
from mainstem.client.wire.cluster.cluster import EARLIEST, WireClient
from mainstem.client.wire.cluster.metadata import TopicMetadata
from mainstem.client.wire.connection.pool import Pool
from mainstem.clock import Clock, SystemClock
from mainstem.errors import (
    InputError,
    TopicExistsError,
)
from mainstem.model import OnDamaged, Position, TopicPartition, is_load_group
from mainstem.record.partitioner import partition_for
from mainstem.tlog.proofs import BatchProof

if TYPE_CHECKING:
    from mainstem.client.admin.access_admin import AccessAdmin


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic, as ``topics`` lists it. A topic that was deleted and created again has another ``topic_id``."""

    name: str
    topic_id: uuid.UUID
    partitions: int
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with what it holds and how it is configured.

    ``offsets`` counts those between its ends: of records, transaction markers, and of what compaction removed. No
    broker keeps a count of the records alone.
    ``committed_end`` is the last stable offset of each partition: readers of committed records get no further.
    ``set_configs`` are the names of the configs that have a value of the topic's own; the others have defaults.
    """

    info: TopicInfo
    beginning: Position
    end: Position
    committed_end: Position
    configs: Mapping[str, str | None]
    set_configs: frozenset[str] = frozenset()

    @property
    def offsets(self) -> int:
        return sum(offset - self.beginning.get(tp, 0) for tp, offset in self.end.items())


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group: its state, its committed position, its lag in offsets (0 for the group of a load, which reads nothing),
    and its type (classic, consumer or share).
    """

    name: str
    state: str
    committed: Position
    lag: int
    kind: str = "classic"


class Log:
    """A log, by the addresses of its brokers; a context manager. The module's docstring has the contract."""

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout_s: float = 30.0,
        client_id: str = "mainstem",
        security: Mapping[str, str] | Security | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Name a log; nothing connects before the first call.

        Args:
            bootstrap: Addresses of brokers, ``host:port`` with commas between.
            timeout_s: How long any call may wait for the log.
            client_id: The name under which the log's metrics and quotas count this client.
            security: Kafka's security options by name, such as ``{"security.protocol": "SASL_SSL", …}``. Without them
                the ``MAINSTEM_…`` variables say (see ``client.security``).
            clock: The time; tests give one of their own.

        Raises:
            ConfigError: No address is given, or an option is invalid.

        Examples:
            >>> with ms.Log("localhost:9092", timeout_s=10) as log:
            ...     log.create_topic("greetings").partitions
            1
        """
        parse_bootstrap(bootstrap)
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._client_id = client_id
        self._clock = clock or SystemClock()
        if security is None:
            security = Security.from_environment()
        self.security = security if isinstance(security, Security) else Security.of(security)
        self._pool = Pool(self._wire_client)
        settings = ClientSettings(bootstrap, client_id, timeout_s, self.security)
        self._appender = Appender(settings, self._wire_client, self._clock)

    # ---- appending

    def append(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        headers: HeadersLike = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        **options: Unpack[AppendOptions],
    ) -> Position:
        """Append one record; returns the position just after it, once it is durable.

        Args:
            topic: The topic, which exists.
            value: A dict, list, dataclass or model is kept as JSON, text as UTF-8, bytes as they are. None is a
                tombstone.
            key: The record's key, by the same rules. Records of one key stay in order.
            headers: Pairs of name and value, or a mapping.
            partition: The partition. Without it the key decides, as in Kafka's Java client.
            timestamp_ms: The record's time. Without it the record gets the time of the append.
            options: ``expect_topic_id`` appends only to the topic with this id, and not to another of its name. The
                others need the topic's log features. ``expect_key_offset`` appends only if the key's last offset is
                this (-1: the key has none), ``expect_end`` only if the partition ends here. ``idempotency_key`` appends
                once within the topic's window; a repeat returns the position of the first append.

        Raises:
            UnknownTopicError: The topic does not exist. It is never created by mistake.
            RecordTooLargeError: The record is over the topic's ``max.message.bytes``.
            SchemaError: The value has no JSON form.
            ConditionFailedError: An expectation does not hold; ``actual`` is the offset that is there.
            UnsupportedFeatureError: The log or the topic's configs do not know an option.
            LogUnavailableError: The log is away. Its kind OutcomeUnknownError: the record may have been appended.
            RemoteError: The log refused the record for another reason.

        Examples:
            >>> str(log.append("orders", {"drink": "tea"}, key="ada"))
            'orders/0:1'
        """
        record = EncodedRecord(value_bytes(value), key_bytes(key), encoded_headers(headers), partition, timestamp_ms)
        if options:
            return self._appender.append_with_options(topic, record, options)
        return self._appender.append_at_once(topic, [record])

    def append_many(self, topic: str, records: Iterable[Any]) -> Position:
        """Append records in few, large batches; returns the position just after all of them, once they are durable.

        Order is kept within each partition. Memory is bounded: the iterable is taken as fast as the log takes its
        records. When one fails, the first failure is raised; others may have been appended.

        Args:
            topic: The topic, which exists.
            records: Values, pairs ``(key, value)``, ``client.records.NewRecord``, or Records that were read.

        Raises:
            UnknownTopicError: The topic does not exist.
            RecordTooLargeError: A record is over the topic's ``max.message.bytes``.
            SchemaError: A value has no JSON form.
            LogUnavailableError: The log is away.

        Examples:
            >>> str(log.append_many("orders", [("bob", {"drink": "mocha"}), ("bob", {"drink": "water"})]))
            'orders/0:3'
        """
        return self._appender.append(topic, map(encoded, records))

    def transaction(self, transactional_id: str | None = None, *, timeout_s: float = 60.0) -> Transaction:
        """Records in any topics, and offsets of groups, that count together or not at all: ``with … as tx:``.

        Args:
            transactional_id: A producer of its own over all programs that use it. Beginning a transaction ends what an
                older one left open, and fences it: its next call is a ProducerFencedError. Without an id no other
                program is touched.
            timeout_s: How long the transaction may take before the log aborts it.

        Examples:
            >>> with log.transaction() as tx:
            ...     tx.append("orders", {"drink": "latte"}, key="cem")
            ...     tx.commit_offsets("kitchen", log.end("orders"))
        """
        return self._appender.transaction(transactional_id, timeout_s)

    # ---- reading

    def read(
        self,
        topic: str,
        *,
        start: Moment = "earliest",
        end: Moment | None = None,
        limit: int | None = None,
        key: Any = None,
        every_partition: bool = False,
        fetch_bytes: int = FETCH_BYTES,
        on_damaged: OnDamaged = "stop",
    ) -> BoundedReader:
        """The committed records from ``start`` up to the log's end as it is now, or to ``end`` before that.

        Args:
            topic: The topic.
            start: ``"earliest"``, ``"latest"``, an offset, a position, or a time.
            end: The same, and the reader ends before it.
            limit: At most so many records.
            key: Only the records of this key, looked for in the partition that Mainstem and Kafka's Java client give
                it, by its key index if it has one.
            every_partition: Look for the key in all partitions, for writers that partition otherwise (as librdkafka's
                own default does).
            fetch_bytes: About how much is asked of the log at once, and held in memory.
            on_damaged: ``"skip"`` steps over records that the log has and cannot be read; the reader's ``damaged``
                names them.

        Raises:
            UnknownTopicError: The topic does not exist.
            OffsetOutOfRangeError: The start is an offset that the log does not have.
            DamagedRecordsError: While iterating: records that cannot be read, with ``on_damaged="stop"``.

        Examples:
            >>> for record in log.read("orders", key="ada"):
            ...     print(record.value)
            b'{"drink":"tea"}'
        """
        with self._pool.borrow() as client:
            partitions = existing = partitions_of(client, [topic])
            topic_ids = topic_ids_of(client, [topic])
            wanted = key_bytes(key)
            if wanted is not None and not every_partition:
                partitions = [partitions[partition_for(wanted, len(partitions))]]
            ends = end_offsets(client, partitions, read_committed=True)
            begin = start_offsets(client, ends, start, existing=existing, on_damaged=on_damaged)
            bound = bounds(client, ends, end, on_damaged)
        if wanted is not None and not every_partition:
            return KeyReader(
                self._pool, begin, bound, key=wanted, limit=limit, on_damaged=on_damaged, topic_ids=topic_ids
            )
        return BoundedReader(
            self._pool,
            begin,
            bound,
            key=wanted,
            limit=limit,
            fetch_bytes=fetch_bytes,
            on_damaged=on_damaged,
            topic_ids=topic_ids,
        )

    def read_key(
        self,
        topic: str,
        key: Any,
        *,
        start: Moment = "earliest",
        end: Moment | None = None,
        limit: int | None = None,
        partition: int | None = None,
        on_damaged: OnDamaged = "stop",
    ) -> KeyReader:
        """The committed records of one key, as ``read`` gives them; the reader says whether an index led to them.

        Args:
            topic: The topic.
            key: The key.
            start: Where to begin, as in ``read``.
            end: Where to end, as in ``read``.
            limit: At most so many records.
            partition: Where to look, if not where Mainstem and Kafka's Java client put the key.
            on_damaged: As in ``read``.

        Raises:
            InputError: The key is None.
            UnknownTopicError: The topic does not exist.
            OffsetOutOfRangeError: The start is an offset that the log does not have.

        Examples:
            >>> reader = log.read_key("orders", "bob")
            >>> sum(1 for record in reader)
            2
        """
        wanted = key_bytes(key)
        if wanted is None:
            raise InputError("read_key: give a key")
        with self._pool.borrow() as client:
            partitions = partitions_of(client, [topic])
            topic_ids = topic_ids_of(client, [topic])
            number = partition_for(wanted, len(partitions)) if partition is None else partition
            ends = end_offsets(client, [TopicPartition(topic, number)], read_committed=True)
            begin = start_offsets(client, ends, start, existing=partitions, on_damaged=on_damaged)
            bound = bounds(client, ends, end, on_damaged)
        return KeyReader(self._pool, begin, bound, key=wanted, limit=limit, on_damaged=on_damaged, topic_ids=topic_ids)

    def follow(
        self,
        *topics: str,
        start: Moment = "latest",
        fetch_bytes: int = FETCH_BYTES,
        on_damaged: OnDamaged = "stop",
    ) -> Follower:
        """The committed records of the topics as they arrive, without end; close it from any thread.

        Args:
            topics: One topic or several.
            start: Where to begin, as in ``read``.
            fetch_bytes: About how much is asked of the log at once, and held in memory.
            on_damaged: As in ``read``.

        Raises:
            InputError: No topic is named.
            UnknownTopicError: A topic does not exist.
            OffsetOutOfRangeError: The start is an offset that the log does not have.
            DamagedRecordsError: While iterating: records that cannot be read, with ``on_damaged="stop"``.
            LogUnavailableError: While iterating: the log is away for longer than ``timeout_s``. Iterating on goes on
                where it was.

        Examples:
            >>> with log.follow("orders", start="earliest") as follower:
            ...     next(follower).key
            b'ada'
        """
        if not topics:
            raise InputError("follow: name at least one topic")
        client = self._wire_client()
        try:
            return Follower(client, topics, start, self._clock, fetch_bytes=fetch_bytes, on_damaged=on_damaged)
        except BaseException:
            client.close()
            raise

    # ---- proofs

    @property
    def tree(self) -> Callable[[str, int], TreeReader]:
        """The history of a partition of a verifiable topic: ``log.tree("ledger", 0).checkpoint()``.

        Raises ConfigError: the topic is not verifiable, or the node has no signing keys.
        """
        return lambda topic, partition: TreeReader(self._pool, TopicPartition(topic, partition))

    def prove(self, topic: str, partition: int, offset: int) -> BatchProof:
        """The proof that a record is in the history of a verifiable topic. It is verified before it is returned.

        It is the proof of the stored batch that holds the record, and has the batch's bytes where they are still there.
        ``proof.encode()`` is the file that ``mainstem prove --verify`` reads, ``proof.verify([key])`` checks the
        signature, too. ``tree`` has the rest of the history: checkpoints, witnesses, proofs between two checkpoints.

        Args:
            topic: A topic with ``mainstem.verifiable=true``.
            partition: The partition's number.
            offset: The record's offset.

        Raises:
            ConfigError: The topic is not verifiable, or the node has no signing keys.
            OffsetOutOfRangeError: No batch with this offset was written.
            ProofError: What the log says does not fit together: its history was changed.
            LogUnavailableError: The log cannot be reached.

        Examples:
            >>> proof = log.prove("ledger", 0, 0)
            >>> proof.leaf.base_offset, proof.leaf.last_offset
            (0, 0)
        """
        return self.tree(topic, partition).prove(offset)

    # ---- positions

    def end(self, *topics: str) -> Position:
        """The end of the topics' partitions: the position that covers all that has been appended so far.

        Examples:
            >>> str(log.end("ledger"))
            'ledger/0:1'
        """
        with self._pool.borrow() as client:
            return Position(end_offsets(client, partitions_of(client, topics), read_committed=False))

    def beginning(self, *topics: str) -> Position:
        """The position before the oldest records that the topics still hold.

        Examples:
            >>> str(log.beginning("ledger"))
            'ledger/0:0'
        """
        with self._pool.borrow() as client:
            return Position(client.list_offsets(partitions_of(client, topics), EARLIEST))

    def positions_at(self, topic: str, time: datetime.datetime) -> Position:
        """The position before the first committed record of each partition whose timestamp is ``time`` or later.

        Args:
            topic: The topic.
            time: The moment; UTC if it has no zone.

        Examples:
            >>> import datetime
            >>> str(log.positions_at("orders", datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC)))
            'orders/0:0'
        """
        with self._pool.borrow() as client:
            ends = end_offsets(client, partitions_of(client, [topic]), read_committed=True)
            return Position(offsets_at_time(client, ends, time))

    # ---- topics and groups

    def topics(self) -> dict[str, TopicInfo]:
        """All topics by name, in order.

        Examples:
            >>> log.topics()["ledger"].partitions
            1
        """
        with self._pool.borrow() as client:
            return {name: _info(topic) for name, topic in sorted(client.metadata().items())}

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        configs: Mapping[str, str] | None = None,
        exist_ok: bool = False,
    ) -> TopicInfo:
        """Create a topic and return when it can be used; what is not given is the broker's default.

        Args:
            name: Letters, digits, ``.``, ``_`` and ``-``.
            partitions: How many; a key's records are all in one of them.
            configs: Kafka's topic configs and Mainstem's own, by name.
            exist_ok: Leave a topic as it is that exists already.

        Raises:
            TopicExistsError: The topic exists, and ``exist_ok`` is not set.
            InputError: The name or the number of partitions is invalid.
            ConfigError: A config does not exist, or has a wrong value.

        Examples:
            >>> log.create_topic("accounts", partitions=4, configs={"cleanup.policy": "compact"}).partitions
            4
        """
        with self._pool.borrow() as client:
            try:
                return _info(wire_topics.create_topic(client, name, partitions=partitions, configs=configs))
            except TopicExistsError:
                if not exist_ok:
                    raise
                return _info(client.metadata([name], wait=True)[name])

    def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records. Raises UnknownTopicError.

        Examples:
            >>> created = log.create_topic("old")
            >>> log.delete_topic("old")
            >>> "old" in log.topics()
            False
        """
        self._appender.forget(name)
        with self._pool.borrow() as client:
            wire_topics.delete_topic(client, name)

    def describe_topic(self, name: str) -> TopicDescription:
        """A topic's partitions, beginning, ends and configs. Raises UnknownTopicError.

        Examples:
            >>> log.describe_topic("ledger").configs["mainstem.verifiable"]
            'true'
        """
        with self._pool.borrow() as client:
            partitions = partitions_of(client, [name])
            entries = wire_topics.topic_config_entries(client, name)
            return TopicDescription(
                _info(client.metadata([name], wait=True)[name]),
                Position(client.list_offsets(partitions, EARLIEST)),
                Position(end_offsets(client, partitions, read_committed=False)),
                Position(end_offsets(client, partitions, read_committed=True)),
                {entry.name: entry.value for entry in entries},
                frozenset(entry.name for entry in entries if entry.config_source == wire_topics.SET_ON_TOPIC),
            )

    def groups(self) -> dict[str, GroupInfo]:
        """All consumer groups by name, with their committed positions and lags.

        Examples:
            >>> log.group_admin.set_offsets("readers", {ms.TopicPartition("ledger", 0): 0})
            >>> log.groups()["readers"].lag
            1
        """
        with self._pool.borrow() as client:
            existing = client.metadata()
            return {group.name: _group(client, group, existing) for group in wire_groups.list_groups(client)}

    @property
    def group_admin(self) -> GroupAdmin:
        """Operations on single groups."""
        return GroupAdmin(self._pool.borrow)

    @property
    def access_admin(self) -> AccessAdmin:
        """The users and the ACLs, on Apache Kafka too."""
        from mainstem.client.admin.access_admin import AccessAdmin  # for administrators alone

        return AccessAdmin(self._pool.borrow)

    @property
    def cluster_admin(self) -> ClusterAdmin:
        """The brokers with their settings, and the topics from an operator's side: configs, sizes, deletions."""
        return ClusterAdmin(self._pool.borrow)

    # ---- life

    def close(self) -> None:
        """Deliver what was sent in bulk, and disconnect. Raises LogUnavailableError when something was not delivered.

        Calls of other threads that are waiting for the log end with LogUnavailableError.
        """
        self._pool.close()
        self._appender.close()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Log({self.bootstrap!r})"

    # ---- how

    def _wire_client(self) -> WireClient:
        return WireClient(
            self.bootstrap,
            client_id=self._client_id,
            timeout_s=self.timeout_s,
            clock=self._clock,
            security=self.security,
        )


def _info(topic: TopicMetadata) -> TopicInfo:
    return TopicInfo(topic.name, topic.topic_id, len(topic.partitions), topic.is_internal)


def _group(client: WireClient, group: wire_groups.ListedGroup, existing: Mapping[str, TopicMetadata]) -> GroupInfo:
    kind = group.kind.lower() or "classic"
    committed = wire_groups.committed_offsets(client, group.name) if kind != "share" else Position({})
    read = Position({}) if is_load_group(group.name) else committed
    readable = [tp for tp in read if tp.topic in existing and tp.partition in existing[tp.topic].partitions]
    ends = end_offsets(client, readable, read_committed=False)
    lag = sum(max(0, end - committed[tp]) for tp, end in ends.items())
    return GroupInfo(group.name, group.state, committed, lag, kind)
