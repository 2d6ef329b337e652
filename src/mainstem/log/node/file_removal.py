"""Segments whose files may go, on their way: out of the log, then out of sight, then off the disk.

A segment that a partition has dropped keeps its files until a checkpoint with the new log start is durable. Then they
are renamed to ``.deleted``, by the owner, so that no later file of the same name can be meant; then another thread
removes them, as that may take long. Opening a partition removes what is ``.deleted``.

Concurrency: the owner's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import PurePath
from typing import NamedTuple

from mainstem.errors import StorageError
from mainstem.log.cleaning.swap import set_aside
from mainstem.log.files.disk import Disk
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.segments.segment import Segment

_LOG = logging.getLogger(__name__)


class _Dropped(NamedTuple):
    """``checkpoint`` is the number of the first that says the new log start."""

    checkpoint: int
    partition: PartitionLog
    segment: Segment


class FileRemoval:
    """All of one node's."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._dropped: list[_Dropped] = []
        self._is_refused = False

    def wait_for(self, checkpoint: int, partitions: Iterable[PartitionLog]) -> None:
        """Take what the partitions have dropped; the checkpoint of that number makes their log starts durable."""
        for partition in partitions:
            self._dropped += (_Dropped(checkpoint, partition, each) for each in partition.cleaning.take_dropped())

    @property
    def is_waiting(self) -> bool:
        """Whether any segment waits for a checkpoint."""
        return bool(self._dropped)

    def forget(self, partition: PartitionLog) -> None:
        """The partition is deleted, with its directory."""
        self._dropped = [each for each in self._dropped if each.partition is not partition]

    def set_aside(self, written: int) -> list[PurePath]:
        """Rename what waited for a checkpoint up to ``written``; the files that may be removed now, oldest first.

        What cannot be renamed is tried again with the next checkpoint. The first failure is logged.
        """
        waiting: list[_Dropped] = []
        renamed: list[PurePath] = []
        failure: StorageError | None = None
        for each in self._dropped:
            if each.checkpoint > written or failure is not None:
                waiting.append(each)
                continue
            try:
                renamed += set_aside(self._disk, each.segment)
            except StorageError as error:
                failure = error
                waiting.append(each)
        self._dropped = waiting
        if failure is not None and not self._is_refused:
            _LOG.warning("files of removed segments stay for now: %s", failure)
        self._is_refused = failure is not None
        return renamed
