"""The topics as handlers see them: by name and by id, with their partition logs, and the changes of topics.

Every change is durable when the call returns: it is written to the node's metadata log first. Concurrency: the event
loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.error_codes import refusal
from mainstem.broker.storage.topic_partitions import TopicPartitions
from mainstem.errors import ConfigError, StorageError, TopicExistsError, UnknownTopicError
from mainstem.log.node.metadata import METADATA_PARTITION, PARTITIONS_MAX, TopicEntry
from mainstem.log.node.node_log import NodeLog
from mainstem.log.partition.config import LogConfig, check_changed_configs
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.model import MIRROR_OF, is_topic_name
from mainstem.protocol.errors import ErrorCode

_LOG: Final = logging.getLogger("mainstem.broker.topics")
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
_INTERNAL_MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic at one moment; a change creates a new ``Topic``. Partitions are opened on first use."""

    name: str
    topic_id: UUID
    configs: Mapping[str, str]
    partitions: TopicPartitions

    @property
    def is_internal(self) -> bool:
        """Whether only the node writes the topic, and clients may not."""
        return self.name in INTERNAL_TOPICS

    @property
    def is_mirror(self) -> bool:
        """Whether it is the copy of a topic of another log: only a mirror appends to it."""
        return bool(self.configs.get(MIRROR_OF))

    @property
    def logs(self) -> list[PartitionLog]:
        """Open all partitions; return those that are not offline."""
        return [log for log in self.partitions if log is not None]

    def require(self, number: int) -> None:
        """Check that there is such a partition, offline or not. Raises UnknownTopicError."""
        if not 0 <= number < len(self.partitions):
            raise UnknownTopicError(f"topic {self.name!r} has no partition {number}")

    def partition(self, number: int) -> PartitionLog:
        """Return one partition. Raises UnknownTopicError, PartitionOfflineError."""
        return self.partitions.require(number)


class Topics:
    """All topics of the node. ``version`` rises with every change."""

    def __init__(self, log: NodeLog, config: BrokerConfig, *, has_store: bool = False) -> None:
        """``has_store``: segments that have left the disk can be read from the store of a backup."""
        self._log = log
        self._has_store = has_store
        self._auto_create = bool(config.get("auto.create.topics.enable"))
        self.default_partitions = int(config.get("num.partitions"))
        self._internal = {
            OFFSETS_TOPIC: (
                int(config.get("offsets.topic.num.partitions")),
                {"compression.type": "producer", "segment.bytes": config.text("offsets.topic.segment.bytes")},
            ),
            TRANSACTIONS_TOPIC: (
                int(config.get("transaction.state.log.num.partitions")),
                {
                    "compression.type": "uncompressed",
                    "segment.bytes": config.text("transaction.state.log.segment.bytes"),
                },
            ),
            # Not compacted: an update needs those before it. The owner deletes old records.
            SHARE_STATE_TOPIC: (
                int(config.get("share.coordinator.state.topic.num.partitions")),
                {
                    "cleanup.policy": "delete",
                    "retention.ms": "-1",
                    "segment.bytes": config.text("share.coordinator.state.topic.segment.bytes"),
                },
            ),
        }
        self.version = 0
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        for topic in log.metadata.topics.values():
            self._keep(topic)

    # ---- lookups

    @property
    def creates_on_demand(self) -> bool:
        """Whether a request for an unknown topic creates it."""
        return self._auto_create

    def all(self) -> Iterable[Topic]:
        return self._by_name.values()

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def find(self, name: str) -> Topic:
        """Return the topic of that name. Raises UnknownTopicError, RemoteError for an invalid name."""
        topic = self._by_name.get(name)
        if topic is None:
            _check_name(name)
        return self.existing(name)

    def existing(self, name: str) -> Topic:
        """Return the topic of that name. Raises UnknownTopicError, also for an invalid name."""
        topic = self._by_name.get(name)
        if topic is None:
            raise UnknownTopicError(f"there is no topic {name[:300]!r}")
        return topic

    def find_or_create(self, name: str) -> Topic:
        """Return the topic of that name; create it if that is allowed. Raises what ``find`` and ``create`` raise."""
        topic = self._by_name.get(name)
        if topic is None and name in INTERNAL_TOPICS:
            self.ensure_internal(name)
        elif topic is None and self._auto_create:
            return self.create(name, self.default_partitions, {})
        return self.find(name)

    def partition(self, name: str, number: int) -> PartitionLog:
        """Return one partition. Raises UnknownTopicError, PartitionOfflineError, and what ``find`` raises."""
        return self.find(name).partition(number)

    # ---- changes

    def check_new(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Check that a topic could be created. Raises RemoteError, TopicExistsError, ConfigError."""
        self.check_new_configs(name, configs)
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise refusal(
                ErrorCode.INVALID_PARTITIONS, f"invalid number of partitions {partitions}: use 1 to {PARTITIONS_MAX}"
            )

    def check_new_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Check that a topic of that name with these configs could be created. Raises what ``check_new`` raises."""
        _check_name(name)
        if name in self._by_name:
            raise TopicExistsError(f"topic {name!r} already exists")
        # Metric names do not distinguish "." from "_", so Kafka refuses a topic that differs only in them.
        if ("." in name or "_" in name) and any(
            other.replace(".", "_") == name.replace(".", "_") for other in self._by_name
        ):
            raise refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} differs from a topic's name only in . and _")
        check_changed_configs(configs, {}, self._log.defaults)
        self._check_store(name, configs, {})

    def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Create a topic. Raises what ``check_new`` raises, and StorageError."""
        self.check_new(name, partitions, configs)
        return self._keep(self._create(name, partitions, configs))

    def _create(self, name: str, partitions: int, configs: Mapping[str, str]) -> TopicEntry:
        """Create the whole topic or nothing: on a full disk, parts are removed, now or at the next try."""
        if name in self._log.metadata.topics:
            self._log.delete_topic(name)
        try:
            return self._log.create_topic(name, partitions, configs)
        except StorageError:
            if name in self._log.metadata.topics:
                with suppress(StorageError):
                    self._log.delete_topic(name)
            raise

    def ensure_internal(self, name: str) -> Topic:
        """Return an internal topic; create it if it does not exist. Raises StorageError."""
        topic = self._by_name.get(name)
        if topic is None:
            partitions, special = self._internal[name]
            configs = {
                "cleanup.policy": "compact",
                "max.message.bytes": str(_INTERNAL_MESSAGE_BYTES_MAX),
                **special,
            }
            topic = self._keep(self._create(name, partitions, configs))
        return topic

    def add_partitions(self, topic: Topic, count: int) -> Topic:
        """Increase the topic's partitions to ``count``. Raises RemoteError, StorageError."""
        if count > PARTITIONS_MAX:
            raise refusal(
                ErrorCode.INVALID_PARTITIONS, f"invalid number of partitions {count}: use 1 to {PARTITIONS_MAX}"
            )
        return self._keep(self._log.create_partitions(topic.name, count))

    def set_configs(self, name: str, configs: Mapping[str, str], *, validate_only: bool) -> None:
        """Replace the configs of a topic. Raises ConfigError, UnknownTopicError, StorageError.

        Checks in Kafka's order: the name, the configs, and then whether the topic exists.
        """
        topic = self._by_name.get(name)
        _check_name(name)
        check_changed_configs(configs, {} if topic is None else topic.configs, self._log.defaults)
        self._check_store(name, configs, {} if topic is None else topic.configs)
        topic = self.find(name)
        if not validate_only:
            self._keep(self._log.set_topic_configs(topic.name, configs))

    def _check_store(self, name: str, configs: Mapping[str, str], former: Mapping[str, str]) -> None:
        """Segments leave the disk only where they can be read again, and by clients alone. Raises ConfigError."""
        is_asked = LogConfig.of(configs, self._log.defaults).remote_storage_enable
        if is_asked and name in self._internal:
            raise ConfigError("topic config remote.storage.enable='true': the log itself reads this topic at its start")
        if is_asked and not LogConfig.of(former, self._log.defaults).remote_storage_enable and not self._has_store:
            raise ConfigError(
                "topic config remote.storage.enable='true': this log has no backup, where its old segments would be: "
                "start it with --backup URL"
            )

    def delete(self, topic: Topic) -> None:
        """Delete a topic and its data. Raises StorageError: then it is not deleted.

        Files that the disk does not remove stay until the next start, or until a topic of that name is created.
        """
        try:
            self._log.delete_topic(topic.name)
        except StorageError as error:
            if topic.name in self._log.metadata.topics:
                raise
            _LOG.error("topic %s is deleted, its files stay for now: %s", topic.name, error)
        self.version += 1
        del self._by_name[topic.name], self._by_id[topic.topic_id]

    def _keep(self, metadata: TopicEntry) -> Topic:
        partitions = TopicPartitions(self._log.directory, metadata.name, metadata.partitions)
        topic = Topic(metadata.name, metadata.topic_id, metadata.configs, partitions)
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic
        self.version += 1
        return topic


def _check_name(name: str) -> None:
    if not is_topic_name(name) or name == METADATA_PARTITION.topic:
        raise refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"invalid topic name {name[:300]!r}: use letters, digits, '.', '_' and '-', at most 249, not '.' or '..'",
        )
