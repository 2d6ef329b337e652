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
    """The brokers and the topics. ``Log.cluster_admin`` is one."""

    def __init__(self, borrow: Callable[[], AbstractContextManager[WireClient]]) -> None:
        self._borrow = borrow

    def describe(self) -> list[BrokerDescription]:
        """Every broker, by id. Raises AuthorizationError, LogUnavailableError."""
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
        """The cluster's id; empty when it has none. Raises LogUnavailableError."""
        with self._borrow() as client:
            client.metadata([])
            return client.cluster.cluster_id or ""

    def inventory(self) -> list[TopicSummary]:
        """Every topic with its ends, bytes and cleanup policy, by name. Raises LogUnavailableError."""
        with self._borrow() as client:
            return inventory(client)

    def set_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set configs of a topic; others stay as they are. Raises UnknownTopicError, ConfigError."""
        with self._borrow() as client:
            set_topic_configs(client, topic, configs)

    def change_topic_configs(
        self, topic: str, configs: Mapping[str, str], reset: Sequence[str] = (), *, validate_only: bool = False
    ) -> list[ConfigChange]:
        """Set configs of a topic, and give those of ``reset`` their defaults again; return the changes.

        ``validate_only``: check and tell, but change nothing; ``after`` of a reset is then None. Raises
        UnknownTopicError, and ConfigError for a config that the log lacks or a value that it refuses.
        """
        names = [*configs, *dict.fromkeys(reset)]
        with self._borrow() as client:
            before = topic_configs(client, topic, names)
            set_topic_configs(client, topic, configs, reset=names[len(configs) :], validate_only=validate_only)
            after = {**configs} if validate_only else topic_configs(client, topic, names)
        return [ConfigChange(name, before.get(name), after.get(name)) for name in names]

    def add_partitions(self, topic: str, count: int, *, validate_only: bool = False) -> int:
        """Let a topic have ``count`` partitions; return how many it had. The new ones are empty.

        ``validate_only``: check, and change nothing.

        Keys may belong to other partitions afterwards. Raises UnknownTopicError, ConfigError when it has as many.
        """
        with self._borrow() as client:
            had = len(partitions_of(client, [topic]))
            set_partition_count(client, topic, count, validate_only=validate_only)
        return had

    def topic_settings(self, topic: str) -> list[TopicSetting]:
        """Every config of a topic, by name, with its source, its default and its description.

        Raises UnknownTopicError.
        """
        with self._borrow() as client:
            return topic_settings(client, topic)

    def topic_size_bytes(self, topic: str) -> int | None:
        """The bytes of a topic on disk; None where the brokers do not tell. Raises UnknownTopicError."""
        with self._borrow() as client:
            numbers = [tp.partition for tp in partitions_of(client, [topic])]
            sizes = partition_sizes(client, topic, numbers)
        return sum(sizes.values()) if sizes else None

    def partitions(self, topic: str, *, after: int = -1, limit: int = 10_000) -> tuple[list[PartitionDetails], int]:
        """The partitions of a topic: ends, size, leader, the time of the newest record; and how many there are.

        At most ``limit`` of them, with numbers above ``after``. Raises UnknownTopicError.
        """
        with self._borrow() as client:
            return partition_states(client, topic, after, limit)

    def topic_groups(self, topic: str) -> TopicGroups:
        """The groups that have committed offsets of a topic, with their lag in it. Raises UnknownTopicError."""
        with self._borrow() as client:
            return topic_groups(client, topic)

    def open_transactions(self, *topics: str) -> tuple[OpenTransaction, ...]:
        """The open transactions in the topics: whose, since when, from which offset on.

        Raises AuthorizationError, RemoteError.
        """
        with self._borrow() as client:
            return open_transactions(client, topics, with_times=True)

    def plan_record_deletion(self, topic: str, to: Moment) -> list[RecordDeletion]:
        """The deletion of all records of a topic before ``to``, partition by partition. Changes nothing.

        Of a position only the partitions that it names. Raises UnknownTopicError, OffsetOutOfRangeError,
        PositionError.
        """
        with self._borrow() as client:
            return plan_deletion(client, topic, to)

    def delete_records(self, topic: str, to: Moment) -> list[RecordDeletion]:
        """Delete all records of a topic before ``to``, for good; return the deletions.

        Positions stay as they are: offsets are never used again. Raises as ``plan_record_deletion``, and
        AuthorizationError, InputError for an internal topic, ConfigError for one that is only compacted (Apache Kafka).
        """
        with self._borrow() as client:
            return delete_planned(client, topic, plan_deletion(client, topic, to))
