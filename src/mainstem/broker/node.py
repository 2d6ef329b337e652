"""The parts of a running broker, as handlers use them: the log, group commit, the coordinators, and the settings.

Concurrency: the event loop only, except that ``GroupCommit`` and the checkpoint writes use threads of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from mainstem.broker.access.authorizer import Authorizer
from mainstem.broker.api_features import ServedApi
from mainstem.broker.configs.broker_config import SETTINGS, BrokerConfig
from mainstem.broker.configs.client_metrics_configs import CLIENT_METRICS_CONFIGS
from mainstem.broker.configs.config_entries import ChangeableConfigs, ConfigResourceType
from mainstem.broker.configs.dynamic_configs import DynamicConfigs
from mainstem.broker.configs.group_configs import GROUP_CONFIGS, GroupConfigs
from mainstem.broker.configs.request_settings import RequestSettings
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.classic.classic_steps import ClassicSettings
from mainstem.broker.groups.consumer.consumer_steps import ConsumerSettings, MigrationPolicy
from mainstem.broker.groups.coordinator import GroupCoordinator
from mainstem.broker.groups.streams.streams_steps import StreamsSettings
from mainstem.broker.metrics.meters import Meters
from mainstem.broker.network.network_resources import NetworkResources
from mainstem.broker.quotas.quotas import Quotas, Windows
from mainstem.broker.security.security import NodeSecurity
from mainstem.broker.share.dead_letters.letter_rules import LetterRules
from mainstem.broker.share.dead_letters.letter_writer import LetterWriter
from mainstem.broker.share.shares import Shares
from mainstem.broker.storage.compaction import Compaction
from mainstem.broker.storage.delayed_fetch import DelayedFetches
from mainstem.broker.storage.fetch_sessions import FetchSessions
from mainstem.broker.storage.group_commit import GroupCommit
from mainstem.broker.storage.remote.remote_storage import RemoteStorage
from mainstem.broker.storage.topics import Topic, Topics
from mainstem.broker.storage.trees import Trees
from mainstem.broker.storage.validation_threads import AppendChecks
from mainstem.broker.telemetry.telemetry import Telemetry
from mainstem.broker.transactions.coordinator import TransactionCoordinator, TransactionSettings
from mainstem.broker.transactions.markers import Markers
from mainstem.clock import Clock
from mainstem.errors import ConfigError, UnknownTopicError
from mainstem.log.files.disk import Disk
from mainstem.log.node.checkpoint_write import CheckpointWrite
from mainstem.log.node.metadata import Metadata
from mainstem.log.node.node_log import NodeLog
from mainstem.log.partition.config import CONFIGS
from mainstem.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from mainstem.broker.storage.remote.remote_pieces import RemotePieces

_LONG_REQUESTS: Final = 4
_OVERVIEWS: Final = 2
"""Answers about all topics that are made at a time: each is in memory until it is complete."""
_TIMESTAMP_SEARCHES: Final = 2  # threads that read batches to find a time
_PRODUCER_IDS_OF_A_SOURCE: Final = 1_000_000
"""So many ids after the greatest in a mirror are left to its source, for producers that write no mirrored topic."""


class Node:
    """The services of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        log: NodeLog,
        apis: Mapping[int, ServedApi],
        pieces: RemotePieces | None = None,
    ) -> None:
        """``apis`` are those that the node serves, by number; ``pieces`` those of remote segments."""
        self.config = config
        self.clock = clock
        self.log = log
        self.apis = apis
        self.security = NodeSecurity(config, log.metadata, clock)
        self.quotas = Quotas(log.metadata, clock, _windows(config, "quota"), _windows(config, "controller.quota"))
        self.authorizer = _authorizer(config, log.metadata)
        self.node_id = int(config.get("node.id"))
        self.cluster_id = log.directory.cluster_id
        self.settings = RequestSettings.of(config)
        self.network = NetworkResources(config)
        letter_rules = LetterRules()
        appliers = {  # settings that can change while the node runs
            "max.connections": self.network.limit_connections,
            **letter_rules.appliers,
        }
        self.configs = DynamicConfigs(config, log.metadata, appliers, self._set_topic_defaults)
        self.long_requests = asyncio.Semaphore(_LONG_REQUESTS)
        self.overviews = asyncio.Semaphore(_OVERVIEWS)
        self.timestamp_searches = asyncio.Semaphore(_TIMESTAMP_SEARCHES)
        self.fetches = DelayedFetches()
        self.fetch_sessions = FetchSessions(
            int(config.get("max.incremental.fetch.session.cache.slots")),
            int(config.get("mainstem.fetch.session.partitions.max")),
        )
        self.meters = Meters()
        self.telemetry = Telemetry(config, log.metadata, clock)
        self.commit = GroupCommit(self.fetches.wake, self.meters)
        self.topics = Topics(log, config, has_store=pieces is not None)
        self.append_checks = AppendChecks(self.topics)
        self.remote = RemoteStorage(config, clock, log, pieces, self.fetches.wake)
        self.configs.apply()
        self.group_configs = GroupConfigs(config, log.metadata)
        consumer_settings_of = _consumer_settings(config, self.group_configs)
        streams_settings_of = _streams_settings(config, self.group_configs)
        self.groups = GroupCoordinator(
            self.topics, self.commit, clock, _group_settings(config), consumer_settings_of, streams_settings_of
        )
        self.groups.registry.member_bytes.bytes_max = int(config.get("mainstem.groups.bytes.max"))
        letters = LetterWriter(self.topics, self.commit, clock, self.group_configs, letter_rules, self.remote)
        self.share = Shares(
            self.topics, self.commit, self.fetches, clock, config, self.group_configs, self.groups, letters
        )
        self.compaction = Compaction(config, clock, log)
        self.trees = Trees(log.directory, str(config.get("mainstem.signing.keys")))
        self._producer_ids = range(0)
        self.markers = Markers(self.topics, self.commit, clock, self.groups.transactional)
        self.transactions = TransactionCoordinator(
            self.topics, self.commit, clock, self.markers, self.next_producer_id, _transaction_settings(config)
        )

    @classmethod
    def open(cls, config: BrokerConfig, disk: Disk, clock: Clock, apis: Mapping[int, ServedApi]) -> Node:
        """Open the data directory, recover it, and replay groups and transactions.

        Raises ConfigError, DirectoryLockedError, StorageError.
        """
        pieces = None
        if url := config.get("mainstem.remote.storage.url"):
            from mainstem.broker.storage.remote.remote_pieces import remote_pieces  # most nodes need it never

            pieces = remote_pieces(str(url), config)
        log = NodeLog.open(disk, clock, config.data_dir, config.topic_defaults(), pieces)
        try:
            node = cls(config, clock, log, apis, pieces)
        except ConfigError:
            log.close()
            raise
        node.groups.load()
        node.transactions.load()
        return node

    def _set_topic_defaults(self, defaults: dict[str, str]) -> None:
        self.log.set_defaults(defaults)
        self.fetches.wake_all()  # a config may have moved what is visible

    def changeable_configs(self, resource_type: int, name: str) -> ChangeableConfigs:
        """Return the configs of a resource. Raises RemoteError where none can be changed, UnknownTopicError."""
        if resource_type == ConfigResourceType.TOPIC:
            topic = self.topics.get(name)
            replace = partial(self._set_topic_configs, name)
            return ChangeableConfigs({} if topic is None else topic.configs, CONFIGS, replace)
        if resource_type == ConfigResourceType.GROUP:
            replace = partial(self.group_configs.set, name)
            return ChangeableConfigs(self.group_configs.overrides(name), GROUP_CONFIGS, replace)
        if resource_type == ConfigResourceType.BROKER:
            return ChangeableConfigs(self.configs.overrides(name), SETTINGS, partial(self.configs.set, name))
        if resource_type == ConfigResourceType.CLIENT_METRICS:
            subscriptions = self.telemetry.configs
            return ChangeableConfigs(
                subscriptions.overrides(name), CLIENT_METRICS_CONFIGS, partial(subscriptions.set, name)
            )
        raise refusal(ErrorCode.INVALID_REQUEST, f"resources of type {resource_type} have no configs here")

    def _set_topic_configs(self, name: str, overrides: Mapping[str, str], *, validate_only: bool) -> None:
        if not name:
            raise refusal(ErrorCode.INVALID_REQUEST, "the resource has no name: give the name of a topic")
        self.topics.set_configs(name, overrides, validate_only=validate_only)
        self.fetches.wake_all()  # a config may have changed which records are visible

    def next_producer_id(self) -> int:
        """Return an id that no producer ever had. Raises StorageError."""
        if not self._producer_ids:
            self._producer_ids = self.log.metadata.allocate_producer_ids()
        producer_id, self._producer_ids = self._producer_ids[0], self._producer_ids[1:]
        return producer_id

    def keep_producer_ids_above(self, producer_id: int) -> None:
        """Give out no id up to this one, which another log gave out, nor soon after it. Raises StorageError."""
        self._producer_ids = range(max(self._producer_ids.start, producer_id + 1), self._producer_ids.stop)
        if producer_id >= self.log.metadata.next_producer_id:
            self.log.metadata.reserve_producer_ids(producer_id + 1 + _PRODUCER_IDS_OF_A_SOURCE)

    async def delete_topic(self, topic: Topic) -> None:
        """Delete a topic, wake the requests that wait for it, and drop its committed offsets.

        Raises StorageError, and UnknownTopicError when another request has deleted it meanwhile.
        """
        async with self.trees.resting(topic.topic_id):
            now = self.topics.by_id(topic.topic_id)
            if now is None:
                raise UnknownTopicError(f"topic {topic.name!r} was deleted")
            logs = now.partitions.opened()
            self.topics.delete(now)
        self.meters.forget(topic.name)
        for log in logs:
            self.commit.forget(log)
            self.fetches.wake(log)
        self.share.coordinator.topic_deleted(topic.topic_id)
        await self.groups.topic_deleted(topic.name)

    def start_checkpoint(self) -> CheckpointWrite | None:
        """Create the write of the checkpoint files from the current state; ``run`` it in a thread."""
        return self.log.directory.start_checkpoint()

    def write_checkpoints(self) -> None:
        """Write the checkpoint files now. Raises StorageError."""
        self.log.directory.write_checkpoints()

    async def close(self) -> None:
        """Make everything durable and release the directory. Raises StorageError."""
        await self.append_checks.stop()
        self.transactions.stop()
        self.security.close()
        self.groups.stop()
        self.share.stop()
        await self.commit.stop()
        await self.trees.stop()
        await self.remote.stop()
        self.log.close()


def _windows(config: BrokerConfig, name: str) -> Windows:
    return Windows(config.get(f"{name}.window.num"), float(config.get(f"{name}.window.size.seconds")))


def _authorizer(config: BrokerConfig, metadata: Metadata) -> Authorizer | None:
    """Return the authorizer; None when the settings name none: then every client may do everything."""
    super_users = config.get("super.users")
    if not config.get("authorizer.class.name") and not super_users:
        return None
    return Authorizer(metadata, super_users, allows_unlisted=bool(config.get("allow.everyone.if.no.acl.found")))


def _consumer_settings(config: BrokerConfig, group_configs: GroupConfigs) -> Callable[[str], ConsumerSettings]:
    members_max = int(config.get("group.consumer.max.size"))
    migration = MigrationPolicy(config.get("group.consumer.migration.policy"))

    def settings_of(group_id: str) -> ConsumerSettings:
        return ConsumerSettings(
            session_timeout_ms=group_configs.get(group_id, "consumer.session.timeout.ms"),
            heartbeat_interval_ms=group_configs.get(group_id, "consumer.heartbeat.interval.ms"),
            members_max=members_max,
            migration=migration,
        )

    return settings_of


def _streams_settings(config: BrokerConfig, group_configs: GroupConfigs) -> Callable[[str], StreamsSettings]:
    members_max = int(config.get("group.streams.max.size"))

    def settings_of(group_id: str) -> StreamsSettings:
        return StreamsSettings(
            session_timeout_ms=group_configs.get(group_id, "streams.session.timeout.ms"),
            heartbeat_interval_ms=group_configs.get(group_id, "streams.heartbeat.interval.ms"),
            members_max=members_max,
            standbys=group_configs.get(group_id, "streams.num.standby.replicas"),
        )

    return settings_of


def _group_settings(config: BrokerConfig) -> ClassicSettings:
    return ClassicSettings(
        session_timeout_ms_min=int(config.get("group.min.session.timeout.ms")),
        session_timeout_ms_max=int(config.get("group.max.session.timeout.ms")),
        initial_rebalance_delay_ms=int(config.get("group.initial.rebalance.delay.ms")),
        members_max=int(config.get("group.max.size")),
    )


def _transaction_settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        timeout_ms_max=int(config.get("transaction.max.timeout.ms")),
        expiration_ms=int(config.get("transactional.id.expiration.ms")),
        expiration_check_s=int(config.get("transaction.remove.expired.transaction.cleanup.interval.ms")) / 1000,
        allows_two_phase=bool(config.get("transaction.two.phase.commit.enable")),
    )
