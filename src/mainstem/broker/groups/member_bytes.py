"""How much metadata the members of groups may have: the node keeps it in memory while they are members.

``check_member_bytes`` bounds one member. ``MemberBytes`` counts the members of all groups. It counts a group again each
time the group changes, and a member's names only when they differ. Concurrency: the event loop only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mainstem.broker.error_codes import refusal
from mainstem.errors import FrameError
from mainstem.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from mainstem.broker.groups.group_types import Group


def check_member_bytes(held: Iterable[Any], bytes_max: int) -> None:
    """See that a member's names, metadata or assignments fit. Raises FrameError, which closes the connection.

    Kafka bounds them by the record that keeps them, after it has taken them into memory.
    """
    size_bytes = sum(len(each or ()) for each in held)
    if size_bytes > bytes_max:
        raise FrameError(
            f"a member of a group sends {size_bytes} bytes; mainstem.group.member.bytes.max is {bytes_max}"
        )


class HeldMetadata(NamedTuple):
    """Of one member: its names or metadata, an object that is only ever replaced; and the bytes of the rest."""

    names: Iterable[Any]
    other_bytes: int


class CountedMember(Protocol):
    """A member of a group of any type."""

    @property
    def held(self) -> HeldMetadata:
        """The metadata that the member sent."""


class _Counted(NamedTuple):
    names: Iterable[Any]
    names_bytes: int
    other_bytes: int


class MemberBytes:
    """The bytes that the members of all groups hold, at most ``bytes_max`` of them."""

    def __init__(self) -> None:
        self.bytes_max = sys.maxsize
        self.total_bytes = 0
        self._groups: dict[str, dict[str, _Counted]] = {}

    def count(self, group: Group) -> None:
        """Take in what the members of a group hold now."""
        known = self._groups.get(group.group_id, {})
        counted = {}
        for member_id, member in group.members.items():
            names, other_bytes = member.held
            before = known.get(member_id)
            same = before is not None and before.names is names
            names_bytes = before.names_bytes if before is not None and same else _size_of(names)
            counted[member_id] = _Counted(names, names_bytes, other_bytes)
        self.forget(group.group_id)
        if counted:
            self._groups[group.group_id] = counted
            self.total_bytes += _sum_of(counted)

    def forget(self, group_id: str) -> None:
        """A group is gone."""
        self.total_bytes -= _sum_of(self._groups.pop(group_id, {}))

    def check_names(self, group_id: str, member_id: str, names: Iterable[Any]) -> None:
        """Whether a member may have these in place of its former ones. Raises RemoteError."""
        before = self._groups.get(group_id, {}).get(member_id)
        self._check(_size_of(names), before.names_bytes if before is not None else 0)

    def check_assignments(self, group_id: str, assignments: Iterable[bytes]) -> None:
        """Whether a leader may set these in place of its group's. Raises RemoteError."""
        before = self._groups.get(group_id, {}).values()
        self._check(_size_of(assignments), sum(each.other_bytes for each in before))

    def _check(self, new_bytes: int, old_bytes: int) -> None:
        if new_bytes > old_bytes and self.total_bytes - old_bytes + new_bytes > self.bytes_max:
            raise refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the members of all groups hold {self.total_bytes} bytes, and {new_bytes - old_bytes} more do not "
                f"fit: mainstem.groups.bytes.max is {self.bytes_max}",
            )


def _size_of(names: Iterable[Any]) -> int:
    return sum(sum(map(len, each)) if isinstance(each, tuple) else len(each) for each in names)


def _sum_of(counted: dict[str, _Counted]) -> int:
    return sum(each.names_bytes + each.other_bytes for each in counted.values())
