"""The coordinator of share groups: runs their steps, writes their records, and watches their members.

Members and assignments are a replay of ``__consumer_offsets``; the state of share partitions is a replay of
``__share_group_state``. A partition's state begins when its group first assigns it, at the offset that the group's
configs set. The member gets the assignment when that state is durable. A crash in the middle of a deletion leaves state
without a group; the next start removes it. State stays while the partition of its group cannot be read: the group may
still be in it.

Each step changes a copy of the group. The copy replaces the group when its records are written, so memory is never
ahead of the log, even when a write fails.

Concurrency: the event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from mainstem.broker.call import Call
from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.configs.group_configs import GroupConfigs
from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.coordinator.timers import GroupTimers
from mainstem.broker.error_codes import coordinator_code, refusal
from mainstem.broker.groups.coordinator import GroupCoordinator
from mainstem.broker.share import group_records, group_steps
from mainstem.broker.share.assignor import TopicShape
from mainstem.broker.share.group import ShareGroup
from mainstem.broker.share.group_records import SharedTopic
from mainstem.broker.share.group_steps import GroupEffects, GroupLimits, ShareNow
from mainstem.broker.share.share_partition_manager import SharePartitionManager
from mainstem.broker.share.state_log import SharePartition, ShareStateLog
from mainstem.broker.share.state_records import ShareKey
from mainstem.broker.storage.topics import Topic, Topics
from mainstem.clock import Clock
from mainstem.errors import MainstemError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

_LOG: Final = logging.getLogger("mainstem.broker.share")


class ShareCoordinator:
    """All share groups of this node; a ``GroupKind``."""

    record_types = group_records.RECORD_TYPES

    def __init__(
        self,
        groups: GroupCoordinator,
        topics: Topics,
        clock: Clock,
        config: BrokerConfig,
        configs: GroupConfigs,
        state: ShareStateLog,
        partition_manager: SharePartitionManager,
    ) -> None:
        self._log = groups.log
        self._registry = groups.registry
        self._topics = topics
        self._clock = clock
        self._configs = configs
        self._state = state
        self._partition_manager = partition_manager
        self._members_max = int(config.get("group.share.max.size"))
        self._timers = GroupTimers(clock, self._expire)

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take a record in when the node starts. Raises FrameError for one that is damaged."""
        change = group_records.read_share_group_change(key, value)
        group = self.group(change.group_id)
        if group is None:
            if value is None:
                return
            group = ShareGroup(change.group_id)
            self._registry.put(group)
        if change.member_id is not None:
            group_steps.replay_member(group, change)
        elif change.record_type == group_records.GROUP_TYPE and value is None:
            self._registry.remove(change.group_id)
        else:
            group_steps.replay_group(group, change)

    def loaded(self) -> None:
        """Members get a whole session to show that they live."""
        self._state.load()
        known = {group.group_id for group in self._groups()}
        for partition in self._state.all():
            topic = self._topics.by_id(partition.key.topic_id)
            group_id = partition.key.group_id
            is_deleted = group_id not in known and not self._log.partition_refusal(group_id)
            if is_deleted or topic is None:
                self._remove([partition])
            elif partition.key.partition < len(topic.partitions):
                self._compare(partition, topic.partitions[partition.key.partition])
        for group in self._groups():
            self._forget_topics(group, {each for each in group.shared if self._topics.by_id(each) is None})
            now = self._now(group.group_id)
            for member in group.members.values():
                member.session_deadline_s = now.monotonic_s + now.limits.session_timeout_ms / 1000
            self._watch(group)

    def _compare(self, partition: SharePartition, log: PartitionLog | None) -> None:
        try:
            if log is not None:
                self._partition_manager.cut_to(partition, log)
        except MainstemError as error:
            _LOG.error("%s: the state of lost records could not be removed: %s", partition.key.text, error)

    def forgotten(self, group_id: str) -> None:
        """A share group was deleted, and is out of the registry."""
        self._timers.forget(group_id)
        self._remove(self._state.of_group(group_id))

    def _remove(self, partitions: Iterable[SharePartition]) -> None:
        try:
            self._state.remove(partitions)
        except MainstemError as error:  # the next start finds it without a group or a topic, and tries again
            _LOG.warning("the state of a deleted group or topic could not be removed: %s", error)

    def stop(self) -> None:
        """Forget all timers."""
        self._timers.stop()

    # ---- groups

    def group(self, group_id: str) -> ShareGroup | None:
        """The share group of that id; None when there is none, or a group of another type."""
        group = self._registry.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def find(self, group_id: str) -> ShareGroup:
        """The share group of that id. Raises RemoteError."""
        if code := self._log.refusal(group_id):
            raise refusal(code)
        group = self.group(group_id)
        if group is None:
            raise refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no share group {group_id!r}")
        return group

    def find_or_create(self, group_id: str) -> ShareGroup:
        """The share group of that id, which is new if the id is free. Raises RemoteError, the log's errors.

        State that a deleted group of that id left, because the disk refused its tombstones, is removed before.
        """
        if self._registry.get(group_id) is not None:
            return self.find(group_id)
        if code := self._log.refusal(group_id):
            raise refusal(code)
        self._state.remove(self._state.of_group(group_id))
        return ShareGroup(group_id)

    def _groups(self) -> list[ShareGroup]:
        return [group for group in self._registry if isinstance(group, ShareGroup)]

    async def heartbeat(self, call: Call) -> ShareGroupHeartbeatResponse:
        """A member joins, stays or leaves; answered when all that its group did is durable."""
        request: ShareGroupHeartbeatRequest = call.body
        try:
            group_steps.check_request(request)
            joins = request.member_epoch == group_steps.JOIN_EPOCH
            found = self.find_or_create(request.group_id) if joins else self.find(request.group_id)
            topics = set(request.subscribed_topic_names or ())
            self._registry.member_bytes.check_names(request.group_id, request.member_id, topics)
            group = found.copy(request.member_id)
            names = {*group.topics, *topics}
            sender = (call.client_id or "", call.client_host)
            effects = group_steps.heartbeat(group, request, sender, self._shapes(names), self._now(group.group_id))
            keys, shared = self._share(group)
            self._run(group, effects, [*effects.records, *shared])
            await self._state.until_durable(keys)
            await self._log.until_durable(group.group_id)
        except MainstemError as error:
            return _refused(error)
        assert effects.answer is not None
        return effects.answer

    def _run(self, group: ShareGroup, effects: GroupEffects, records: Sequence[StateRecord]) -> None:
        """Write the records, and let ``group`` be what its id names. Raises the log's errors: then nothing changed."""
        self._log.change(group.group_id, records, lambda: self._apply(group))

    def _apply(self, group: ShareGroup) -> None:
        self._registry.put(group)
        self._watch(group)

    def _share(self, group: ShareGroup) -> tuple[list[ShareKey], list[StateRecord]]:
        """Begin to keep the state of what was assigned for the first time. Raises RemoteError, the log's errors."""
        keys = []
        shared = dict(group.shared)
        for name in group.topics:
            topic = self._topics.get(name)
            if topic is None:
                continue
            held = set(shared[topic.topic_id].partitions) if topic.topic_id in shared else set()
            new = [number for number in range(len(topic.partitions)) if number not in held]
            for number in new:
                if topic.partitions[number] is not None:
                    key = ShareKey(group.group_id, topic.topic_id, number)
                    self._partition_manager.open(key, topic.partition(number))
                    keys.append(key)
            if new:
                shared[topic.topic_id] = SharedTopic(name, tuple(range(len(topic.partitions))))
        if not keys:
            return [], []
        group.shared = shared
        return keys, [group_records.shared_record(group.group_id, shared)]

    # ---- what admins do

    async def alter_offsets(self, group: ShareGroup, offsets: Mapping[tuple[UUID, int], int]) -> None:
        """Reset an empty group to these offsets; returns when that is durable. Raises RemoteError, the log's errors."""
        _require_empty(group)
        group = group.copy()
        keys = []
        records: list[StateRecord] = []
        if self.group(group.group_id) is None:
            records.append(group_records.epoch_record(group))
        for (topic_id, number), offset in offsets.items():
            topic = self._topics.by_id(topic_id)
            if topic is None:
                continue
            key = ShareKey(group.group_id, topic_id, number)
            self._state.reset(self._partition_manager.open(key, topic.partition(number)), offset)
            keys.append(key)
            before = group.shared.get(topic_id)
            numbers = {number, *(before.partitions if before is not None else ())}
            group.shared[topic_id] = SharedTopic(topic.name, tuple(sorted(numbers)))
        if keys:
            records.append(group_records.shared_record(group.group_id, group.shared))
        self._log.change(group.group_id, records, lambda: self._apply(group))
        await self._state.until_durable(keys)
        await self._log.until_durable(group.group_id)

    async def delete_offsets(self, group: ShareGroup, topics: Iterable[Topic]) -> None:
        """Forget the state of topics in an empty group; returns when that is durable. Raises RemoteError, the log's
        errors.
        """
        _require_empty(group)
        gone = {topic.topic_id for topic in topics}
        partitions = [each for each in self._state.of_group(group.group_id) if each.key.topic_id in gone]
        self._state.remove(partitions)
        changed = group.without_topics(gone)
        record = group_records.shared_record(group.group_id, changed.shared)
        self._log.change(group.group_id, [record], lambda: self._registry.put(changed))
        await self._state.until_durable(partition.key for partition in partitions)
        await self._log.until_durable(group.group_id)

    def topic_deleted(self, topic_id: UUID) -> None:
        """The state of a deleted topic is deleted with it. If that cannot be written now, the next start removes it."""
        self._remove(self._state.of_topic(topic_id))
        for group in self._groups():
            self._forget_topics(group, {topic_id} & group.shared.keys())

    def _forget_topics(self, group: ShareGroup, gone: Collection[UUID]) -> None:
        if not gone:
            return
        changed = group.without_topics(gone)
        self._registry.put(changed)
        try:
            self._log.change(group.group_id, [group_records.shared_record(group.group_id, changed.shared)])
        except MainstemError as error:  # the next start finds them without a topic, and tries again
            _LOG.warning("share group %r: deleted topics stay in its subscription: %s", group.group_id, error)

    # ---- the clock

    def _now(self, group_id: str) -> ShareNow:
        limits = GroupLimits(
            self._members_max,
            self._configs.get(group_id, "share.heartbeat.interval.ms"),
            self._configs.get(group_id, "share.session.timeout.ms"),
        )
        return ShareNow(self._clock.monotonic_s(), self._clock.time_ms(), limits)

    def _watch(self, group: ShareGroup) -> None:
        self._timers.watch(group.group_id, group.next_deadline_s)

    def _expire(self, group_id: str) -> None:
        group = self.group(group_id)
        if group is None:
            return
        group = group.copy()
        effects = group_steps.expire(group, self._shapes(group.topics), self._now(group_id))
        self._run(group, effects, effects.records)

    def _shapes(self, names: Iterable[str]) -> dict[str, TopicShape]:
        found = ((name, self._topics.get(name)) for name in names)
        return {name: TopicShape(topic.topic_id, len(topic.partitions)) for name, topic in found if topic is not None}


def _require_empty(group: ShareGroup) -> None:
    if not group.is_empty:
        raise refusal(ErrorCode.NON_EMPTY_GROUP, f"share group {group.group_id!r} has {len(group.members)} members")


def _refused(error: MainstemError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        error_code=coordinator_code(error), error_message=str(error), member_epoch=0, heartbeat_interval_ms=0
    )
