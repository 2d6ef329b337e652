"""How many bytes a partition holds on the disk, without opening it. Functions over the disk port; no state."""

from __future__ import annotations

from pathlib import PurePath

from mainstem.errors import StorageError
from mainstem.log.files.disk import Disk
from mainstem.log.files.names import LOG, parse_offset_file, partition_directory
from mainstem.log.node.directory import LogDirectory
from mainstem.model import TopicPartition


def stored_bytes(directory: LogDirectory, topic_partition: TopicPartition) -> int | None:
    """The size of all its ``.log`` files; None when the disk does not say."""
    log = directory.partitions.get(topic_partition)
    if log is not None:
        return log.local_bytes
    path = directory.path / partition_directory(topic_partition)
    try:
        if not directory.disk.exists(path):
            return 0
        parsed = ((name, parse_offset_file(name)) for name in directory.disk.list(path))
        return sum(size_of(directory.disk, path / name) for name, file in parsed if file is not None and file[1] == LOG)
    except StorageError:
        return None


def size_of(disk: Disk, path: PurePath) -> int:
    """A file's size. Raises StorageError."""
    file = disk.open(path)
    try:
        return file.size_bytes()
    finally:
        file.close()
