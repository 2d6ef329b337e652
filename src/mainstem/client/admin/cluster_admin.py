"""``ClusterAdmin``: the brokers of a log, where they are and how they are set, and its topics.

Safe from any thread, as the log is. Raises LogUnavailableError when the log cannot be reached in time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from mainstem.client.admin.inventory import TopicSummary, inventory
from mainstem.client.admin.open_transactions import OpenTransaction, open_transactions
from mainstem.client.admin.record_deletion import RecordDeletion, delete_planned, plan_deletion
from mainstem.client.admin.topic_consumers import TopicGroups, topic_groups
from mainstem.client.read.start import Moment, partitions_of
from mainstem.client.wire.admin.configs import BrokerSetting, TopicSetting, broker_settings, topic_settings
from mainstem.client.wire.admin.partitions import PartitionDetails, partition_sizes, partition_states
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.topics import set_partition_count, set_topic_configs, topic_configs


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker: its id, its advertised address, and its settings by name."""

    broker_id: int
    address: str
    is_controller: bool
    settings: tuple[BrokerSetting, ...]


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The change of one config of a topic. None: a secret, or a default that is not known yet."""

    name: str
    before: str | None
    after: str | None


class ClusterAdmin:
    """The brokers and the topics of a log. ``Log.cluster_admin`` is one."""

    def __init__(self, borrow: Callable[[], AbstractContextManager[WireClient]]) -> None:
        self._borrow = borrow

    def describe(self) -> list[BrokerDescription]:
        """Every broker, by id, with its address and its settings.

        Raises:
            AuthorizationError: The user may not read the settings.
            LogUnavailableError: A broker does not answer in time.

        Examples:
            >>> (broker,) = log.cluster_admin.describe()
            >>> [each.value for each in broker.settings if each.name == "num.partitions"]
            ['1']
        """
        with self._borrow() as client:
            client.metadata([])
            brokers, controller = dict(client.brokers), client.cluster.controller_id
            return [
                BrokerDescription(
                    broker_id,
                    str(brokers[broker_id]),
                    broker_id == controller,
                    tuple(broker_settings(client, broker_id)),
                )
                for broker_id in sorted(brokers)
            ]

    def cluster_id(self) -> str:
        """The cluster's id; empty when it has none.

        Raises:
            LogUnavailableError: The log does not answer in time.

        Examples:
            >>> len(log.cluster_admin.cluster_id())
            22
        """
        with self._borrow() as client:
            client.metadata([])
            return client.cluster.cluster_id or ""

    def inventory(self) -> list[TopicSummary]:
        """Every topic with its ends, bytes and cleanup policy, by name.

        Raises:
            LogUnavailableError: The log does not answer in time.

        Examples:
            >>> log.create_topic("archive", partitions=1)
            TopicInfo(...)
            >>> end = log.append("archive", b"a page")
            >>> [each.offsets for each in log.cluster_admin.inventory() if each.topic.name == "archive"]
            [1]
        """
        with self._borrow() as client:
            return inventory(client)

    def set_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set configs of a topic; others stay as they are.

        Args:
            topic: The topic.
            configs: Their names, each with its new value.

        Raises:
            UnknownTopicError: The topic does not exist.
            ConfigError: The log lacks a config, or refuses its value.

        Examples:
            >>> log.cluster_admin.set_topic_configs("orders", {"retention.ms": "86400000"})
        """
        with self._borrow() as client:
            set_topic_configs(client, topic, configs)

    def change_topic_configs(
        self, topic: str, configs: Mapping[str, str], reset: Sequence[str] = (), *, validate_only: bool = False
    ) -> list[ConfigChange]:
        """Set configs of a topic, and give those of ``reset`` their defaults again; return the changes.

        Args:
            topic: The topic.
            configs: Their names, each with its new value.
            reset: The configs that get their defaults.
            validate_only: Check and return the changes, but change nothing; ``after`` of a reset is then None.

        Raises:
            UnknownTopicError: The topic does not exist.
            ConfigError: The log lacks a config, or refuses its value.

        Examples:
            >>> admin = log.cluster_admin
            >>> (change,) = admin.change_topic_configs("orders", {"retention.ms": "3600000"}, validate_only=True)
            >>> change.after
            '3600000'
        """
        names = [*configs, *dict.fromkeys(reset)]
        with self._borrow() as client:
            before = topic_configs(client, topic, names)
            set_topic_configs(client, topic, configs, reset=names[len(configs) :], validate_only=validate_only)
            after = {**configs} if validate_only else topic_configs(client, topic, names)
        return [ConfigChange(name, before.get(name), after.get(name)) for name in names]

    def add_partitions(self, topic: str, count: int, *, validate_only: bool = False) -> int:
        """Let a topic have ``count`` partitions; return how many it had. The new ones are empty.

        Keys may belong to other partitions afterwards.

        Args:
            topic: The topic.
            count: How many partitions it then has in all.
            validate_only: Check, and change nothing.

        Raises:
            UnknownTopicError: The topic does not exist.
            ConfigError: It has as many already, or the log takes no such number.

        Examples:
            >>> log.create_topic("visits", partitions=1)
            TopicInfo(...)
            >>> log.cluster_admin.add_partitions("visits", 3)
            1
        """
        with self._borrow() as client:
            had = len(partitions_of(client, [topic]))
            set_partition_count(client, topic, count, validate_only=validate_only)
        return had

    def topic_settings(self, topic: str) -> list[TopicSetting]:
        """Every config of a topic, by name, with its source, its default and its description.

        Raises:
            UnknownTopicError: The topic does not exist.

        Examples:
            >>> settings = {each.name: each for each in log.cluster_admin.topic_settings("ledger")}
            >>> settings["mainstem.verifiable"].value
            'true'
        """
        with self._borrow() as client:
            return topic_settings(client, topic)

    def topic_size_bytes(self, topic: str) -> int | None:
        """The bytes of a topic on disk; None where the brokers do not say.

        Raises:
            UnknownTopicError: The topic does not exist.

        Examples:
            >>> log.cluster_admin.topic_size_bytes("ledger") > 0
            True
        """
        with self._borrow() as client:
            numbers = [tp.partition for tp in partitions_of(client, [topic])]
            sizes = partition_sizes(client, topic, numbers)
        return sum(sizes.values()) if sizes else None

    def partitions(self, topic: str, *, after: int = -1, limit: int = 10_000) -> tuple[list[PartitionDetails], int]:
        """The partitions of a topic: ends, size, leader, the time of the newest record; and how many there are.

        Args:
            topic: The topic.
            after: Only partitions with numbers above this one.
            limit: At most so many of them.

        Raises:
            UnknownTopicError: The topic does not exist.

        Examples:
            >>> (partition,), count = log.cluster_admin.partitions("ledger")
            >>> partition.beginning, partition.end, count
            (0, 1, 1)
        """
        with self._borrow() as client:
            return partition_states(client, topic, after, limit)

    def topic_groups(self, topic: str) -> TopicGroups:
        """The groups that have committed offsets of a topic, with their lag in it.

        Raises:
            UnknownTopicError: The topic does not exist.

        Examples:
            >>> log.group_admin.set_offsets("auditors", {ms.TopicPartition("ledger", 0): 0})
            >>> groups = log.cluster_admin.topic_groups("ledger").groups
            >>> {group.name: group.lag for group in groups}["auditors"]
            1
        """
        with self._borrow() as client:
            return topic_groups(client, topic)

    def open_transactions(self, *topics: str) -> tuple[OpenTransaction, ...]:
        """The open transactions in the topics: whose, since when, from which offset on.

        Args:
            topics: The topics; of an unknown one there are none.

        Raises:
            AuthorizationError: The user may not look at transactions.
            RemoteError: The log refused for another reason.

        Examples:
            >>> log.cluster_admin.open_transactions("ledger")
            ()
        """
        with self._borrow() as client:
            return open_transactions(client, topics, with_times=True)

    def plan_record_deletion(self, topic: str, to: Moment) -> list[RecordDeletion]:
        """The deletion of all records of a topic before ``to``, partition by partition. Changes nothing.

        Args:
            topic: The topic.
            to: The latest record, an offset, a position or a time, as in ``Log.read``. Of a position, only the
                partitions that it names.

        Raises:
            UnknownTopicError: The topic does not exist.
            OffsetOutOfRangeError: The log does not have the offset.
            PositionError: The position is of another topic, or beyond the end.

        Examples:
            >>> (deletion,) = log.cluster_admin.plan_record_deletion("ledger", "latest")
            >>> deletion.offsets
            1
        """
        with self._borrow() as client:
            return plan_deletion(client, topic, to)

    def delete_records(self, topic: str, to: Moment) -> list[RecordDeletion]:
        """Delete all records of a topic before ``to``, for good; return the deletions.

        Positions stay as they are: offsets are never used again.

        Args:
            topic: The topic.
            to: As in ``plan_record_deletion``.

        Raises:
            UnknownTopicError: The topic does not exist.
            OffsetOutOfRangeError: The log does not have the offset.
            PositionError: The position is of another topic, or beyond the end.
            AuthorizationError: The user may not delete records of the topic.
            InputError: It is one of the log's own topics.
            ConfigError: It is only compacted (Apache Kafka).

        Examples:
            >>> log.create_topic("drafts", partitions=1)
            TopicInfo(...)
            >>> end = log.append_many("drafts", [b"one", b"two"])
            >>> log.cluster_admin.delete_records("drafts", 1)[0].offsets
            1
            >>> [record.value for record in log.read("drafts")]
            [b'two']
        """
        with self._borrow() as client:
            return delete_planned(client, topic, plan_deletion(client, topic, to))
