"""Makes a data directory out of a backup, as the log was at a point.

The directory is written under another name beside its place, and gets its name when all of it is durable: a restore
that is interrupted leaves nothing under the name. What is derived (indexes, seals, view stores, the key index) is left
to be rebuilt. The tree of a verifiable partition is computed from its leaves: the log may lack some of their batches.
The log starts on it as after a power cut at the point: open transactions are aborted or ended as their
coordinator's records say, and all partitions are led with a later leader epoch than any that the backup has seen.

The new directory gets an id of its own, so it can never write into the backup that it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from mainstem.backup.catalog import BackupState, PartitionEnd, key_of
from mainstem.backup.manifest import ManifestReader
from mainstem.backup.moments import ends_of, point_at
from mainstem.backup.stored_files import stretches
from mainstem.durable_files import LOCAL_FILES, put_in_place, replace_file, unfinished_directory
from mainstem.errors import InputError, StorageError
from mainstem.log.files.disk import OsDisk
from mainstem.log.files.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    META_PROPERTIES,
    NODE_CHECKPOINT,
    PARTITION_METADATA,
    SNAPSHOT,
    offset_file,
    partition_directory,
)
from mainstem.log.partition.checkpoints import (
    decode_uuid,
    encode_leader_epochs,
    encode_partition_metadata,
    encode_properties,
    encode_uuid,
)
from mainstem.log.partition.leader_epochs import EpochEntry
from mainstem.log.recovery.node_checkpoint import NodeCheckpoint, PartitionOffsets, encode_node_checkpoint
from mainstem.log.verifiable.tree_files import TreeFiles
from mainstem.model import Position, TopicPartition
from mainstem.object_stores.store import ObjectMissingError, ObjectStore
from mainstem.tlog.leaf import LEAF_BYTES, decode_leaf
from mainstem.tlog.merkle import EMPTY_ROOT

_LEAVES_A_WRITE: Final = 4096
_RESTORING: Final = ".restoring"
_EPOCHS_AHEAD: Final = 16
"""Starts of the lost log after its last point, at most: their leader epochs must not come again."""
_TRIES: Final = 3


@dataclass(frozen=True)
class Restored:
    """``ends``: up to where each topic goes; ``newest``: up to where the backup's newest point goes."""

    number: int
    time_ms: int
    newest_time_ms: int
    ends: Position
    newest: Position
    partitions: int
    size_bytes: int


def require_empty(target: Path) -> None:
    """Raises InputError when there is anything at ``target``."""
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.exists() or target.is_symlink():
        raise InputError(f"{target} exists and is not empty: restore into a new directory, then choose")


def restore(store: ObjectStore, target: Path, at: str | None, tell: Callable[[str], None]) -> Restored:
    """Restore into ``target``, which must be empty or missing. Raises InputError, StorageError, StoreError."""
    target = target.absolute()
    require_empty(target)
    for last in (*[False] * (_TRIES - 1), True):
        reader = ManifestReader(store)
        newest = reader.newest()
        chosen = point_at(reader, at)
        try:
            return _Restore(store, target, reader, newest, chosen).run(tell)
        except ObjectMissingError:
            if last:
                raise
            tell("the backup has merged objects meanwhile: the restore begins again")
    raise AssertionError


class _Restore:
    """One try."""

    def __init__(
        self, store: ObjectStore, target: Path, reader: ManifestReader, newest: BackupState, chosen: BackupState
    ) -> None:
        self._store = store
        self._target = target
        self._making = target.with_name(target.name + _RESTORING)
        self._reader = reader
        self._newest = newest
        self._chosen = chosen
        self._size_bytes = 0

    def run(self, tell: Callable[[str], None]) -> Restored:
        with unfinished_directory(self._making):
            try:
                for topic_partition, end in self._chosen.ends.items():
                    self._partition(topic_partition, end)
                self._node_files()
            except OSError as error:
                raise StorageError(f"cannot write {self._making}: {error.strerror or error}") from error
            put_in_place(self._making, self._target)
        chosen = self._chosen
        return Restored(
            chosen.number,
            chosen.time_ms,
            self._newest.time_ms,
            ends_of(chosen),
            ends_of(self._newest),
            len(chosen.ends),
            self._size_bytes,
        )

    def _partition(self, topic_partition: TopicPartition, end: PartitionEnd) -> None:
        directory = self._making / partition_directory(topic_partition)
        directory.mkdir()
        key = key_of(end.topic_id, topic_partition.partition)
        segments, snapshot = self._newest.at(key, self._chosen.number, end)
        if not segments or segments[-1].offset != end.last_base:
            raise StorageError(f"{self._store.url}: the manifest lacks a segment of {topic_partition}")
        for segment in segments:
            size = end.end_position if segment.offset == end.last_base else segment.size_bytes
            self._write(directory / offset_file(segment.offset, LOG), stretches(self._store, segment, size))
        if snapshot is not None:
            path = directory / offset_file(snapshot.offset, SNAPSHOT)
            self._write(path, stretches(self._store, snapshot, snapshot.size_bytes))
        epochs = encode_leader_epochs(EpochEntry(*pair) for pair in end.epochs)
        self._small(directory / LEADER_EPOCH_CHECKPOINT, epochs)
        topic_id = decode_uuid(end.topic_id) if end.topic_id else None
        self._small(directory / PARTITION_METADATA, encode_partition_metadata(topic_id or UUID(int=0)))
        leaves = self._newest.tree_at(key, self._chosen.number)
        if leaves is not None:
            files = TreeFiles(OsDisk(), directory, topic_id or UUID(int=0), topic_partition.partition)
            _write_tree(files, (data for _, data in stretches(self._store, leaves, leaves.size_bytes)), end.end_offset)

    def _write(self, path: Path, data: object) -> None:
        with path.open("xb") as file:
            path.chmod(0o600)
            for at, stretch in data:  # type: ignore[attr-defined]
                assert file.tell() == at
                file.write(stretch)
                self._size_bytes += len(stretch)

    @staticmethod
    def _small(path: Path, data: bytes) -> None:
        replace_file(LOCAL_FILES, path, data, sync=False)

    def _node_files(self) -> None:
        """The node's identity and checkpoint; without the sign of a clean end."""
        source = self._reader.root.source
        properties = {
            "version": "1",
            "cluster.id": source.cluster_id,
            "node.id": str(source.node_id),
            "directory.id": encode_uuid(uuid4()),
        }
        self._small(self._making / META_PROPERTIES, encode_properties(properties))
        partitions = {
            name: PartitionOffsets(
                decode_uuid(end.topic_id) if end.topic_id else None, end.end_offset, end.log_start_offset
            )
            for name, end in self._chosen.ends.items()
        }
        checkpoint = NodeCheckpoint(self._newest.leader_epoch + _EPOCHS_AHEAD, partitions)
        self._small(self._making / NODE_CHECKPOINT, encode_node_checkpoint(checkpoint))


def _write_tree(files: TreeFiles, stored: Iterable[bytes], end_offset: int) -> None:
    """Write the tree of the leaves before ``end_offset``. Raises StorageError."""
    size, data = 0, b""
    for stretch in stored:
        data += stretch
        whole = len(data) - len(data) % LEAF_BYTES
        entries = [data[at : at + LEAF_BYTES] for at in range(0, whole, LEAF_BYTES)]
        data = data[whole:]
        kept = [each for each in entries if decode_leaf(each).last_offset < end_offset]
        for at in range(0, len(kept), _LEAVES_A_WRITE):
            files.append(size + at, kept[at : at + _LEAVES_A_WRITE])
        size += len(kept)
        if len(kept) < len(entries):
            break
    files.write_state(size, files.root(size) if size else EMPTY_ROOT)
