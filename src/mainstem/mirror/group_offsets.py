"""Committed offsets of groups, carried from the source to the target again and again.

Only what the target holds can be committed there: a group that is further at the source than the copy is, is carried up
to the end of the copy. Groups with members at the target keep what they committed there. Of share groups the start
offsets are carried: what was acknowledged beyond them is delivered again at the target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mainstem.client.failures import error_of
from mainstem.client.wire.admin.groups import CommittedEntry, ListedGroup, committed_entries, list_groups
from mainstem.client.wire.admin.share_offsets import set_share_start_offsets, share_start_offsets
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.coordinated import GROUP, ask_coordinator
from mainstem.errors import GroupNotEmptyError
from mainstem.mirror.link import Link
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

_COMMIT_BY_NAME_MAX: Final = 9
_SHARE: Final = "share"
_IN_USE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.NON_EMPTY_GROUP,
    }
)


class GroupOffsets:
    """Remembers what was carried, so that only changes are committed. Owned by one thread."""

    def __init__(self, link: Link, note: Callable[[str], None]) -> None:
        self._link = link
        self._note = note
        self._carried: dict[str, dict[TopicPartition, CommittedEntry]] = {}
        self._in_use: set[str] = set()

    def carry(self, ends: Mapping[TopicPartition, int], *, require_stable: bool = False) -> int:
        """Commit at the target what changed; ``ends`` are the ends of the copy. Returns the number of groups changed.

        ``require_stable``: wait for offsets that a transaction commits, which just ends.
        Raises AuthorizationError, LogUnavailableError.
        """
        changed = 0
        for group in list_groups(self._link.source):
            entries = _entries(self._link.source, group, require_stable=require_stable)
            wanted = {
                tp: CommittedEntry(min(entry.offset, ends[tp]), entry.metadata)
                for tp, entry in entries.items()
                if tp in ends
            }
            known = self._known(group) if wanted else {}
            news = {tp: entry for tp, entry in wanted.items() if known.get(tp) != entry}
            if news and self._commit(group, news):
                known.update(news)
                changed += 1
        return changed

    def _known(self, group: ListedGroup) -> dict[TopicPartition, CommittedEntry]:
        if group.name not in self._carried:
            self._carried[group.name] = _entries(self._link.target, group)
        return self._carried[group.name]

    def _commit(self, group: ListedGroup, entries: Mapping[TopicPartition, CommittedEntry]) -> bool:
        commit = _commit_share if _is_share(group) else _commit
        code = commit(self._link.target, group.name, entries)
        if code in _IN_USE:
            if group.name not in self._in_use:
                self._note(f"group {group.name} has members at the target: its offsets are not carried over")
            self._in_use.add(group.name)
            return False
        if code != ErrorCode.NONE:
            raise error_of(code, f"the offsets of group {group.name!r} cannot be set at {self._link.target.bootstrap}")
        self._in_use.discard(group.name)
        return True


def _is_share(group: ListedGroup) -> bool:
    return group.kind.lower() == _SHARE


def _entries(
    client: WireClient, group: ListedGroup, *, require_stable: bool = False
) -> dict[TopicPartition, CommittedEntry]:
    """Where a group goes on; of a share group, where it begins."""
    if _is_share(group):
        return {tp: CommittedEntry(offset, "") for tp, offset in share_start_offsets(client, group.name).items()}
    return committed_entries(client, group.name, require_stable=require_stable)


def _commit_share(client: WireClient, group: str, entries: Mapping[TopicPartition, CommittedEntry]) -> int:
    try:
        set_share_start_offsets(client, group, {tp: entry.offset for tp, entry in entries.items()})
    except GroupNotEmptyError:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _commit(client: WireClient, group: str, entries: Mapping[TopicPartition, CommittedEntry]) -> int:
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for tp, entry in entries.items():
        item = OffsetCommitRequestPartition(
            partition_index=tp.partition, committed_offset=entry.offset, committed_metadata=entry.metadata
        )
        by_topic.setdefault(tp.topic, []).append(item)
    topics = [OffsetCommitRequestTopic(name=name, partitions=items) for name, items in by_topic.items()]
    request = OffsetCommitRequest(group_id=group, topics=topics, member_id="")
    answer = ask_coordinator(client, request, group, GROUP, _codes, version_max=_COMMIT_BY_NAME_MAX)
    return next((code for code in _codes(answer) if code != ErrorCode.NONE), ErrorCode.NONE)


def _codes(answer: object) -> list[int]:
    topics = getattr(answer, "topics", ())
    return [partition.error_code for topic in topics for partition in topic.partitions]
