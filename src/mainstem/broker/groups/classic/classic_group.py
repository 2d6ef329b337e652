"""A classic group: its members, its generation, and the state that a rebalance takes it through.

    EMPTY ──join──► PREPARING_REBALANCE ──all joined──► COMPLETING_REBALANCE ──leader's sync──► STABLE
      ▲                   │  ▲  ▲                              │                                  │
      └────no member left─┘  │  └──member joins, leaves, fails─┘                                  │
                             └───────────────member joins, leaves, fails──────────────────────────┘

Any state becomes DEAD when the group is deleted. Times are seconds of the monotonic clock; a deadline of infinity is
none. Plain state without I/O, changed by ``classic_steps`` only; one owner.

Invariants: a generation has one leader and one protocol, which every member supports; ``static_members`` names members
of the group; a pending member (it has an id, but has not joined with it yet) is not in ``members``.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mainstem.broker.coordinator.effects import Reply, StateRecord
from mainstem.broker.coordinator.timers import NEVER
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.classic.subscription import subscribed_topics
from mainstem.broker.groups.group_types import GroupType
from mainstem.broker.groups.member_bytes import HeldMetadata
from mainstem.broker.groups.records import group_tombstone
from mainstem.protocol.errors import ErrorCode

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class GroupState(enum.Enum):
    """The states, by the names that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True)
class Member:
    """One member. ``join_reply`` and ``sync_reply`` are set while it waits for that answer."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    is_new: bool = False
    join_reply: Reply | None = None
    sync_reply: Reply | None = None
    session_deadline_s: float = NEVER

    @property
    def held(self) -> HeldMetadata:
        """The metadata that the member sent."""
        return HeldMetadata(self.protocols, len(self.assignment))

    @property
    def is_static(self) -> bool:
        """Whether it has a group instance id, by which it is known again after a restart."""
        return self.instance_id is not None

    def metadata_for(self, protocol: str | None) -> bytes:
        """The metadata that the member sent for ``protocol``."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: Iterable[str]) -> str:
        """The first of its protocols that is a candidate."""
        wanted = set(candidates)
        return next(name for name, _ in self.protocols if name in wanted)


@dataclass(slots=True)
class ClassicGroup:
    """One group. ``rebalance_deadline_s`` ends its state, if that state has a time limit."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    generation_id: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = -1
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_members: dict[str, float] = field(default_factory=dict)
    pending_sync: set[str] = field(default_factory=set)
    rebalance_deadline_s: float = NEVER
    initial_delay_left_ms: int = 0
    member_added: bool = False

    # ---- what groups of all types say

    @property
    def group_type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_unused(self) -> bool:
        """Whether it was never written, and has neither members nor pending members."""
        return self.is_empty and self.protocol_type is None and not self.members and not self.pending_members

    def check_commit(self, member_id: str, instance_id: str | None, generation_id: int, api_version: int) -> None:
        """Whether this member may commit offsets now. Raises RemoteError.

        A client that is not a member (generation -1, no member id) may commit while the group has no members.
        """
        if self.state is GroupState.DEAD:
            raise refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return
        if generation_id < 0 and not member_id and instance_id is None:
            raise refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        self.member(member_id, instance_id)
        if generation_id != self.generation_id:
            raise refusal(ErrorCode.ILLEGAL_GENERATION)
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise refusal(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow every caller to read the offsets of a classic group. Raises RemoteError if the group is deleted."""
        if self.state is GroupState.DEAD:
            raise refusal(ErrorCode.GROUP_ID_NOT_FOUND)

    def check_offset_delete(self) -> None:
        """Raises RemoteError while it has members that do not say what they subscribe to."""
        if not self.is_in(GroupState.EMPTY, GroupState.DEAD) and not self.is_consumer_group:
            raise refusal(ErrorCode.NON_EMPTY_GROUP)

    def subscribes(self, topic: str) -> bool:
        """Whether a member needs the offsets in ``topic``: in doubt it does."""
        if self.is_empty:
            return False
        if not self.is_consumer_group or self.protocol is None:
            return True
        topics = (subscribed_topics(member.metadata_for(self.protocol)) for member in self.members.values())
        return any(subscribed is None or topic in subscribed for subscribed in topics)

    def offset_expires_from_ms(self, topic: str, commit_timestamp_ms: int) -> int | None:
        """The start of retention (KIP-211): the group became empty, or the commit if no member uses ``topic``.

        Kafka may delete an offset that is set in a long-empty group in the next round. Here its retention begins at
        its commit.
        """
        if self.is_empty and self.protocol_type is not None and self.state_timestamp_ms >= 0:
            return max(self.state_timestamp_ms, commit_timestamp_ms)
        if self.is_empty or (self.state is GroupState.STABLE and not self.subscribes(topic)):
            return commit_timestamp_ms
        return None

    def tombstones(self) -> list[StateRecord]:
        """The record that removes it from the log."""
        return [group_tombstone(self.group_id)]

    # ---- members

    def is_in(self, *states: GroupState) -> bool:
        return self.state in states

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asked for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def have_all_joined(self) -> bool:
        return not self.pending_members and all(member.join_reply is not None for member in self.members.values())

    def move_to(self, state: GroupState, time_ms: int) -> None:
        """Enter ``state``."""
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = time_ms

    def add(self, member: Member) -> None:
        """Take a member in; the first one leads and decides the group's protocol type."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.pending_members.pop(member.member_id, None)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Forget a member, or an unused pending id. Its replies must have been given."""
        self.pending_members.pop(member_id, None)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def member(self, member_id: str, instance_id: str | None) -> Member:
        """The member of that id. Raises RemoteError: unknown, or fenced by a newer holder of its instance id."""
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                raise refusal(ErrorCode.UNKNOWN_MEMBER_ID)
            if holder != member_id:
                raise refusal(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def replace_static(self, instance_id: str, new_member_id: str) -> Member:
        """Give the member of ``instance_id`` a new id, and let it keep its place."""
        old_id = self.static_members[instance_id]
        member = self.members[old_id]
        member.member_id = new_member_id
        self.members = {(new_member_id if id_ == old_id else id_): held for id_, held in self.members.items()}
        self.static_members[instance_id] = new_member_id
        if self.leader == old_id:
            self.leader = new_member_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_member_id)
        return member

    def supports(self, protocol_type: str, protocols: Sequence[str]) -> bool:
        """Whether a member with these protocols can be in one generation with those that are here."""
        if self.state is GroupState.EMPTY or not self.members:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and bool(self._common_protocols() & set(protocols))

    def _common_protocols(self) -> set[str]:
        counts = Counter(name for member in self.members.values() for name in {name for name, _ in member.protocols})
        return {name for name, count in counts.items() if count == len(self.members)}

    def select_protocol(self) -> str:
        """The protocol that most members like best, of those that all support."""
        candidates = self._common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def next_deadline_s(self) -> float:
        """The next time at which something must be done without a request."""
        sessions = min((member.session_deadline_s for member in self.members.values()), default=NEVER)
        pending = min(self.pending_members.values(), default=NEVER)
        return min(sessions, pending, self.rebalance_deadline_s)


def copy_group(group: ClassicGroup) -> ClassicGroup:
    """The same group and members, to be changed on their own."""
    return replace(
        group,
        members={member_id: replace(member) for member_id, member in group.members.items()},
        static_members=dict(group.static_members),
        pending_members=dict(group.pending_members),
        pending_sync=set(group.pending_sync),
    )
