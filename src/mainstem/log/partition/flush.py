"""One flush of a partition: the files to sync, and the offsets that are durable when it is done.

A flush has three steps, so that the disk work (fdatasync, fsync of directories) can run on another thread:
``PartitionLog.start_flush``, on the owner's thread, notes what is dirty. ``Flush.run``, on any thread, syncs exactly
that and touches nothing else. ``PartitionLog.finish_flush``, on the owner's thread, moves the recovery point and the
high watermark; if the sync failed, it takes the partition offline for writes instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Final

from mainstem.clock import Clock
from mainstem.log.files.disk import Disk, DiskFile
from mainstem.log.files.names import PARTITION_METADATA
from mainstem.log.files.small_files import sync_file
from mainstem.log.segments.log_segments import LogPlace
from mainstem.log.segments.segment import Segment
from mainstem.model import TopicPartition

SMALL_BYTES: Final = 64 << 10
_UNSYNCED_BYTES_MAX: Final = 64 << 20
_UNSYNCED_AGE_S_MAX: Final = 30.0


class Unsynced:
    """The files that the next flush of a partition has to sync, with ``size_bytes`` of new bytes, and directories.

    After a start that was not clean, the disk may still have bytes after the active segment's end that the page cache
    lacks: those of a write that was taken back. A power cut would bring them back in front of the records of later
    segments. So the end is set again with the first change of the segment, and synced with it; else when another
    segment begins, or when the partition is closed: a start after a clean end takes all ends for synced.
    """

    __slots__ = ("_clock", "_is_end_synced", "_since_s", "directories", "segments", "size_bytes")

    def __init__(self, clock: Clock, directories: Iterable[PurePath], *, is_end_synced: bool) -> None:
        self._clock = clock
        self._is_end_synced = is_end_synced
        self._since_s = 0.0
        self.directories: dict[PurePath, None] = dict.fromkeys(directories)
        self.segments: dict[Segment, None] = {}
        self.size_bytes = 0

    def add(self, active: Segment) -> None:
        """The active segment changes. Raises StorageError: then it must not."""
        if not self._is_end_synced:
            active.discard_tail()
            self._is_end_synced = True
        if not self.segments:
            self._since_s = self._clock.monotonic_s()
        if active not in self.segments:
            self.segments[active] = None
            active.pins += 1

    def add_end(self, active: Segment) -> None:
        """The active segment ends here: another begins, or the partition is closed. Raises StorageError."""
        if not self._is_end_synced:
            self.add(active)

    def is_due(self) -> bool:
        """Whether many bytes are unsynced, or some for long."""
        if not self.segments:
            return False
        age_s = self._clock.monotonic_s() - self._since_s
        return self.size_bytes >= _UNSYNCED_BYTES_MAX or age_s >= _UNSYNCED_AGE_S_MAX

    def take(self, topic_partition: TopicPartition, disk: Disk, end: tuple[int, LogPlace]) -> Flush | None:
        """A flush of all of it, up to the log's ``end``; from then on it is what comes later. None if there is none."""
        if not self.segments and not self.directories:
            return None
        flush = Flush(topic_partition, disk, tuple(self.segments), tuple(self.directories), end, self.size_bytes)
        self.segments.clear()
        self.directories.clear()
        self.size_bytes = 0
        return flush


class Flush:
    """``end_offset`` is the recovery point that the partition has once ``run`` has returned; ``size_bytes`` have been
    written since the flush before.
    """

    __slots__ = (
        "_directories",
        "_disk",
        "_files",
        "end_offset",
        "end_place",
        "segments",
        "size_bytes",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        disk: Disk,
        segments: Sequence[Segment],
        directories: Sequence[PurePath],
        end: tuple[int, LogPlace],
        size_bytes: int,
    ) -> None:
        self.topic_partition = topic_partition
        self._disk = disk
        self.segments = tuple(segments)
        self._files: tuple[DiskFile, ...] = tuple(segment.file() for segment in segments)
        self._directories = tuple(directories)
        self.end_offset, self.end_place = end
        self.size_bytes = size_bytes

    @property
    def is_small(self) -> bool:
        """Whether it syncs a few pages of one file, and no directory: a fast disk does that at once."""
        return self.size_bytes <= SMALL_BYTES and len(self._files) == 1 and not self._directories

    def run(self) -> None:
        """Sync. Raises StorageError, which belongs into ``finish_flush``; never call it again then."""
        for file in self._files:
            file.sync()
        for directory in self._directories:
            if self._disk.exists(directory / PARTITION_METADATA):
                sync_file(self._disk, directory / PARTITION_METADATA)
            self._disk.sync_directory(directory)
