"""A Mainstem data directory that no log process has open, read without changing it.

``stopped_node`` holds its lock, so that no log starts on it meanwhile. Its metadata is replayed from a copy. Only a
directory that was not stopped cleanly is recovered first, as any start does.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from mainstem.clock import SystemClock
from mainstem.errors import InputError, StorageError
from mainstem.kafka_directory.cluster_state import ClusterState, read_node
from mainstem.kafka_directory.directory_files import file_names, read_small_file, reading
from mainstem.log.cleaning.compaction_job import SWAP
from mainstem.log.files.disk import OsDisk
from mainstem.log.files.names import (
    CLEAN_SHUTDOWN,
    GRADUATED,
    LEADER_EPOCH_CHECKPOINT,
    LOCK,
    META_PROPERTIES,
    NODE_CHECKPOINT,
    parse_partition_directory,
    partition_directory,
)
from mainstem.log.node.checkpoint_write import read_checkpoint
from mainstem.log.node.metadata import METADATA_PARTITION
from mainstem.log.node.node_log import NodeLog
from mainstem.log.partition.checkpoints import decode_leader_epochs, decode_properties
from mainstem.log.recovery.node_checkpoint import NodeCheckpoint
from mainstem.model import TopicPartition

_METADATA: Final = partition_directory(METADATA_PARTITION)


class StoppedNode(NamedTuple):
    """The content of the directory. ``partitions`` are those that have files.

    ``was_clean``: nothing is to be recovered.
    """

    path: Path
    cluster_id: str
    node_id: int
    checkpoint: NodeCheckpoint
    cluster: ClusterState
    partitions: tuple[TopicPartition, ...]
    was_clean: bool


@contextmanager
def stopped_node(data: Path, *, recover: bool) -> Iterator[StoppedNode]:
    """The directory, locked for as long as the block takes; with ``recover`` it is recovered first, if need be.

    Raises InputError for what is not a data directory, DirectoryLockedError, StorageError.
    """
    require_data_directory(data)
    disk = OsDisk()
    if recover and not (data / CLEAN_SHUTDOWN).exists():
        _recover(data)
    lock = disk.lock(data / LOCK)
    try:
        yield _read(disk, data)
    finally:
        lock.release()


def require_data_directory(data: Path) -> None:
    """Raises InputError unless it is a Mainstem data directory."""
    if (data / GRADUATED).is_file():
        raise InputError(f"the log of {data} was given up for that of {(data / GRADUATED).read_text().strip()}")
    if not (data / META_PROPERTIES).is_file() or not (data / _METADATA).is_dir():
        raise InputError(f"{data} is not a Mainstem data directory, it has no {META_PROPERTIES} or no {_METADATA}")


def _recover(data: Path) -> None:
    """Open every partition, as a start after a crash does, and close all of them cleanly."""
    node = NodeLog.open(OsDisk(), SystemClock(), data, {})
    try:
        for topic_partition in sorted(node.directory.waiting):
            node.directory.get(topic_partition)
    finally:
        node.close()


def _read(disk: OsDisk, data: Path) -> StoppedNode:
    properties = decode_properties(read_small_file(data / META_PROPERTIES) or b"")
    checkpoint = read_checkpoint(disk, data)
    named = [each for each in map(parse_partition_directory, file_names(data)) if each is not None]
    partitions = tuple(each for each in named if each != METADATA_PARTITION)
    epochs = [checkpoint.leader_epoch]
    for each in partitions:
        path = data / partition_directory(each)
        entries = decode_leader_epochs(read_small_file(path / LEADER_EPOCH_CHECKPOINT)) or []
        epochs += [entry.epoch for entry in entries]
        unfinished = [name for name in file_names(path) if name.endswith(SWAP)]
        if unfinished:
            raise StorageError(f"{path / unfinished[0]} is half of a compaction: start Mainstem on {data}, and stop it")
    return StoppedNode(
        data,
        properties.get("cluster.id", ""),
        int(properties.get("node.id", "1")),
        checkpoint,
        _metadata(data, max(epochs)),
        partitions,
        (data / CLEAN_SHUTDOWN).exists(),
    )


def _metadata(data: Path, leader_epoch: int) -> ClusterState:
    """Replay the metadata from a copy: an opened log may write."""
    with tempfile.TemporaryDirectory(prefix="mainstem-") as scratch:
        copy = Path(scratch) / "data"
        with reading(data):
            shutil.copytree(data / _METADATA, copy / _METADATA)
            for name in (META_PROPERTIES, NODE_CHECKPOINT, CLEAN_SHUTDOWN):
                if (data / name).exists():
                    shutil.copyfile(data / name, copy / name)
        node = NodeLog.open(OsDisk(), SystemClock(), copy, {})
        try:
            return read_node(node.metadata, leader_epoch)
        finally:
            node.close()
