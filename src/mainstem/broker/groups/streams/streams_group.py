"""A streams group (KIP-1071): its members, the program's topology, and the target and current tasks of each member.

Each member follows the group's target (``assigned_group``), and first gives up tasks that are not in it.
``streams_steps`` changes copies of it: a group whose records could not be written stays as it was.

Invariants: an active task has at most one owner, who has it assigned or has still to give it up; a target names members
that are there, each active task once.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.groups.assigned_group import AssignedGroup
from mainstem.broker.groups.group_types import GroupType
from mainstem.broker.groups.member_bytes import HeldMetadata
from mainstem.broker.groups.streams import streams_records as records
from mainstem.broker.groups.streams.tasks import Task, TaskSet, each_of
from mainstem.broker.groups.streams.topology import Configured, Topology, source_names, sources_of
from mainstem.protocol.errors import ErrorCode

_EMPTY = TaskSet()


class TaskState(enum.IntEnum):
    """How far a member has come towards its target, by Kafka's numbers."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3


class ClientEndpoint(NamedTuple):
    """Where a program answers queries of its state (Interactive Queries)."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """One member: a thread of a program. ``assigned`` are its tasks; ``pending_revocation`` those it has to give up.

    ``assignment_epochs`` has the member epoch at which it got an active task.
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    endpoint: ClientEndpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: TaskState = TaskState.STABLE
    assigned: TaskSet = _EMPTY
    pending_revocation: TaskSet = _EMPTY
    assignment_epochs: Mapping[Task, int] = field(default_factory=dict)
    topology_texts: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The texts of the topology that it brought, which count as its metadata."""

    @property
    def held(self) -> HeldMetadata:
        """The metadata that the member sent."""
        tags = sum(len(key) + len(text) for key, text in self.client_tags)
        endpoint = "" if self.endpoint is None else self.endpoint.host
        return HeldMetadata(self.topology_texts, len(self.process_id) + len(self.rack_id or "") + len(endpoint) + tags)

    @property
    def is_stable(self) -> bool:
        return self.state is TaskState.STABLE

    @property
    def gives_up(self) -> bool:
        return bool(self.pending_revocation)

    def active_tasks(self) -> Iterator[Task]:
        """Every active task that no other member may have."""
        yield from each_of(self.assigned.active)
        yield from each_of(self.pending_revocation.active)

    def copies(self) -> Iterator[Task]:
        """Every standby and warm-up task of which the member has the state."""
        for tasks in (self.assigned, self.pending_revocation):
            yield from each_of(tasks.standby)
            yield from each_of(tasks.warmup)

    def at_epoch(self, epoch: int) -> StreamsMember:
        """The member at ``epoch``; the one before is kept, as the answer with the new one may get lost."""
        if epoch == self.member_epoch:
            return self
        return replace(self, member_epoch=epoch, previous_member_epoch=self.member_epoch)

    def with_epochs(self, known: Mapping[Task, int]) -> StreamsMember:
        """The member with the epochs of its active tasks: the known ones, and its epoch now for those that are new."""
        epochs = {task: known.get(task, self.member_epoch) for task in self.active_tasks()}
        return self if epochs == self.assignment_epochs else replace(self, assignment_epochs=epochs)


@dataclass(slots=True)
class StreamsGroup(AssignedGroup[StreamsMember, TaskSet]):
    """One group.

    ``configured`` is the topology over the topics as they were at ``catalog_version``. ``shutdown_by`` is the member
    that asked for the end of the whole program. ``endpoints_epoch`` rises when a member's endpoint or tasks change.
    """

    validated_topology_epoch: int = -1
    standbys: int = 0
    topology: Topology | None = None
    configured: Configured = field(default_factory=Configured)
    shutdown_by: str | None = None
    endpoints_epoch: int = 0

    @property
    def group_type(self) -> GroupType:
        return GroupType.STREAMS

    @property
    def protocol_type(self) -> str | None:
        return "streams"

    @property
    def is_ready(self) -> bool:
        return self.configured.problem is None and self.topology is not None

    def check_older_commit(self, member: StreamsMember, epoch: int, topic_id: UUID, number: int) -> ErrorCode:
        """Whether it may commit at an epoch before its own: it had the task of the partition then, and has it still."""
        name = self.configured.names.get(topic_id)
        subtopologies = () if self.topology is None else self.topology.subtopologies
        for each in subtopologies:
            task = each.subtopology_id, number
            had_from = member.assignment_epochs.get(task)
            if had_from is not None and had_from <= epoch and name in sources_of(each):
                return ErrorCode.NONE
        return ErrorCode.STALE_MEMBER_EPOCH

    def subscribes(self, topic: str) -> bool:
        """Whether the program reads ``topic``, and runs."""
        return bool(self.members) and self.topology is not None and topic in source_names(self.topology)

    def tombstones(self) -> list[StateRecord]:
        """The records that remove it and its members from the log."""
        members = [each for member_id in self.members for each in records.member_tombstones(self.group_id, member_id)]
        return [*members, *records.group_tombstones(self.group_id)]
