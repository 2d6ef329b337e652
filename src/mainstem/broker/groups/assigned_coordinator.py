"""The common part of the coordinators of consumer and streams groups: replay, timers, the write before a change.

The coordinator writes a step's records before it replaces the group, so memory is never ahead of the log, even when a
write fails. Concurrency: the event loop only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.coordinator.timers import GroupTimers
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.assigned_group import AssignedGroup
from mainstem.broker.groups.catalog import TopicCatalog
from mainstem.broker.groups.classic.classic_group import ClassicGroup
from mainstem.broker.groups.group_log import GroupLog
from mainstem.broker.groups.group_types import GroupRegistry
from mainstem.broker.groups.offsets.offsets import OffsetStore
from mainstem.broker.storage.topics import Topics
from mainstem.clock import Clock
from mainstem.errors import RemoteError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.schema import Message

_Group = TypeVar("_Group", bound=AssignedGroup[Any, Any])


class KindOfGroup(NamedTuple, Generic[_Group]):
    """A type of group, and how its records are read."""

    group_class: type[_Group]
    metadata_key: type[Message]
    read_record: Callable[[bytes, bytes | None], tuple[Message, Message | None]]
    replay_into: Callable[[_Group, Any, Any], None]
    finish_replay: Callable[[_Group], None]


class AssignedCoordinator(ABC, Generic[_Group]):
    """All groups of one type; a ``GroupKind``."""

    def __init__(
        self,
        kind: KindOfGroup[_Group],
        log: GroupLog,
        groups: GroupRegistry,
        offsets: OffsetStore,
        topics: Topics,
        clock: Clock,
    ) -> None:
        self._kind = kind
        self._log = log
        self._groups = groups
        self._offsets = offsets
        self._clock = clock
        self._catalog = TopicCatalog(topics)
        self._timers = GroupTimers(clock, self._expire)

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take a record in when the node starts. Raises FrameError for one that is damaged."""
        name, body = self._kind.read_record(key, value)
        group_id: str = name.group_id  # type: ignore[attr-defined]
        group = self._find(group_id)
        if isinstance(name, self._kind.metadata_key) and body is None:
            if group is not None:
                self._groups.remove(group_id)
                if self._offsets.has(group_id):
                    self._groups.put(ClassicGroup(group_id))
            return
        if group is None:
            if body is None:
                return
            group = self._kind.group_class(group_id)
            self._groups.put(group)
        self._kind.replay_into(group, name, body)

    def loaded(self) -> None:
        """Members get a whole session to show that they live, and a whole time-out for what they have to give up."""
        now_s = self._clock.monotonic_s()
        for each in self._groups:
            group = self._find(each.group_id)
            if group is None:
                continue
            self._kind.finish_replay(group)
            self._resume(group)
            for member_id, member in group.members.items():
                if member.gives_up:
                    group.give_up_in_time(member_id, now_s)
            self.watch(group.group_id)

    def stop(self) -> None:
        """Forget all timers."""
        self._timers.stop()

    def forgotten(self, group_id: str) -> None:
        """A group of this type was deleted."""
        self._timers.forget(group_id)

    @abstractmethod
    def _resume(self, group: _Group) -> None:
        """Begin the sessions of a group that was replayed."""

    # ---- steps

    def _find(self, group_id: str) -> _Group | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, self._kind.group_class) else None

    def _find_or_new(self, group_id: str, member_epoch: int) -> tuple[_Group, Sequence[StateRecord]]:
        """The group, and the records that create it in place of an empty classic group. Raises RemoteError."""
        found = self._find(group_id)
        if found is not None:
            return found, []
        group = self._groups.get(group_id)
        if group is None and member_epoch != 0:
            raise refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist")
        if group is None:
            return self._kind.group_class(group_id), []
        if member_epoch == 0 and isinstance(group, ClassicGroup):
            if group.is_empty:
                return self._kind.group_class(group_id), group.tombstones()
            return self._upgraded(group)
        raise _is_other(group.group_id, group.group_type.value, group.state_name)

    def _upgraded(self, group: ClassicGroup) -> tuple[_Group, Sequence[StateRecord]]:
        """A classic group with members becomes one of this type. Raises RemoteError where it cannot."""
        raise _is_other(group.group_id, group.group_type.value, group.state_name)

    def _write(self, group: _Group, records: Sequence[StateRecord], first: Sequence[StateRecord] = ()) -> None:
        """Write a step's records, ``first`` before them, and let the group be what the step made of it.

        Raises the log's errors; then the group stays as it was.
        """
        self._log.change(group.group_id, [*first, *records] if records else [], lambda: self._apply(group))

    def _apply(self, group: _Group) -> None:
        if group is not self._groups.get(group.group_id):
            self._groups.put(group)
        self.watch(group.group_id)

    # ---- time

    def watch(self, group_id: str) -> None:
        """See that what the group has to do by itself is done in time."""
        group = self._find(group_id)
        if group is not None:
            self._timers.watch(group_id, group.next_deadline_s())

    def _expire(self, group_id: str) -> None:
        group = self._find(group_id)
        if group is not None:
            self._pass_time(group)

    @abstractmethod
    def _pass_time(self, group: _Group) -> None:
        """Remove the members whose time is up."""


def _is_other(group_id: str, group_type: str, state: str) -> RemoteError:
    return refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} is a {group_type} group in state {state}")
