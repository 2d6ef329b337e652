"""Up to when a backup has all that was durable: never later than is true, and up to now for a quiet log.

A round takes what the log's checkpoint says. Records that came later are in longer files. For a partition with such
records the backup has all up to the last time at which that is known:

* the last look that found no longer file;
* when its line in the checkpoint has changed, the time of the checkpoint before. The file is written last, maybe long
  after its lines were noted; but a checkpoint is noted when the one before has been written.

A line that does not change holds the time back. Then the log cannot write its checkpoint; or it was killed, and has not
opened this unused partition since.
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

    ``line``: what the checkpoint says of it, the same since a look at ``seen_ms``. ``held_ms``: up to when the backup
    has all of it; None when no look has found out.
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
        """After a round that took ``moment``: up to when the backup has all, and the partition that it lacks longest.

        ``now_ms`` is a time before this look. The time is None when it is not known. Raises StorageError.
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
    """Whether a point has all that the log has written into one data directory, by the ends of its files.

    A log without news writes no checkpoint, and neither does a log whose disk refuses it: the age of the checkpoint
    does not tell these two apart. But every record is in a segment's file before it is acknowledged. So if no file is
    longer than the point says, and there is no newer segment, the point has all.

    A look costs the state of each partition's directory and of one file. Names are read again when they have changed.
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
