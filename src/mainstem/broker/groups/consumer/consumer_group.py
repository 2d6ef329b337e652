"""A consumer group (KIP-848): its members, and the target and current assignment of each.

Each member follows the group's target (``assigned_group``), and first gives up partitions that are not in it:

    STABLE ──new target──► UNREVOKED_PARTITIONS ──all given up──► UNRELEASED_PARTITIONS ──others gave up──► STABLE

``consumer_steps`` changes copies of it: a group whose records could not be written stays as it was.

Invariants: a partition has at most one owner, who has it assigned or has still to give it up (``owners``);
``static_members`` names members that are there; a target names members that are there, each partition once.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self, TypeAlias
from uuid import UUID

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.assigned_group import AssignedGroup
from mainstem.broker.groups.consumer.assignors import Assignment
from mainstem.broker.groups.consumer.consumer_records import (
    epoch_tombstone,
    member_tombstones,
    pattern_tombstone,
    target_epoch_tombstone,
)
from mainstem.broker.groups.group_types import GroupType, PartitionCheck
from mainstem.broker.groups.member_bytes import HeldMetadata
from mainstem.errors import RemoteError
from mainstem.protocol.errors import ErrorCode

LEAVES: Final = -1
"""The member epoch of who leaves."""
LEAVES_FOR_NOW: Final = -2
"""The member epoch of a static member that leaves and will be back."""

Owner: TypeAlias = tuple[UUID, int]


class MemberState(enum.IntEnum):
    """How far a member has come towards its target, by Kafka's numbers."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ClassicSide(NamedTuple):
    """The classic protocol's part of a member that speaks it: its session, and its (protocol, subscription) pairs."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of its protocols."""
        return frozenset(name for name, _ in self.protocols)


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member. ``assigned`` is what it may consume; ``pending_revocation`` what it has still to give up.

    ``assignment_epochs`` has the member epoch at which it got a partition; one without an entry came at its epoch now.
    ``classic`` is there while the member speaks the classic protocol; its epoch is then its generation.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    pending_revocation: Assignment = field(default_factory=dict)
    assignment_epochs: Mapping[Owner, int] = field(default_factory=dict)
    classic: ClassicSide | None = None

    @property
    def held(self) -> HeldMetadata:
        """The metadata that the member sent."""
        if self.classic is not None:
            # A subscription has the topics' names in it; they are held once more as names.
            return HeldMetadata(self.classic.protocols, len(self.classic.protocols[0][1]))
        return HeldMetadata(self.topic_names, len(self.topic_regex or ""))

    @property
    def is_stable(self) -> bool:
        return self.state is MemberState.STABLE

    @property
    def gives_up(self) -> bool:
        # A member that speaks the classic protocol has deadlines for its JoinGroup and its SyncGroup.
        return bool(self.pending_revocation) and self.classic is None

    @property
    def pattern(self) -> str | None:
        """The regular expression that it subscribes with; None without one (an empty one takes it back)."""
        return self.topic_regex or None

    def owned(self) -> Iterator[Owner]:
        """Every partition that no other member may have."""
        for assignment in (self.assigned, self.pending_revocation):
            for topic_id, numbers in assignment.items():
                for number in numbers:
                    yield topic_id, number

    def at_epoch(self, epoch: int) -> ConsumerMember:
        """The member at ``epoch``; the one before is kept, as the answer with the new one may get lost."""
        if epoch == self.member_epoch:
            return self
        return replace(self, member_epoch=epoch, previous_member_epoch=self.member_epoch)

    def with_epochs(self, known: Mapping[Owner, int]) -> ConsumerMember:
        """The member with the epochs of its partitions: the known ones, and its epoch now for those that are new."""
        epochs = {partition: known.get(partition, self.member_epoch) for partition in self.owned()}
        return self if epochs == self.assignment_epochs else replace(self, assignment_epochs=epochs)

    def fresh(self) -> ConsumerMember:
        """The member with partitions at which it may commit from any epoch on, as it is about to join again."""
        return replace(self, assignment_epochs=dict.fromkeys(self.owned(), 0))


class MatchedTopics(NamedTuple):
    """The topics that a regular expression matched when it was resolved."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(slots=True)
class ConsumerGroup(AssignedGroup[ConsumerMember, Assignment]):
    """One group. ``rejoins`` and ``syncs`` are deadlines by member, of those that speak the classic protocol: of the
    JoinGroup and of the SyncGroup that they owe.
    """

    patterns: dict[str, MatchedTopics] = field(default_factory=dict)
    owners: dict[Owner, str] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    rejoins: dict[str, float] = field(default_factory=dict)
    syncs: dict[str, float] = field(default_factory=dict)

    # ---- what groups of all types say

    @property
    def group_type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def protocol_type(self) -> str | None:
        return "consumer"

    def check_commit(
        self, member_id: str, instance_id: str | None, generation_id: int, api_version: int
    ) -> PartitionCheck | None:
        """As in other groups; a member that speaks the classic protocol commits at its generation alone."""
        member = self.members.get(member_id)
        if member is None or member.classic is None:
            return AssignedGroup.check_commit(self, member_id, instance_id, generation_id, api_version)
        if generation_id != member.member_epoch:
            raise refusal(ErrorCode.ILLEGAL_GENERATION)
        return None

    def check_older_commit(self, member: ConsumerMember, epoch: int, topic_id: UUID, number: int) -> ErrorCode:
        partition = topic_id, number
        owns = any(number in held.get(topic_id, ()) for held in (member.assigned, member.pending_revocation))
        is_its_own = owns and epoch >= member.assignment_epochs.get(partition, member.member_epoch)
        return ErrorCode.NONE if is_its_own else ErrorCode.STALE_MEMBER_EPOCH

    def other_epoch(self, member: ConsumerMember) -> RemoteError:
        return refusal(ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION)

    def subscribes(self, topic: str) -> bool:
        return any(topic in self.subscription(member) for member in self.members.values())

    def tombstones(self) -> list[StateRecord]:
        """The records that remove it and its members from the log."""
        members = [each for member_id in self.members for each in member_tombstones(self.group_id, member_id)]
        patterns = [pattern_tombstone(self.group_id, pattern) for pattern in self.patterns]
        return [*members, *patterns, target_epoch_tombstone(self.group_id), epoch_tombstone(self.group_id)]

    # ---- members

    def subscription(self, member: ConsumerMember) -> frozenset[str]:
        """The names of the topics that it subscribes to, by name or by regular expression."""
        matched = self.patterns.get(member.pattern) if member.pattern is not None else None
        return member.topic_names if matched is None else member.topic_names | matched.topics

    def wanted_patterns(self) -> set[str]:
        """The regular expressions that members subscribe with."""
        return {member.pattern for member in self.members.values() if member.pattern is not None}

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members ask for."""
        wanted = Counter(member.server_assignor for member in self.members.values() if member.server_assignor)
        return wanted.most_common(1)[0][0] if wanted else default

    def put(self, member: ConsumerMember) -> None:
        """Take a member in, or let it be what it is now."""
        self._disown(self.members.get(member.member_id))
        for partition in member.owned():
            holder = self.owners.setdefault(partition, member.member_id)
            assert holder == member.member_id, f"{partition} would have two owners in group {self.group_id!r}"
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Forget a member and all that it had."""
        member = self.members[member_id]
        AssignedGroup.remove(self, member_id)
        self._disown(member)
        self.rejoins.pop(member_id, None)
        self.syncs.pop(member_id, None)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _disown(self, member: ConsumerMember | None) -> None:
        for partition in member.owned() if member is not None else ():
            self.owners.pop(partition, None)

    def copy(self) -> Self:
        return replace(
            AssignedGroup.copy(self),
            patterns=dict(self.patterns),
            owners=dict(self.owners),
            static_members=dict(self.static_members),
            rejoins=dict(self.rejoins),
            syncs=dict(self.syncs),
        )

    # ---- time

    def late_members(self, now_s: float) -> list[str]:
        """The members that are late as in other groups, and those that owe a JoinGroup or a SyncGroup."""
        late = AssignedGroup.late_members(self, now_s)
        for deadlines in (self.rejoins, self.syncs):
            late += [each for each, deadline_s in deadlines.items() if deadline_s <= now_s and each not in late]
        return late

    def next_deadline_s(self) -> float:
        return min((AssignedGroup.next_deadline_s(self), *self.rejoins.values(), *self.syncs.values()))


def assignment_of(topic_partitions: Iterable[tuple[UUID, Iterable[int]]]) -> Assignment:
    """An assignment from pairs of topic and partitions; a topic may come more than once."""
    sets: dict[UUID, set[int]] = {}
    for topic_id, numbers in topic_partitions:
        sets.setdefault(topic_id, set()).update(numbers)
    return {topic_id: frozenset(numbers) for topic_id, numbers in sets.items() if numbers}
