"""Committed offsets: the state, which is a replay of its records, and the rule by which they expire.

Pure state without I/O; one owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mainstem.broker.groups.group_types import Group
from mainstem.broker.groups.records import CommittedOffset, OffsetKey, OffsetRecord

_NONE: Mapping[tuple[str, int], CommittedOffset] = {}


class OffsetStore:
    """The last committed offset of each group and partition."""

    def __init__(self) -> None:
        self._of_group: dict[str, dict[tuple[str, int], CommittedOffset]] = {}

    def apply(self, change: OffsetRecord) -> None:
        """Take a record in, at the start or when it was written."""
        group_id, topic, partition = change.key
        if change.committed is not None:
            self._of_group.setdefault(group_id, {})[topic, partition] = change.committed
            return
        held = self._of_group.get(group_id)
        if held is not None:
            held.pop((topic, partition), None)
            if not held:
                del self._of_group[group_id]

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._of_group.get(group_id, _NONE).get((topic, partition))

    def of_group(self, group_id: str) -> Mapping[tuple[str, int], CommittedOffset]:
        """All that a group committed: (topic, partition) → offset."""
        return self._of_group.get(group_id, _NONE)

    def has(self, group_id: str) -> bool:
        return group_id in self._of_group

    def group_ids(self) -> list[str]:
        return list(self._of_group)

    def keys_of_topic(self, topic: str) -> Iterator[OffsetKey]:
        """Every committed offset in ``topic``."""
        for group_id, held in self._of_group.items():
            for name, partition in held:
                if name == topic:
                    yield OffsetKey(group_id, name, partition)


def expired(
    group: Group, held: Mapping[tuple[str, int], CommittedOffset], now_ms: int, retention_ms: int
) -> list[OffsetKey]:
    """The unused offsets of ``group`` whose retention is over (KIP-211)."""
    keys = []
    for (topic, partition), committed in held.items():
        since_ms = group.offset_expires_from_ms(topic, committed.commit_timestamp_ms)
        if since_ms is None:
            continue
        explicit_ms = committed.expire_timestamp_ms
        if now_ms >= (explicit_ms if explicit_ms >= 0 else since_ms + retention_ms):
            keys.append(OffsetKey(group.group_id, topic, partition))
    return keys
