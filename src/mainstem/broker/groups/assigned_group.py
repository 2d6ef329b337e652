"""The common part of consumer groups (KIP-848) and streams groups (KIP-1071): the log makes the assignment.

The group's epoch rises with every change that requires a new target assignment. The assignment epoch is the epoch of
the target. Each member follows with its own epoch, and first gives up what is not in its target.

A group has the deadlines of its members: when their sessions end, and until when they have to give something up. Times
are seconds of the monotonic clock. Plain state without I/O; one owner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Generic, Protocol, Self, TypeVar
from uuid import UUID

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.coordinator.timers import NEVER
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.group_types import GroupType, PartitionCheck
from mainstem.broker.groups.member_bytes import CountedMember
from mainstem.errors import RemoteError
from mainstem.protocol.errors import ErrorCode

_EPOCHS_IN_COMMIT_FROM: Final = 9


class AssignedMember(CountedMember, Protocol):
    """A member, as its group knows it whatever its type."""

    @property
    def member_epoch(self) -> int: ...

    @property
    def rebalance_timeout_ms(self) -> int: ...

    @property
    def is_stable(self) -> bool:
        """Whether it has nothing to give up and waits for nothing."""

    @property
    def gives_up(self) -> bool:
        """Whether it has something to give up within its rebalance time-out."""


_Member = TypeVar("_Member", bound=AssignedMember)
_Target = TypeVar("_Target")


@dataclass(slots=True)
class AssignedGroup(ABC, Generic[_Member, _Target]):
    """One group. ``sessions`` and ``revocations`` are deadlines by member: of its next heartbeat, and of what it has to
    give up (with the member epoch that it has to leave by then). ``catalog_version`` says which topics it has seen.
    """

    group_id: str
    epoch: int = 1
    metadata_hash: int = 0
    assignment_epoch: int = 0
    members: dict[str, _Member] = field(default_factory=dict)
    targets: dict[str, _Target] = field(default_factory=dict)
    sessions: dict[str, float] = field(default_factory=dict)
    revocations: dict[str, tuple[int, float]] = field(default_factory=dict)
    catalog_version: int = -1

    # ---- what groups of all types say

    @property
    @abstractmethod
    def group_type(self) -> GroupType: ...

    @property
    @abstractmethod
    def protocol_type(self) -> str | None: ...

    @abstractmethod
    def tombstones(self) -> Sequence[StateRecord]:
        """The records that remove it and its members from the log."""

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_ready(self) -> bool:
        """Whether there is something to assign."""
        return True

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if not self.is_ready:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        done = all(self.is_reconciled(member) for member in self.members.values())
        return "Stable" if done else "Reconciling"

    def check_commit(
        self, member_id: str, instance_id: str | None, generation_id: int, api_version: int
    ) -> PartitionCheck | None:
        """Whether this member may commit offsets: at its epoch, or at an older one for what it had then (KIP-1251).

        Without members anyone may. Raises RemoteError.
        """
        if generation_id < 0 and not self.members:
            return None
        member = self.member(member_id)
        if api_version < _EPOCHS_IN_COMMIT_FROM:
            raise refusal(ErrorCode.UNSUPPORTED_VERSION)
        if generation_id > member.member_epoch:
            raise refusal(ErrorCode.STALE_MEMBER_EPOCH)
        if generation_id == member.member_epoch:
            return None
        return partial(self.check_older_commit, member, generation_id)

    @abstractmethod
    def check_older_commit(self, member: _Member, epoch: int, topic_id: UUID, number: int) -> ErrorCode:
        """Whether it may commit at an epoch before its own: it had the partition then, and has it still."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether this member may see committed offsets. Raises RemoteError."""
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.member_epoch:
            raise self.other_epoch(member)

    def other_epoch(self, member: _Member) -> RemoteError:
        """The error for a request with another epoch than the member's."""
        return refusal(ErrorCode.STALE_MEMBER_EPOCH)

    def check_offset_delete(self) -> None:
        """Offsets of topics without subscribers can be deleted at any time."""

    @abstractmethod
    def subscribes(self, topic: str) -> bool:
        """Whether a member reads ``topic``."""

    def offset_expires_from_ms(self, topic: str, commit_timestamp_ms: int) -> int | None:
        """KIP-211: retention begins at the commit if no member subscribes to ``topic``."""
        return None if self.subscribes(topic) else commit_timestamp_ms

    # ---- members

    def member(self, member_id: str) -> _Member:
        """The member of that id. Raises RemoteError."""
        member = self.members.get(member_id)
        if member is None:
            raise refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id!r} has no member {member_id!r}")
        return member

    def is_reconciled(self, member: _Member) -> bool:
        """Whether the member has all that it was to have, and nothing else."""
        return member.is_stable and member.member_epoch == self.assignment_epoch

    def copy(self) -> Self:
        """A group that can be changed while this one stays as it is; members are values and are shared."""
        return replace(
            self,
            members=dict(self.members),
            targets=dict(self.targets),
            sessions=dict(self.sessions),
            revocations=dict(self.revocations),
        )

    def remove(self, member_id: str) -> None:
        """Forget a member and all that it had."""
        del self.members[member_id]
        self.targets.pop(member_id, None)
        self.sessions.pop(member_id, None)
        self.revocations.pop(member_id, None)

    # ---- time

    def give_up_in_time(self, member_id: str, now_s: float) -> None:
        """Begin the rebalance time-out in which the member has to give up what is not in its target."""
        member = self.members[member_id]
        self.revocations[member_id] = (member.member_epoch, now_s + member.rebalance_timeout_ms / 1000)

    def late_members(self, now_s: float) -> list[str]:
        """The members whose session has ended, and those that kept what they had to give up for too long."""
        late = [member_id for member_id, deadline_s in self.sessions.items() if deadline_s <= now_s]
        late += [
            member_id
            for member_id, (epoch, deadline_s) in self.revocations.items()
            if deadline_s <= now_s and self.members[member_id].member_epoch == epoch and member_id not in late
        ]
        return late

    def forget_passed_revocations(self, now_s: float) -> None:
        """Forget the deadlines that have passed and made no member late."""
        self.revocations = {name: each for name, each in self.revocations.items() if each[1] > now_s}

    def next_deadline_s(self) -> float:
        """The next time at which something must be done without a request."""
        revocations = (deadline_s for _, deadline_s in self.revocations.values())
        return min((*self.sessions.values(), *revocations), default=NEVER)
