"""What becomes of a partition's old segments: retention by time and size, and files that are not needed any more.

Order, so that a crash at any step leaves a right log: first the log start moves in memory, and readers follow it; the
node's checkpoint makes it durable; only then do files go (``log.directory`` sees to that order). Should power fail in
between, opening the partition drops what lies before the log start that was durable.

Invariants: the active segment never goes; a segment goes whole or not at all; nothing at or past the high watermark
goes, nor a file that a flush may use. Views that were handed out stay valid.

Concurrency: owned by the partition log's owner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mainstem.record.constants import NO_TIMESTAMP

if TYPE_CHECKING:
    from mainstem.log.log_segments import LogSegments
    from mainstem.log.partition_log import PartitionLog
    from mainstem.log.segment import Segment


class Cleaning:
    """One partition's; made by its log."""

    def __init__(
        self,
        log: PartitionLog,
        segments: LogSegments,
        roll: Callable[[], None],
        may_go: Callable[[Segment], bool],
        opened_at_ms: int,
    ) -> None:
        self._log = log
        self._segments = segments
        self._roll = roll
        self._may_go = may_go
        self._opened_at_ms = opened_at_ms
        self._dropped: list[Segment] = []

    # Retention

    def expire(self, now_ms: int) -> int:
        """Move the log start behind what ``retention.ms`` and ``retention.bytes`` do not keep; the log start.

        An idle active segment of which every record has expired is rolled, so that its records go, too. A segment's age
        is that of its newest record; where no record has a timestamp, that of the partition's opening.
        Raises StorageError when the new segment cannot be made.
        """
        log = self._log
        if "delete" not in log.config.cleanup_policy or log.offline_reason is not None:
            return log.log_start_offset
        count = max(self._expired_by_time(now_ms), self._expired_by_size())
        if count == len(self._segments):
            if log.high_watermark == log.log_end_offset and self._segments.active.size_bytes:
                self._roll()
            else:
                count -= 1
        while count and self._segments[count].base_offset > log.high_watermark:
            count -= 1
        if count:
            log.delete_records(max(log.log_start_offset, self._segments[count].base_offset))
        return log.log_start_offset

    def _expired_by_time(self, now_ms: int) -> int:
        """How many of the oldest segments hold nothing that is young enough."""
        retention_ms = self._log.config.retention_ms
        if retention_ms < 0:
            return 0
        for count, segment in enumerate(self._segments):
            newest_ms = segment.max_timestamp_ms
            if newest_ms == NO_TIMESTAMP:
                newest_ms = self._opened_at_ms
            if now_ms - newest_ms <= retention_ms or (segment.is_active and segment.size_bytes == 0):
                return count
        return len(self._segments)

    def _expired_by_size(self) -> int:
        """How many of the oldest segments can go while at least ``retention.bytes`` stay."""
        if self._log.config.retention_bytes < 0:
            return 0
        excess = self._log.size_bytes - self._log.config.retention_bytes
        for count, segment in enumerate(self._segments):
            excess -= segment.size_bytes
            if excess < 0:
                return count
        return len(self._segments)

    # Files that go

    def drop_before(self, offset: int) -> None:
        """Let go of the segments that lie wholly before ``offset``; their files stay for now."""
        for segment in self._segments.drop_before(offset, self._may_go):
            segment.close()
            self._dropped.append(segment)

    def take_dropped(self) -> list[Segment]:
        """The segments whose files may go once the log start is durable; each is told once."""
        self.drop_before(self._log.log_start_offset)  # what a flush held the last time
        dropped, self._dropped = self._dropped, []
        return dropped
