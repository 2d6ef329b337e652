"""The groups of this node: the parts common to all types. The coordinator of each type registers here.

A committed offset belongs to the id of the topic that had the name at the commit. A crash between a topic's deletion
and the tombstones of its offsets leaves offsets in the log. They are never served, and the next start removes them.

The state is a replay of ``__consumer_offsets``: committed offsets are read here, the records of a type by its
``GroupKind``. A group id has one type; a group that only has committed offsets is a classic one.

Concurrency: the event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.classic.classic_coordinator import ClassicCoordinator
from mainstem.broker.groups.classic.classic_group import ClassicGroup
from mainstem.broker.groups.classic.classic_steps import ClassicSettings
from mainstem.broker.groups.consumer.consumer_coordinator import ConsumerCoordinator
from mainstem.broker.groups.consumer.consumer_steps import ConsumerSettings
from mainstem.broker.groups.group_log import GroupLog
from mainstem.broker.groups.group_types import CommitCheck, Group, GroupKind, GroupRegistry, GroupType
from mainstem.broker.groups.migration.membership import Membership
from mainstem.broker.groups.offsets import offsets
from mainstem.broker.groups.offsets.transactional_offsets import TransactionalOffsets
from mainstem.broker.groups.records import (
    OFFSET_KEY_TYPES,
    CommittedOffset,
    OffsetKey,
    OffsetRecord,
    key_type,
    offset_changes,
    offset_record,
    read_offset_change,
)
from mainstem.broker.groups.streams.streams_coordinator import StreamsCoordinator
from mainstem.broker.groups.streams.streams_steps import StreamsSettings
from mainstem.broker.storage.group_commit import GroupCommit
from mainstem.broker.storage.topics import Topics
from mainstem.clock import Clock
from mainstem.errors import MainstemError, RemoteError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.schema import ZERO_UUID

_GROUP_NOT_FOUND_FROM: Final = 9
"""The version of OffsetCommit from which clients know that a group is not there."""
_LOG: Final = logging.getLogger("mainstem.broker.groups")


class GroupCoordinator:
    """All groups of this node. ``classic`` and the others that are registered coordinate one type each."""

    def __init__(
        self,
        topics: Topics,
        commit: GroupCommit,
        clock: Clock,
        settings: ClassicSettings,
        consumer_settings_of: Callable[[str], ConsumerSettings],
        streams_settings_of: Callable[[str], StreamsSettings],
    ) -> None:
        self.log = GroupLog(topics, commit, clock)
        self._topics = topics
        self.registry = GroupRegistry()
        self._offsets = offsets.OffsetStore()
        self.transactional = TransactionalOffsets(self.log, self._transaction_committed)
        self.classic = ClassicCoordinator(self.log, self.registry, self._offsets, clock, settings)
        self.consumer = ConsumerCoordinator(
            self.log, self.registry, self._offsets, self.classic, topics, clock, consumer_settings_of
        )
        self.membership = Membership(self.log, self.registry, self.classic, self.consumer)
        self.streams = StreamsCoordinator(self.log, self.registry, self._offsets, topics, clock, streams_settings_of)
        self._kinds: dict[GroupType, GroupKind] = {}
        self._kind_of_record: dict[int, GroupKind] = {}
        self.register(GroupType.CLASSIC, self.classic)
        self.register(GroupType.CONSUMER, self.consumer)
        self.register(GroupType.STREAMS, self.streams)

    # ---- start and stop

    def register(self, group_type: GroupType, kind: GroupKind) -> None:
        """Let ``kind`` coordinate the groups of a type; before ``load``."""
        self._kinds[group_type] = kind
        self._kind_of_record.update(dict.fromkeys(kind.record_types, kind))

    def load(self) -> None:
        """Replay ``__consumer_offsets``, and forget what was committed in topics that were deleted."""
        self.log.replay(self._apply, self.transactional)
        for group in self.registry:
            self.registry.member_bytes.count(group)
        self._forget_deleted_topics()
        for kind in self._kinds.values():
            kind.loaded()

    def _apply(self, key: bytes, value: bytes | None) -> None:
        record_type = key_type(key)
        if record_type in OFFSET_KEY_TYPES:
            change = read_offset_change(key, value)
            self.transactional.pending.overtake([change.key])
            self._apply_offset(change)
        elif (kind := self._kind_of_record.get(record_type)) is not None:
            kind.replay(key, value)

    def _forget_deleted_topics(self) -> None:
        keys = [
            OffsetKey(group_id, topic, partition)
            for group_id, held in self.committed()
            for (topic, partition), offset in held.items()
            if not self._is_of(topic, offset)
        ]
        if keys:
            _LOG.info("%d committed offsets of deleted topics are removed", len(keys))
            self._forget(keys)

    def _is_of(self, topic_name: str, committed: CommittedOffset) -> bool:
        """Whether the topic that has this name now is the one in which the offset was committed."""
        topic = self._topics.get(topic_name)
        return topic is not None and committed.topic_id in (ZERO_UUID, topic.topic_id)

    def _transaction_committed(self, change: OffsetRecord) -> None:
        """A transaction's offset counts from now on, unless its topic was deleted while the transaction was open."""
        if change.committed is None or self._is_of(change.key.topic, change.committed):
            self._apply_offset(change)

    def _apply_offset(self, change: OffsetRecord) -> None:
        self._offsets.apply(change)
        if change.committed is None:
            self.classic.drop_if_unused(change.key.group_id)
        elif self.registry.get(change.key.group_id) is None:
            self.classic.create(change.key.group_id)

    def stop(self) -> None:
        """Forget all timers."""
        self.classic.stop()
        self.consumer.stop()
        self.streams.stop()

    # ---- committed offsets

    def check_commit(
        self, group_id: str, member_id: str, instance_id: str | None, generation_id: int, api_version: int
    ) -> CommitCheck:
        """Whether this member may commit offsets; it has then shown that it lives."""
        if code := self.log.partition_refusal(group_id):
            return CommitCheck(code)
        group = self.registry.get(group_id)
        if group is None:
            if generation_id < 0:
                return CommitCheck(ErrorCode.NONE)
            knows_missing = api_version >= _GROUP_NOT_FOUND_FROM
            return CommitCheck(ErrorCode.GROUP_ID_NOT_FOUND if knows_missing else ErrorCode.ILLEGAL_GENERATION)
        code, of_partition = ErrorCode.NONE, None
        try:
            of_partition = group.check_commit(member_id, instance_id, generation_id, api_version)
        except RemoteError as error:
            code = ErrorCode(error.code)
        if isinstance(group, ClassicGroup) and code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.classic.alive(group, member_id)
        return CommitCheck(code, of_partition)

    def append_offsets(self, group_id: str, committed: Mapping[tuple[str, int], CommittedOffset]) -> None:
        """Keep offsets, durable after ``log.until_durable``. Raises the log's errors: then nothing is kept."""
        self._change_offsets(group_id, offset_changes(group_id, committed))
        self.ensure_group(group_id)

    def _change_offsets(self, group_id: str, changes: Sequence[OffsetRecord], more: Sequence[StateRecord] = ()) -> None:
        """Set or remove committed offsets of a group, and write more of its records. Raises the log's errors."""
        records = [*(offset_record(change.key, change.committed) for change in changes), *more]
        self.log.change(group_id, records, lambda: self._apply_offsets(changes))

    def _apply_offsets(self, changes: Iterable[OffsetRecord]) -> None:
        for change in changes:
            self._offsets.apply(change)
            self.transactional.pending.overtake([change.key])

    def ensure_group(self, group_id: str) -> None:
        """A group is known from its first offset on, also while that is part of an open transaction."""
        if self.registry.get(group_id) is None:
            self.classic.create(group_id)

    async def fetch_offsets(
        self, group_id: str, member_id: str | None = None, member_epoch: int = -1
    ) -> Mapping[tuple[str, int], CommittedOffset]:
        """All that a group committed, once it is durable. Raises RemoteError when that is not known, or not for all."""
        if code := self.log.partition_refusal(group_id):
            raise refusal(code)
        group = self.registry.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)
        held = dict(self._offsets.of_group(group_id))
        if held:
            await self.log.until_durable(group_id)
        return held

    def committed(self) -> Iterator[tuple[str, Mapping[tuple[str, int], CommittedOffset]]]:
        """The committed offsets of each group: (topic, partition) → offset."""
        for group_id in self._offsets.group_ids():
            yield group_id, self._offsets.of_group(group_id)

    async def delete_offsets(self, keys: Iterable[OffsetKey]) -> None:
        """Remove committed offsets; returns when that is durable."""
        for group_id, of_group in _by_group(keys).items():
            self._remove(group_id, of_group)
            await self.log.until_durable(group_id)

    async def topic_deleted(self, topic: str) -> None:
        """Forget what was committed in a deleted topic; returns when that is durable, or refused.

        The memory forgets at once, for all groups, whether the disk takes the tombstones or not: the deletion stands.
        Tombstones that the disk refuses are written by the next start, which knows the topic by its id.
        """
        keys = {*self._offsets.keys_of_topic(topic), *self.transactional.pending.keys_of_topic(topic)}
        for group_id in self._forget(keys):
            try:
                await self.log.until_durable(group_id)
            except MainstemError as error:
                _LOG.warning("offsets of group %r in deleted topic %s stay in the log: %s", group_id, topic, error)

    def _forget(self, keys: Iterable[OffsetKey]) -> list[str]:
        """Forget offsets of topics that are deleted, in the log as far as the disk lets it; the groups they were of."""
        by_group = _by_group(keys)
        for group_id, of_group in by_group.items():
            try:
                if not self.log.refusal(group_id):
                    self.log.change(group_id, [offset_record(key, None) for key in of_group])
            except MainstemError as error:
                _LOG.warning("offsets of group %r in deleted topics stay in the log: %s", group_id, error)
            self._apply_offsets(OffsetRecord(key, None) for key in of_group)
        return list(by_group)

    def expire_offsets(self, now_ms: int, retention_ms: int) -> Iterator[None]:
        """Forget offsets whose time is over, and groups that are left with nothing; a turn for each group.

        A request for a group is meanwhile answered after the group's tombstones are durable, as always.
        """
        for group_id in [group.group_id for group in self.registry]:
            group = self.registry.get(group_id)
            # Share groups have no committed offsets, and end by themselves.
            if group is not None and group.group_type is not GroupType.SHARE:
                try:
                    self._expire_offsets_of(group, now_ms, retention_ms)
                except MainstemError as error:
                    _LOG.warning("the old offsets of group %r stay: %s", group.group_id, error)
                except Exception as error:  # noqa: BLE001 - one group does not keep the offsets of the others
                    _LOG.error("the old offsets of group %.300r stay", group.group_id, exc_info=error)
            yield

    def _expire_offsets_of(self, group: Group, now_ms: int, retention_ms: int) -> None:
        if self.log.partition_refusal(group.group_id):
            return
        held = self._offsets.of_group(group.group_id)
        in_use = self.transactional.pending.of_group(group.group_id)
        if not held and not in_use:
            self.classic.drop_if_unused(group.group_id)
        if self.registry.get(group.group_id) is None:
            return
        keys = offsets.expired(group, held, now_ms, retention_ms)
        keys = [key for key in keys if (key.topic, key.partition) not in in_use]
        is_unused = group.is_empty and not in_use and not _is_about_to_be_joined(group)
        if is_unused and len(keys) == len(held):
            self._delete(group)
        elif keys:
            self._remove(group.group_id, keys)

    # ---- what admins see and do

    def group(self, group_id: str) -> Group | None:
        return self.registry.get(group_id)

    def groups(self) -> list[Group]:
        return list(self.registry)

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Remove a group without members, and its offsets; the answer comes when that is durable."""
        group = self.registry.get(group_id)
        if group is None:
            return self.log.partition_refusal(group_id) or ErrorCode.GROUP_ID_NOT_FOUND
        if not group.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        self._delete(group)
        await self.log.until_durable(group_id)
        return ErrorCode.NONE

    def _delete(self, group: Group) -> None:
        group_id = group.group_id
        committed = (OffsetKey(group_id, topic, number) for topic, number in self._offsets.of_group(group_id))
        keys = {*committed, *self.transactional.pending.keys_of_group(group_id)}
        self._remove(group_id, sorted(keys), group.tombstones())
        self.registry.remove(group_id)
        self._kinds[group.group_type].forgotten(group_id)

    def _remove(self, group_id: str, keys: Sequence[OffsetKey], more: Sequence[StateRecord] = ()) -> None:
        self._change_offsets(group_id, [OffsetRecord(key, None) for key in keys], more)


def _is_about_to_be_joined(group: Group) -> bool:
    return isinstance(group, ClassicGroup) and bool(group.pending_members)


def _by_group(keys: Iterable[OffsetKey]) -> dict[str, list[OffsetKey]]:
    by_group: dict[str, list[OffsetKey]] = {}
    for key in keys:
        by_group.setdefault(key.group_id, []).append(key)
    return by_group
