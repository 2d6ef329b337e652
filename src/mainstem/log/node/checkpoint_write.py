"""Writing the node's checkpoint files, off the owner's thread; and reading them at a start.

Concurrency: ``CheckpointWriter.start`` belongs to the owner's thread; ``CheckpointWrite.run`` may run in any. Runs take
turns, and one that was overtaken by a newer one writes nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from uuid import UUID

from mainstem.durable_files import replace_file
from mainstem.log.files.disk import Disk
from mainstem.log.files.names import (
    DELETED,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    NODE_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from mainstem.log.files.small_files import read_file
from mainstem.log.node.background_flush import BackgroundFlush
from mainstem.log.partition.checkpoints import decode_offsets, encode_offsets
from mainstem.log.recovery.node_checkpoint import (
    NodeCheckpoint,
    PartitionOffsets,
    decode_node_checkpoint,
    encode_node_checkpoint,
)
from mainstem.model import TopicPartition

_LOG = logging.getLogger(__name__)


class CheckpointWrite:
    """Work for another thread: flushes, the checkpoint files, and directories and files to be removed."""

    __slots__ = ("_checkpoint", "_flushes", "_high_watermarks", "_number", "_to_remove", "_writer")

    def __init__(
        self,
        writer: CheckpointWriter,
        number: int,
        checkpoint: NodeCheckpoint,
        high_watermarks: Mapping[TopicPartition, int],
        to_remove: Sequence[PurePath],
        flushes: Sequence[BackgroundFlush],
    ) -> None:
        self._writer = writer
        self._number = number
        self._checkpoint = checkpoint
        self._high_watermarks = high_watermarks
        self._to_remove = to_remove
        self._flushes = flushes

    def run(self) -> None:
        """Do it, durably. Raises StorageError; the next checkpoint may succeed, as it writes new files."""
        for flush in self._flushes:
            flush.run()
        for path in self._to_remove:
            if path.suffix == DELETED:
                self._writer.disk.remove(path)
            else:
                self._writer.disk.remove_directory(path)
        self._writer.write(self._number, self._checkpoint, self._high_watermarks)


class CheckpointWriter:
    """Knows what was written last."""

    def __init__(self, disk: Disk, path: PurePath) -> None:
        self.disk = disk
        self._path = path
        self._lock = threading.Lock()
        self._started = 0
        self._written = 0
        self._last_started: tuple[NodeCheckpoint, Mapping[TopicPartition, int]] | None = None
        self._durable = NodeCheckpoint(0, {})  # what a start after a power cut would find, or an older one

    @property
    def next_number(self) -> int:
        """The number of the next write, if there is anything to write."""
        return self._started + 1

    @property
    def written(self) -> int:
        """The number of the last write that is durable."""
        return self._written

    def recovery_point_of(self, topic_partition: TopicPartition, topic_id: UUID) -> int:
        """The recovery point in the durable checkpoint: no start begins with an earlier one."""
        found = self._durable.partitions.get(topic_partition)
        return found.recovery_point if found is not None and found.topic_id == topic_id else 0

    def start(
        self,
        checkpoint: NodeCheckpoint,
        high_watermarks: Mapping[TopicPartition, int],
        to_remove: Sequence[PurePath],
        flushes: Sequence[BackgroundFlush],
        *,
        is_awaited: bool = False,
    ) -> CheckpointWrite | None:
        """A write of these, or None when the files say so already and there is nothing else to do.

        ``is_awaited``: segments were dropped that wait for the next write, even if the files say so already.
        """
        with self._lock:
            is_news = self._last_started != (checkpoint, high_watermarks) or self._written != self._started
            if not is_news and not to_remove and not flushes and not is_awaited:
                return None
            self._started += 1
            self._last_started = (checkpoint, high_watermarks)
            return CheckpointWrite(self, self._started, checkpoint, high_watermarks, to_remove, flushes)

    def write(self, number: int, checkpoint: NodeCheckpoint, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the files, unless newer ones were."""
        with self._lock:
            if number <= self._written:
                return
            replace_file(self.disk, self._path / NODE_CHECKPOINT, encode_node_checkpoint(checkpoint), sync=True)
            self._durable = checkpoint
            recovery_points = {tp: offsets.recovery_point for tp, offsets in checkpoint.partitions.items()}
            log_starts = {tp: offsets.log_start_offset for tp, offsets in checkpoint.partitions.items()}
            for name, content in (
                (RECOVERY_POINT_CHECKPOINT, recovery_points),
                (LOG_START_CHECKPOINT, log_starts),
                (HIGH_WATERMARK_CHECKPOINT, high_watermarks),
            ):
                replace_file(self.disk, self._path / name, encode_offsets(content), sync=False)
            self._written = number


def read_checkpoint(disk: Disk, path: PurePath) -> NodeCheckpoint:
    """The checkpoint of the node's last run: from its own file, else from Kafka's files, else empty."""
    data = read_file(disk, path / NODE_CHECKPOINT)
    checkpoint = decode_node_checkpoint(data)
    if checkpoint is not None:
        return checkpoint
    if data is not None:
        _LOG.warning("%s does not match its checksum and is ignored", path / NODE_CHECKPOINT)
    recovery_points = decode_offsets(read_file(disk, path / RECOVERY_POINT_CHECKPOINT)) or {}
    log_starts = decode_offsets(read_file(disk, path / LOG_START_CHECKPOINT)) or {}
    return NodeCheckpoint(
        0,
        {
            tp: PartitionOffsets(None, recovery_points.get(tp, 0), log_starts.get(tp, 0))
            for tp in recovery_points.keys() | log_starts.keys()
        },
    )
