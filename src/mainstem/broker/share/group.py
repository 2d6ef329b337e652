"""A share group: its members, what each reads, and the partitions whose state it keeps.

    EMPTY ──first member──► STABLE ──last member leaves──► EMPTY

``epoch`` counts the changes of members, subscriptions and topics; ``assignment_epoch`` is the epoch that ``target`` was
made for. A member gets its part of the target with its next heartbeat; its own epoch is then the assignment epoch.

Plain state without I/O, changed by ``group_steps`` only; one owner. Times are seconds of the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.coordinator.timers import NEVER
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.group_types import GroupType
from mainstem.broker.groups.member_bytes import HeldMetadata
from mainstem.broker.share import group_records
from mainstem.broker.share.assignor import Assignment
from mainstem.broker.share.group_records import SharedTopic
from mainstem.errors import RemoteError
from mainstem.protocol.errors import ErrorCode

ASSIGNOR_NAME: Final = "simple"
PROTOCOL_TYPE: Final = "share"


@dataclass(slots=True)
class ShareMember:
    """One member. ``topics`` are sorted; ``epoch`` 0 means that it never got an assignment."""

    member_id: str
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Assignment = field(default_factory=dict)
    session_deadline_s: float = NEVER

    @property
    def held(self) -> HeldMetadata:
        """The metadata that the member sent."""
        return HeldMetadata(self.topics, 0)


@dataclass(slots=True)
class ShareGroup:
    """One group; a ``Group``. ``shared`` are the partitions whose state is kept, by topic."""

    group_id: str
    epoch: int = 1
    assignment_epoch: int = 0
    metadata_hash: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    target: dict[str, Assignment] = field(default_factory=dict)
    shared: dict[UUID, SharedTopic] = field(default_factory=dict)

    def copy(self, changing: str | None = None) -> ShareGroup:
        """The same group, to be changed on its own; of its members only ``changing`` may be changed."""
        members = dict(self.members)
        if changing in members:
            members[changing] = replace(members[changing])
        return replace(self, members=members, target=dict(self.target), shared=dict(self.shared))

    def without_topics(self, gone: Collection[UUID]) -> ShareGroup:
        """The same group, which no longer shares these topics."""
        shared = {topic_id: topic for topic_id, topic in self.shared.items() if topic_id not in gone}
        return replace(self, shared=shared)

    @property
    def group_type(self) -> GroupType:
        return GroupType.SHARE

    @property
    def protocol_type(self) -> str:
        return PROTOCOL_TYPE

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def topics(self) -> list[str]:
        """The topics that any member subscribes to, sorted."""
        return sorted({name for member in self.members.values() for name in member.topics})

    @property
    def next_deadline_s(self) -> float:
        """When the first member is out if it stays silent."""
        return min((member.session_deadline_s for member in self.members.values()), default=NEVER)

    def check_commit(self, member_id: str, instance_id: str | None, generation_id: int, api_version: int) -> None:
        """Share groups commit no offsets: they acknowledge. Raises RemoteError."""
        raise _no_offsets(self.group_id)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises RemoteError: there are no committed offsets."""
        raise _no_offsets(self.group_id)

    def check_offset_delete(self) -> None:
        """Raises RemoteError: there are no committed offsets."""
        raise _no_offsets(self.group_id)

    def subscribes(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values())

    def offset_expires_from_ms(self, topic: str, commit_timestamp_ms: int) -> int | None:
        """Offsets from before the id named a share group are unused; their retention begins at the commit."""
        return commit_timestamp_ms

    def tombstones(self) -> Sequence[StateRecord]:
        return [
            *(
                record
                for member_id in self.members
                for record in group_records.member_tombstones(self.group_id, member_id)
            ),
            *group_records.group_tombstones(self.group_id),
        ]


def _no_offsets(group_id: str) -> RemoteError:
    return refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{group_id!r} is a share group: it has no committed offsets")
