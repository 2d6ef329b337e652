"""The time up to which a backup has every durable record. It is never too late; for a quiet log it is now.

A round copies the records that the log's checkpoint names. Later records make the segment files longer. For a partition
with such records, the time is the later one of these:

* the last look at the files that found none;
* the time of the previous checkpoint, once the partition's line in the checkpoint has changed. The time of the newest
  one may be too late: the log notes the lines first, and writes the file at the end. But it notes the lines of a
  checkpoint only after it has written the previous one.

While a partition's line does not change, the time stays. There are two reasons: the log cannot write its checkpoint, or
it was killed and has not opened the partition since.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from mainstem.backup.catalog import PartitionEnd
from mainstem.backup.source import DataDirectory, Moment
from mainstem.errors import StorageError
from mainstem.log.files.names import parse_partition_directory
from mainstem.log.partition.checkpoints import encode_uuid
from mainstem.log.recovery.node_checkpoint import PartitionOffsets
from mainstem.model import TopicPartition

_TICK_NS: Final = 1_000_000_000
"""The time of a directory is coarse: a second change within a tick may leave it the same. So a look is remembered only
when that time is older than this."""


class Behind(NamedTuple):
    """A partition with records that the backup lacks.

    ``line``: its line in the checkpoint, unchanged since the look at ``seen_ms``. ``held_ms``: the time up to which the
    backup has all of it; None if that is not known.
    """

    topic_partition: TopicPartition
    line: PartitionOffsets | None
    seen_ms: int
    held_ms: int | None


class HeldUntil:
    """Of one data directory. For one thread."""

    def __init__(self, directory: DataDirectory) -> None:
        self._coverage = PointCoverage(directory)
        self._behind: dict[TopicPartition, Behind] = {}
        self._looked_ms: int | None = None
        self._written_ms: tuple[int | None, int | None] = (None, None)

    def look(
        self, moment: Moment, ends: Mapping[TopicPartition, PartitionEnd], now_ms: int
    ) -> tuple[int | None, Behind | None]:
        """After a round that took ``moment``: the time, and the partition that has been behind for longest.

        ``now_ms`` is taken before this look. The time is None if it is not known. Raises StorageError.
        """
        if self._looked_ms is not None and now_ms < self._looked_ms:  # the clock was set back
            self._behind, self._looked_ms, self._written_ms = {}, None, (None, None)
        if moment.time_ms != self._written_ms[1]:
            self._written_ms = self._written_ms[1], moment.time_ms
        partitions = moment.checkpoint.partitions
        found = [self._as_known(each, partitions.get(each), now_ms) for each in self._coverage.beyond(ends)]
        self._behind = {each.topic_partition: each for each in found}
        self._looked_ms = now_ms
        if not found:
            return now_ms, None
        known = [each.held_ms for each in found if each.held_ms is not None]
        held_ms = min(known) if len(known) == len(found) else None
        return held_ms, min(found, key=lambda each: each.seen_ms)

    def _as_known(self, topic_partition: TopicPartition, line: PartitionOffsets | None, now_ms: int) -> Behind:
        before = self._behind.get(topic_partition)
        if before is None:
            return Behind(topic_partition, line, now_ms, self._looked_ms)
        if before.line == line:
            return before
        written_ms, held_ms = self._written_ms[0], before.held_ms
        if written_ms is not None and written_ms <= now_ms:  # else the clock was set back since
            held_ms = max(written_ms, held_ms or 0)
        return Behind(topic_partition, line, now_ms, held_ms)


class PointCoverage:
    """Finds the partitions with records after the backup's newest point, from the sizes of the segment files.

    The age of the log's checkpoint does not show them: neither a quiet log nor one with a full disk writes any. But
    the log writes each record to a segment file before it acknowledges the record. So the point is complete if no
    segment file is longer than the point says, and no newer segment exists.

    A look takes two ``stat`` calls a partition. It lists the names in a directory again only when they have changed.
    """

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._looks: dict[TopicPartition, tuple[int, str, int]] = {}

    def beyond(self, ends: Mapping[TopicPartition, PartitionEnd]) -> list[TopicPartition]:
        """The partitions that have, or may have, bytes after their end. Raises StorageError."""
        found, seen = [], set()
        for path, changed_ns in self._directory.partition_directories():
            topic_partition = parse_partition_directory(path.name)
            if topic_partition is None:
                continue
            seen.add(topic_partition)
            try:
                has_all = self._has_all(topic_partition, changed_ns, ends.get(topic_partition))
            except StorageError:  # its files come and go just now: the next round looks again
                has_all = False
            if not has_all:
                found.append(topic_partition)
        self._looks = {each: look for each, look in self._looks.items() if each in seen}
        return found

    def _has_all(self, topic_partition: TopicPartition, changed_ns: int, end: PartitionEnd | None) -> bool:
        if end is None:
            newest = self._directory.newest_segment(topic_partition)
            return newest < 0 or (newest == 0 and not self._directory.segment_bytes(topic_partition, 0))
        look = (changed_ns, end.topic_id, end.last_base)
        if self._looks.get(topic_partition) != look:
            topic_id = self._directory.topic_id(topic_partition)
            is_same = topic_id is None or encode_uuid(topic_id) == end.topic_id
            if not is_same or self._directory.newest_segment(topic_partition) != end.last_base:
                return False
            if changed_ns < time.time_ns() - _TICK_NS:
                self._looks[topic_partition] = look
        return self._directory.segment_bytes(topic_partition, end.last_base) <= end.end_position
