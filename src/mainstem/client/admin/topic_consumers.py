"""The groups that have committed offsets of a topic, with their lag in it.

Functions over a ``WireClient``, whose contract they have. Bounded: at most ``GROUPS_MAX`` groups are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mainstem.client.admin.group_admin import PartitionProgress
from mainstem.client.read.start import end_offsets, partitions_of
from mainstem.client.wire.admin.groups import committed_offsets, list_groups
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.coordinated import GROUP, coordinators
from mainstem.model import is_load_group

GROUPS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """A group, and how far it is in the partitions of one topic in which it has committed."""

    name: str
    kind: str
    state: str
    progress: tuple[PartitionProgress, ...]

    @property
    def lag(self) -> int | None:
        """Offsets of the topic that the group has still to read; None for a group that does not read (a load's)."""
        lags = [each.lag for each in self.progress if each.lag is not None]
        return sum(lags) if lags else None


@dataclass(frozen=True, slots=True)
class TopicGroups:
    """The groups by name. ``is_complete``: every group of the log was looked at."""

    groups: tuple[TopicGroup, ...]
    is_complete: bool


def topic_groups(client: WireClient, topic: str) -> TopicGroups:
    """The groups with committed offsets of ``topic``. Share groups keep their progress elsewhere and are left out.

    Raises UnknownTopicError.
    """
    ends = end_offsets(client, partitions_of(client, [topic]), read_committed=False)
    listed = [group for group in list_groups(client) if group.kind.lower() != "share"]
    looked_at = listed[:GROUPS_MAX]
    coordinators(client, [group.name for group in looked_at], GROUP)  # all in one request
    found = []
    for group in looked_at:
        committed = committed_offsets(client, group.name).restrict([topic])
        reads = not is_load_group(group.name)
        progress = tuple(
            PartitionProgress(tp, offset, ends.get(tp), None, reads) for tp, offset in sorted(committed.items())
        )
        if progress:
            found.append(TopicGroup(group.name, group.kind.lower() or "classic", group.state, progress))
    return TopicGroups(tuple(found), len(looked_at) == len(listed))
