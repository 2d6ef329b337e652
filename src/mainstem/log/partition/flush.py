"""One flush of a partition: the files to sync, and the offsets that are durable when it is done.

A flush has three steps, so that the disk work (fdatasync, fsync of directories) can run on another thread:
``PartitionLog.start_flush``, on the owner's thread, notes what is dirty. ``Flush.run``, on any thread, syncs exactly
that and touches nothing else. ``PartitionLog.finish_flush``, on the owner's thread, moves the recovery point and the
high watermark; if the sync failed, it takes the partition offline for writes instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from mainstem.log.files.disk import Disk, DiskFile
from mainstem.log.files.names import PARTITION_METADATA
from mainstem.log.files.small_files import sync_file
from mainstem.log.segments.log_segments import LogPlace
from mainstem.log.segments.segment import Segment
from mainstem.model import TopicPartition

SMALL_BYTES: Final = 64 << 10


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
