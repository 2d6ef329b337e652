"""The interface that groups of all types share. A group id names one group, and each group has one type.

Each type (classic, consumer, share, streams) has its own coordinator. It keeps its groups in the one ``GroupRegistry``
and registers a ``GroupKind``. The kind says which records of ``__consumer_offsets`` belong to the type, and serves
requests that are the same for all types (listing, deleting, committed offsets).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias
from uuid import UUID

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.groups.member_bytes import CountedMember, MemberBytes
from mainstem.protocol.errors import ErrorCode

PartitionCheck: TypeAlias = "Callable[[UUID, int], ErrorCode]"
"""Whether an offset may be committed in a partition, by topic id and number."""


class CommitCheck(NamedTuple):
    """Whether a member may commit offsets: in no partition if ``code`` is an error, else as ``of_partition`` says."""

    code: ErrorCode
    of_partition: PartitionCheck | None = None

    def of(self, topic_id: UUID, number: int) -> ErrorCode:
        """Whether the member may commit in this partition."""
        return self.code or (ErrorCode.NONE if self.of_partition is None else self.of_partition(topic_id, number))


class GroupType(enum.Enum):
    """The types, by the names that ListGroups gives them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(Protocol):
    """A group as everyone sees it, whatever its type."""

    @property
    def group_id(self) -> str: ...

    @property
    def group_type(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str | None:
        """The protocol type that ListGroups shows; None before the first member."""

    @property
    def state_name(self) -> str:
        """The state, as Kafka's tools show it."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, so that it may be deleted."""

    def check_commit(
        self, member_id: str, instance_id: str | None, generation_id: int, api_version: int
    ) -> PartitionCheck | None:
        """Whether this member may commit offsets, with its generation or member epoch. Raises RemoteError.

        Returns a check of each partition, None where every partition may be committed.
        """

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether this member may see committed offsets; who names no member may. Raises RemoteError."""

    def check_offset_delete(self) -> None:
        """Whether its committed offsets can be deleted, where no member subscribes to them. Raises RemoteError."""

    def subscribes(self, topic: str) -> bool:
        """Whether a member needs the offsets that are committed in ``topic``."""

    def offset_expires_from_ms(self, topic: str, commit_timestamp_ms: int) -> int | None:
        """When the retention of an offset in ``topic`` began; None while the offset is in use and cannot expire."""

    @property
    def members(self) -> Mapping[str, CountedMember]:
        """Its members by their ids."""

    def tombstones(self) -> Sequence[StateRecord]:
        """The records that remove it from the log, in order; without its committed offsets."""


class GroupKind(Protocol):
    """The coordinator of one type, as the others know it."""

    @property
    def record_types(self) -> frozenset[int]:
        """The key types of its records in ``__consumer_offsets``."""

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take a record in when the node starts. Raises FrameError for one that is damaged."""

    def loaded(self) -> None:
        """All records were replayed: begin to watch the clock."""

    def forgotten(self, group_id: str) -> None:
        """A group of this type was deleted, and is out of the registry."""


class GroupRegistry:
    """Every group of the node by its id. A caller that adds a group must own the id or know that it is free."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self.member_bytes = MemberBytes()

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def get(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def put(self, group: Group) -> None:
        """Let ``group`` be what its id names, in place of what that named before."""
        self._groups[group.group_id] = group
        self.member_bytes.count(group)

    def remove(self, group_id: str) -> None:
        """Let the id name nothing."""
        self._groups.pop(group_id, None)
        self.member_bytes.forget(group_id)
