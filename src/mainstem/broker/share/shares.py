"""All that a node has for share groups, put together: ``node.share``."""

from __future__ import annotations

from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.configs.group_configs import GroupConfigs
from mainstem.broker.groups.coordinator import GroupCoordinator
from mainstem.broker.groups.group_types import GroupType
from mainstem.broker.share.coordinator import ShareCoordinator
from mainstem.broker.share.dead_letters.letter_writer import LetterWriter
from mainstem.broker.share.sessions import ShareSession, ShareSessions
from mainstem.broker.share.share_partition_manager import SharePartitionManager
from mainstem.broker.share.state_log import ShareStateLog
from mainstem.broker.share.state_records import ShareKey
from mainstem.broker.storage.delayed_fetch import DelayedFetches
from mainstem.broker.storage.group_commit import GroupCommit
from mainstem.broker.storage.topics import Topics
from mainstem.clock import Clock


class Shares:
    """The share groups of a node: their coordinator, partitions, sessions and state."""

    def __init__(
        self,
        topics: Topics,
        commit: GroupCommit,
        fetches: DelayedFetches,
        clock: Clock,
        config: BrokerConfig,
        configs: GroupConfigs,
        groups: GroupCoordinator,
        letters: LetterWriter,
    ) -> None:
        updates = int(config.get("share.coordinator.snapshot.update.records.per.snapshot"))
        self.topics = topics
        self.state = ShareStateLog(topics, commit, clock, updates)
        self.partitions = SharePartitionManager(topics, fetches, clock, configs, self.state, letters)
        self.sessions = ShareSessions(int(config.get("group.share.max.share.sessions")), self._session_ended)
        self.coordinator = ShareCoordinator(groups, topics, clock, config, configs, self.state, self.partitions)
        groups.register(GroupType.SHARE, self.coordinator)

    def _session_ended(self, session: ShareSession) -> None:
        """Release the records that the member holds in the partitions of its session."""
        group_id, member_id = session.key
        held = (self.state.get(ShareKey(group_id, *partition)) for partition in session.partitions)
        self.partitions.release([partition for partition in held if partition is not None], member_id)

    def stop(self) -> None:
        """Forget all timers."""
        self.coordinator.stop()
        self.partitions.stop()
