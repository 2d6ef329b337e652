"""``GroupAdmin``: what an operator does with groups, on a ``Log``: describe with lag, delete, set offsets.

Safe from any thread, as the log is. Raises LogUnavailableError when the log cannot be reached in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from mainstem.client.read.start import Moment, end_offsets, partitions_of, start_offsets
from mainstem.client.wire.admin import group_admin as wire
from mainstem.client.wire.admin.groups import committed_entries, committed_offsets
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import InputError
from mainstem.model import Position, TopicPartition, is_load_group


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """How far a group is in one partition. ``committed`` and ``lag`` are None where it has committed nothing, ``end``
    and ``lag`` where the partition is gone; ``member_id`` is who consumes it now. A group that does not read (a load's)
    has no lag. ``metadata`` is the text that the group has committed with the offset.
    """

    topic_partition: TopicPartition
    committed: int | None
    end: int | None
    member_id: str | None
    reads: bool = True
    metadata: str = ""

    @property
    def lag(self) -> int | None:
        """Offsets (gaps included) that the group has still to read."""
        if not self.reads or self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group, its members, and how far it is in each partition that it has committed or that is assigned."""

    group: wire.DescribedGroup
    progress: tuple[PartitionProgress, ...]


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """The change that a reset makes to one partition."""

    topic_partition: TopicPartition
    before: int | None
    after: int


class GroupAdmin:
    """Groups, one at a time. ``Log.group_admin`` is one."""

    def __init__(self, borrow: Callable[[], AbstractContextManager[WireClient]]) -> None:
        self._borrow = borrow

    def describe(self, name: str) -> GroupDescription:
        """A group with its members and its lag, partition by partition.

        Raises:
            UnknownGroupError: The group does not exist.

        Examples:
            >>> log.group_admin.set_offsets("kitchen", {ms.TopicPartition("orders", 0): 0})
            >>> (first,) = log.group_admin.describe("kitchen").progress
            >>> first.committed
            0
        """
        with self._borrow() as client:
            group = wire.describe_group(client, name)
            committed = committed_entries(client, name) if group.kind != "share" else {}
            owner = {tp: member.member_id for member in group.members for tp in member.assigned}
            shown = sorted({*committed, *owner})
            existing = client.metadata({tp.topic for tp in shown})
            there = [tp for tp in shown if tp.topic in existing and tp.partition in existing[tp.topic].partitions]
            ends = end_offsets(client, there, read_committed=False)
        reads = not is_load_group(name)
        progress = []
        for tp in shown:
            entry = committed.get(tp)
            offset, metadata = (None, "") if entry is None else entry
            progress.append(PartitionProgress(tp, offset, ends.get(tp), owner.get(tp), reads, metadata))
        return GroupDescription(group, tuple(progress))

    def delete(self, name: str) -> None:
        """Delete a group and what it committed.

        Raises:
            GroupNotEmptyError: It has members: stop them first.
            UnknownGroupError: The group does not exist.

        Examples:
            >>> log.group_admin.set_offsets("former", {ms.TopicPartition("ledger", 0): 0})
            >>> log.group_admin.delete("former")
            >>> "former" in log.groups()
            False
        """
        with self._borrow() as client:
            wire.delete_group(client, name)

    def plan_reset(self, name: str, to: Moment, topics: Iterable[str] = ()) -> list[OffsetChange]:
        """The changes that would move a group to ``to``. Changes nothing; the group need not exist.

        Args:
            name: The group.
            to: The earliest or latest record, an offset, a position or a time, as in ``Log.read``.
            topics: Whose partitions. Without them: those that a position names, or else those with committed offsets.

        Raises:
            InputError: No partition is found.
            UnknownTopicError: A topic does not exist.
            OffsetOutOfRangeError: The log does not have the offset.

        Examples:
            >>> (change,) = log.group_admin.plan_reset("kitchen", "earliest", ["orders"])
            >>> change.after
            0
        """
        with self._borrow() as client:
            committed = committed_offsets(client, name)
            named = to.topics if isinstance(to, Position) else committed.topics
            names = list(topics) or [topic for topic in sorted(named) if topic in client.metadata([topic])]
            if not names:
                raise InputError(f"group {name!r} has no committed offsets: name its topics (--topic)")
            partitions = partitions_of(client, names)
            if isinstance(to, Position):
                partitions = [tp for tp in partitions if tp in to]
            ends = end_offsets(client, partitions, read_committed=False)
            start = start_offsets(client, ends, to)
        return [OffsetChange(tp, committed.get(tp), start[tp]) for tp in sorted(start)]

    def set_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let a group begin there.

        Args:
            name: The group; it is made if it does not exist.
            offsets: The next offset of each partition.

        Raises:
            GroupNotEmptyError: It has members.

        Examples:
            >>> log.group_admin.set_offsets("readers", {ms.TopicPartition("ledger", 0): 1})
        """
        with self._borrow() as client:
            wire.commit_offsets(client, name, offsets)
