"""Reads the data directory of a log, which may be running: its checkpoint, its partitions' files, and what is durable.

The log process never waits for this: it takes no lock of the log, and opens files for reading only.


* ``mainstem-checkpoint`` is replaced as a whole about once a second. Its recovery points are all of one moment, taken
  by the one thread that owns the log, and everything before them is synced. So the records before them are a state that
  a power cut at that moment could leave: all partitions fit each other, groups and transactions, too.
* Bytes before the recovery point are never written over. A compaction makes new files, and is seen by their inodes.
* Files that go while they are read (retention, compaction, a deleted topic) make the round
  begin again: ``ChangedError``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from mainstem.backup.manifest import LogIdentity
from mainstem.durable_files import LOCAL_FILES, replace_file
from mainstem.errors import DamagedTreeError, ProofError, StorageError, UnavailableError
from mainstem.log.cleaning.compaction_job import SWAP
from mainstem.log.files.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    META_PROPERTIES,
    NODE_CHECKPOINT,
    PARTITION_METADATA,
    REMOTE,
    REMOTE_PARTITIONS,
    SNAPSHOT,
    offset_file,
    parse_offset_file,
    parse_partition_directory,
    partition_directory,
)
from mainstem.log.partition.checkpoints import (
    decode_leader_epochs,
    decode_partition_metadata,
    decode_properties,
    encode_uuid,
)
from mainstem.log.recovery.node_checkpoint import NodeCheckpoint, PartitionOffsets, decode_node_checkpoint
from mainstem.log.segments.batch_scan import Start, walk_past_damage
from mainstem.log.verifiable.tree_files import STATE_FILE
from mainstem.model import TopicPartition
from mainstem.record.checksum import crc32c
from mainstem.tlog.checkpoints import parse_checkpoint

_READ_BYTES: Final = 4 << 20


class ChangedError(UnavailableError):
    """The log changed its files while they were read: the round begins again."""


class NoLogYetError(UnavailableError):
    """The directory has no log yet, or no checkpoint."""


class Moment(NamedTuple):
    """A checkpoint, and when it was written by the machine's clock. A log that has no news writes none."""

    checkpoint: NodeCheckpoint
    time_ms: int


class FileIdentity(NamedTuple):
    """Which file of the machine it is, and its state. A compaction makes new files; an append changes the state."""

    device: int
    inode: int
    modified_ns: int
    size_bytes: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileIdentity:
        """From what the system says of a file."""
        return cls(found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)

    def text(self, *, closed: bool) -> str:
        """For the manifest. A closed segment does not change, so its state is part of it."""
        return f"{self.device}:{self.inode}" + (f":{self.modified_ns}:{self.size_bytes}" if closed else "")

    def is_in(self, text: str) -> bool:
        """Whether it is the file of such a text."""
        return text in (self.text(closed=False), self.text(closed=True))


class OpenFile:
    """A file that is open for reading, also after it has lost its name. See ``log.files.disk.ReadableFile``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        found = os.fstat(self._descriptor)
        self.identity = FileIdentity.of(found)

    def read(self, file_position: int, length: int) -> bytes:
        try:
            return os.pread(self._descriptor, length, file_position)
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror or error}") from error

    def crc(self, start: int, end: int) -> int:
        """The CRC32C of a stretch."""
        found = 0
        for at in range(start, end, _READ_BYTES):
            found = crc32c(self.read(at, min(_READ_BYTES, end - at)), found)
        return found

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)


@contextmanager
def opened(path: Path) -> Iterator[OpenFile]:
    """The file at ``path``. Raises ChangedError when it is gone, StorageError."""
    try:
        file = OpenFile(path)
    except FileNotFoundError as error:
        raise ChangedError(f"{path} is gone") from error
    except OSError as error:
        raise StorageError(f"cannot open {path}: {error.strerror or error}") from error
    try:
        yield file
    finally:
        file.close()


@dataclass(frozen=True)
class Listing:
    """The files of a partition: segments and snapshots, by offset, rising; and the leader epochs.

    All segments were there at one moment. ``remote``: further segments, whose bytes are in the store alone, with their
    ``.remote`` files. ``lost``: further ones of which the ``.remote`` is lost (``remote_files``).
    """

    directory: Path
    segments: dict[int, FileIdentity]
    snapshots: list[int]
    epochs: tuple[tuple[int, int], ...]
    remote: Mapping[int, FileIdentity] = field(default_factory=dict)
    lost: frozenset[int] = frozenset()

    @property
    def bases(self) -> list[int]:
        """The base offsets of all segments."""
        return sorted({*self.segments, *self.in_the_store})

    @property
    def in_the_store(self) -> set[int]:
        """The base offsets of the segments whose bytes are in the store alone."""
        return {*self.remote, *self.lost}

    def path(self, offset: int, suffix: str = LOG) -> Path:
        """The file of a segment."""
        return self.directory / offset_file(offset, suffix)


class DataDirectory:
    """One data directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def source(self) -> LogIdentity:
        """Whose log it is. Raises NoLogYetError."""
        try:
            found = decode_properties((self.path / META_PROPERTIES).read_bytes())
        except FileNotFoundError as error:
            raise NoLogYetError(f"{self.path} has no log yet (no {META_PROPERTIES})") from error
        except OSError as error:
            raise StorageError(f"cannot read {self.path / META_PROPERTIES}: {error.strerror or error}") from error
        if not found.get("cluster.id"):
            raise StorageError(f"{self.path / META_PROPERTIES} names no cluster.id")
        node_id = int(found.get("node.id", "1"))
        return LogIdentity(found["cluster.id"], found.get("directory.id", ""), node_id, str(self.path.absolute()))

    def moment(self) -> Moment:
        """The newest checkpoint. Raises NoLogYetError, StorageError."""
        path = self.path / NODE_CHECKPOINT
        try:
            with path.open("rb") as file:
                data, time_ns = file.read(), os.fstat(file.fileno()).st_mtime_ns
        except FileNotFoundError as error:
            raise NoLogYetError(f"{self.path} has no {NODE_CHECKPOINT} yet") from error
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
        checkpoint = decode_node_checkpoint(data)
        if checkpoint is None:
            raise StorageError(f"{path} does not match its checksum")
        return Moment(checkpoint, time_ns // 1_000_000)

    def changed_ns(self, topic_partition: TopicPartition) -> int:
        """When names last changed in a partition's directory; -1 when there is none."""
        with suppress(OSError):
            return (self.path / partition_directory(topic_partition)).stat().st_mtime_ns
        return -1

    def topic_id(self, topic_partition: TopicPartition) -> UUID | None:
        """The topic id in a partition's directory; None where there is none. Raises StorageError."""
        path = self.path / partition_directory(topic_partition) / PARTITION_METADATA
        try:
            return decode_partition_metadata(_read(path))
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror or error}") from error

    def listing(self, topic_partition: TopicPartition, topic_id: object) -> Listing:
        """The files of a partition. Raises ChangedError when it is another topic's by now, or between two steps."""
        directory = self.path / partition_directory(topic_partition)
        try:
            written_id = decode_partition_metadata(_read(directory / PARTITION_METADATA))
            if None not in (topic_id, written_id) and written_id != topic_id:
                raise ChangedError(f"{directory} is another topic's by now")
            epochs = decode_leader_epochs(_read(directory / LEADER_EPOCH_CHECKPOINT)) or []
            names = os.listdir(directory)  # noqa: PTH208 names are wanted, not paths
            segments = {
                file[0]: FileIdentity.of((directory / name).stat())
                for name, file in sorted((name, parse_offset_file(name)) for name in names)
                if file is not None and file[1] == LOG
            }
            remote = {
                file[0]: FileIdentity.of((directory / name).stat())
                for name, file in sorted((name, parse_offset_file(name)) for name in names)
                if file is not None and file[1] == REMOTE and file[0] not in segments
            }
            if _segment_names(os.listdir(directory)) != _segment_names(names):  # noqa: PTH208
                raise ChangedError(f"segments of {directory} come and go just now")
        except FileNotFoundError as error:
            raise ChangedError(f"{directory} is gone, or a segment of it") from error
        except OSError as error:
            raise StorageError(f"cannot list {directory}: {error.strerror or error}") from error
        parsed = [file for file in map(parse_offset_file, names) if file is not None]
        for name in names:
            inner = parse_offset_file(name.removesuffix(SWAP)) if name.endswith(LOG + SWAP) else None
            if inner is not None and inner[0] not in segments:
                raise ChangedError(f"{directory / name} takes its place just now")
        snapshots = sorted(offset for offset, suffix in parsed if suffix == SNAPSHOT)
        return Listing(
            directory,
            segments,
            snapshots,
            tuple((entry.epoch, entry.start_offset) for entry in epochs),
            remote,
        )

    def newest_segment(self, topic_partition: TopicPartition) -> int:
        """The base offset of a partition's newest segment; -1 when it has none. Raises StorageError."""
        path = self.path / partition_directory(topic_partition)
        try:
            found = [parse_offset_file(name) for name in os.listdir(path)]  # noqa: PTH208 names are wanted, not paths
        except OSError as error:
            raise StorageError(f"cannot list {path}: {error.strerror or error}") from error
        return max((file[0] for file in found if file is not None and file[1] in (LOG, REMOTE)), default=-1)

    def segment_bytes(self, topic_partition: TopicPartition, base_offset: int) -> int:
        """How long a segment's file is. Raises StorageError."""
        path = self.path / partition_directory(topic_partition) / offset_file(base_offset, LOG)
        try:
            return path.stat().st_size
        except OSError as error:
            raise StorageError(f"cannot look at {path}: {error.strerror or error}") from error

    def log_start(self, topic_partition: TopicPartition) -> int:
        """Where a partition begins by the newest checkpoint. The log writes that before it removes files.

        Raises ChangedError when the checkpoint does not name the partition.
        """
        found = self.moment().checkpoint.partitions.get(topic_partition)
        if found is None:
            raise ChangedError(f"the checkpoint does not name {topic_partition} any more")
        return found.log_start_offset

    def require_newest(self, topic_partition: TopicPartition, offsets: PartitionOffsets) -> None:
        """Raises ChangedError when there is a checkpoint with other offsets of the partition."""
        if self.moment().checkpoint.partitions.get(topic_partition) != offsets:
            raise ChangedError(f"the checkpoint of {topic_partition} is an older one")

    def partition_directories(self) -> list[tuple[Path, int]]:
        """All of them, and when names last changed in each. Raises StorageError."""
        found = []
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if parse_partition_directory(entry.name) is not None:
                        with suppress(FileNotFoundError):  # it is deleted just now
                            found.append((self.path / entry.name, entry.stat().st_mtime_ns))
        except OSError as error:
            raise StorageError(f"cannot list {self.path}: {error.strerror or error}") from error
        return found

    def remote_partitions(self) -> list[TopicPartition]:
        """The partitions whose closed segments may leave the disk, once the store has them. Raises StorageError."""
        try:
            names = (_read(self.path / REMOTE_PARTITIONS) or b"").decode().split()
        except OSError as error:
            raise StorageError(f"cannot read {self.path / REMOTE_PARTITIONS}: {error.strerror or error}") from error
        return [found for found in map(parse_partition_directory, names) if found is not None]

    def write_remote(
        self,
        topic_partition: TopicPartition,
        topic_id: str,
        base_offset: int,
        data: bytes,
        may_replace: Callable[[Path, FileIdentity], bool],
        *,
        is_lost: bool,
    ) -> bool:
        """Write where the store has the bytes of a segment, if the partition still has it; whether the file says it.

        ``may_replace`` says whether a ``.remote`` without a ``.log`` may go for the new one. ``is_lost``: it is written
        although there is neither. Raises StorageError.
        """
        directory = self.path / partition_directory(topic_partition)
        path = directory / offset_file(base_offset, REMOTE)
        try:
            written_id = decode_partition_metadata(_read(directory / PARTITION_METADATA))
            has_log = (directory / offset_file(base_offset, LOG)).exists()
            found = _read(path)
            if found == data:
                return True
            if written_id is not None and encode_uuid(written_id) != topic_id:
                return False
            if not has_log:
                may_write = is_lost if found is None else may_replace(path, FileIdentity.of(path.stat()))
                if not may_write:
                    return False
            replace_file(LOCAL_FILES, path, data)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
        return True


def _segment_names(names: list[str]) -> set[str]:
    return {name for name in names if name.endswith((LOG, LOG + SWAP))}


def _read(path: Path) -> bytes | None:
    """A file's bytes; None when there is none."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def kept_leaves(directory: Path) -> int | None:
    """How many leaves of a partition's tree are durable and stay as they are; None where it has no tree.

    Raises DamagedTreeError.
    """
    data = _read(directory / STATE_FILE)
    try:
        return None if data is None else parse_checkpoint(data).size
    except ProofError as error:
        raise DamagedTreeError(f"{directory / STATE_FILE} is damaged: {error}") from error


class Proven(NamedTuple):
    """How far a walk came: a file position and the offset that follows; ``damaged_at`` is the first damage."""

    end: int
    end_offset: int
    damaged_at: int | None


def prove(file: OpenFile, start: int, offset: int, until_offset: int) -> Proven:
    """Check every batch from a batch's start on by its checksum, as long as it begins before ``until_offset``.

    Damage is passed over, and its place returned: a backup has the bytes that are there.
    """
    end, damaged_at = start, None
    batches = walk_past_damage(file, Start(start, offset), file.identity.size_bytes, prove=True)
    while offset < until_offset:
        found = next(batches, None)
        if found is None or found[1].base_offset >= until_offset:
            damaged_at = end if damaged_at is None else damaged_at
            break
        at, header = found
        if at != end and damaged_at is None:
            damaged_at = end
        end, offset = at + header.size_bytes, header.next_offset
    return Proven(end, offset, damaged_at)
