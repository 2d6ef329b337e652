"""Reads a whole data directory, of a stopped or running log, and reports each damage: file, file position, offset.

Every batch is verified by its checksum, and must follow the one before; index entries must point at batches; a seal
must match its files; snapshots, checkpoints and the trees of verifiable topics must be whole. Nothing is changed, and
no lock is taken.

A running log grows meanwhile: bytes after the last whole batch of a partition's last segment are damage only if they
are unchanged when they are read again. Files that retention or compaction has removed are skipped.

Functions over the disk port; no state.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final, NamedTuple

from mainstem.errors import StorageError
from mainstem.log.files.disk import Disk, DiskFile
from mainstem.log.files.names import (
    CUT,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    NODE_CHECKPOINT,
    OFFSET_INDEX,
    PARTITION_METADATA,
    REMOTE,
    REMOTE_PARTITIONS,
    SEAL,
    SIDECAR_SUFFIXES,
    SNAPSHOT,
    TIME_INDEX,
    offset_file,
    parse_offset_file,
    parse_partition_directory,
)
from mainstem.log.files.small_files import read_file
from mainstem.log.partition.checkpoints import decode_leader_epochs, decode_partition_metadata
from mainstem.log.partition.producer_snapshot import SnapshotError, decode_snapshot
from mainstem.log.recovery.node_checkpoint import PartitionOffsets, decode_node_checkpoint
from mainstem.log.recovery.remote_bases import lost_bases
from mainstem.log.segments.batch_scan import Start, walk_past_damage
from mainstem.log.segments.index_checksums import decode_seal
from mainstem.log.segments.remote_segment import RemoteSegment
from mainstem.log.segments.segment_indexes import SegmentIndexes
from mainstem.log.verifiable.tree_files import STATE_FILE, TreeFiles

_OFFSET_ENTRY: Final = struct.Struct(">II")
_TIME_ENTRY: Final = struct.Struct(">qI")


class Damage(NamedTuple):
    """One place. ``loses_records``: else the file is rebuilt from the ``.log`` when its partition is opened."""

    file: str
    file_position: int | None
    offset: int | None
    text: str
    loses_records: bool


@dataclass(slots=True)
class Report:
    """The counts of what was read, and the damages. ``remote_segments`` are in the backup's store alone: not read."""

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    cut_files: int = 0
    remote_segments: int = 0
    damages: list[Damage] = field(default_factory=list)


def verify_directory(disk: Disk, path: PurePath) -> Report:
    """Read everything under a data directory. Raises StorageError when there is none."""
    report = Report()
    names = disk.list(path)
    data = read_file(disk, path / NODE_CHECKPOINT)
    checkpoint = decode_node_checkpoint(data)
    if data is not None and checkpoint is None:
        report.damages.append(Damage(NODE_CHECKPOINT, None, None, "it does not match its checksum", False))
    known = checkpoint.partitions if checkpoint is not None else {}
    tiered = (read_file(disk, path / REMOTE_PARTITIONS) or b"").decode(errors="replace").split()
    for name in names:
        topic_partition = parse_partition_directory(name)
        if topic_partition is not None and disk.exists(path / name):
            offsets = known.get(topic_partition, PartitionOffsets(None, 0, 0))
            tiered_from = offsets if name in tiered else None
            _Partition(disk, path / name, topic_partition.partition, report, tiered_from).verify()
    return report


class _Partition:
    """One partition's directory. ``tiered``: the checkpoint's offsets of one whose segments may be in the store."""

    def __init__(
        self, disk: Disk, path: PurePath, partition: int, report: Report, tiered: PartitionOffsets | None
    ) -> None:
        self._disk = disk
        self._path = path
        self._partition = partition
        self._report = report
        self._tiered = tiered

    def verify(self) -> None:
        report, names = self._report, self._disk.list(self._path)
        report.partitions += 1
        report.cut_files += sum(name.endswith(CUT) for name in names)
        parsed = [file for file in map(parse_offset_file, names) if file is not None]
        bases = [offset for offset, suffix in parsed if suffix == LOG]
        for base_offset, following in zip(bases, [*bases[1:], None], strict=True):
            try:
                self._verify_segment(base_offset, following)
            except StorageError as error:
                if self._disk.exists(self._path / offset_file(base_offset, LOG)):
                    self._add(offset_file(base_offset, LOG), None, base_offset, str(error))
        for base_offset in sorted({offset for offset, suffix in parsed if suffix == REMOTE} - set(bases)):
            report.remote_segments += 1
            path = self._path / offset_file(base_offset, REMOTE)
            try:
                RemoteSegment.decode(read_file(self._disk, path) or b"", path)
            except StorageError as error:
                self._add(path.name, None, base_offset, str(error), loses_records=False)
        if self._tiered is not None:
            self._report_lost(lost_bases(parsed, self._tiered.log_start_offset, self._tiered.recovery_point))
        self._verify_small_files([offset for offset, suffix in parsed if suffix == SNAPSHOT])

    def _report_lost(self, bases: list[int]) -> None:
        """Report segments of which only index files are left, unless retention has removed them meanwhile."""
        for base_offset in bases:
            if any(self._disk.exists(self._path / offset_file(base_offset, suffix)) for suffix in SIDECAR_SUFFIXES):
                text = "it is lost, and the .log is in the store alone: a backup of this log writes it again"
                self._add(offset_file(base_offset, REMOTE), None, base_offset, text)

    def _add(
        self, name: str, file_position: int | None, offset: int | None, text: str, *, loses_records: bool = True
    ) -> None:
        self._report.damages.append(Damage(f"{self._path.name}/{name}", file_position, offset, text, loses_records))

    def _verify_segment(self, base_offset: int, following: int | None) -> None:
        name = offset_file(base_offset, LOG)
        file = self._disk.open(self._path / name)
        try:
            batches, last_offsets = self._walk(file, name, base_offset, following)
            self._verify_indexes(file, base_offset, batches, last_offsets)
        finally:
            file.close()

    def _walk(
        self, file: DiskFile, name: str, base_offset: int, following: int | None
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Prove all batches: file position → last offset, and last offset → greatest timestamp."""
        report, size = self._report, file.size_bytes()
        report.segments += 1
        report.size_bytes += size
        batches: dict[int, int] = {}
        timestamps: dict[int, int] = {}
        end, next_offset = 0, base_offset
        for at, header in walk_past_damage(file, Start(0, base_offset), size, prove=True):
            if at != end:
                self._add(name, end, next_offset, f"{at - end} bytes that are not a whole record batch")
            batches[at] = header.last_offset
            timestamps[header.last_offset] = header.max_timestamp
            end, next_offset = at + header.size_bytes, header.next_offset
            report.batches += 1
            report.records += header.record_count
        if end != size and (following is not None or self._is_still_there(file, name, Start(end, next_offset), size)):
            self._add(name, end, next_offset, f"{size - end} bytes after the last whole record batch")
        if following is not None and following < next_offset:
            self._add(name, None, following, f"it reaches to offset {next_offset}, past the next segment's beginning")
        return batches, timestamps

    def _is_still_there(self, file: DiskFile, name: str, end: Start, size: int) -> bool:
        """Whether the bytes after the last whole batch are still incomplete, so not a write that was in progress."""
        found = next(walk_past_damage(file, end, file.size_bytes(), prove=True), None)
        is_whole_now = found is not None and found[0] == end.file_position
        return not is_whole_now and file.size_bytes() == size and self._disk.exists(self._path / name)

    def _verify_indexes(
        self, file: DiskFile, base_offset: int, batches: dict[int, int], timestamps: dict[int, int]
    ) -> None:
        for last_offset, at in self._entries(base_offset, OFFSET_INDEX, _OFFSET_ENTRY):
            if batches.get(at) != base_offset + last_offset:
                text = f"an entry says that a batch at file position {at} ends with offset {base_offset + last_offset}"
                self._add(
                    offset_file(base_offset, OFFSET_INDEX), at, base_offset + last_offset, text, loses_records=False
                )
        for timestamp_ms, relative in self._entries(base_offset, TIME_INDEX, _TIME_ENTRY):
            if timestamps.get(base_offset + relative) != timestamp_ms:
                text = f"an entry says that the batch that ends with it has the timestamp {timestamp_ms}"
                self._add(offset_file(base_offset, TIME_INDEX), None, base_offset + relative, text, loses_records=False)
        self._verify_seal(file, base_offset)

    def _entries(self, base_offset: int, suffix: str, entry: struct.Struct) -> Iterator[tuple[int, int]]:
        data = read_file(self._disk, self._path / offset_file(base_offset, suffix)) or b""
        if len(data) % entry.size:
            text = f"{len(data)} bytes are not a whole number of entries"
            self._add(offset_file(base_offset, suffix), None, None, text, loses_records=False)
        whole = data[: len(data) - len(data) % entry.size]
        return (pair for pair in entry.iter_unpack(whole) if pair != (0, 0))

    def _verify_seal(self, file: DiskFile, base_offset: int) -> None:
        name = offset_file(base_offset, SEAL)
        data = read_file(self._disk, self._path / name)
        if data is None:
            return
        seal = decode_seal(data)
        if seal is None or seal.base_offset != base_offset:
            self._add(name, None, None, "it does not match its checksum, or is another segment's", loses_records=False)
        elif seal.log_bytes > file.size_bytes():
            text = f"the segment once had {seal.log_bytes} bytes, up to offset {seal.end_offset}: its end is gone"
            self._add(offset_file(base_offset, LOG), file.size_bytes(), seal.end_offset, text)
        elif SegmentIndexes.read(self._disk, self._path, seal, 0, file) is None:
            self._add(name, None, None, "the index files are not those that it was written for", loses_records=False)

    def _verify_small_files(self, snapshots: list[int]) -> None:
        metadata = read_file(self._disk, self._path / PARTITION_METADATA)
        topic_id = decode_partition_metadata(metadata)
        if topic_id is None:
            self._add(PARTITION_METADATA, None, None, "it is missing or not whole", loses_records=False)
        else:
            try:
                TreeFiles(self._disk, self._path, topic_id, self._partition).verify()
            except StorageError as error:
                self._add(STATE_FILE, None, None, str(error), loses_records=True)
        epochs = read_file(self._disk, self._path / LEADER_EPOCH_CHECKPOINT)
        if epochs is not None and decode_leader_epochs(epochs) is None:
            self._add(LEADER_EPOCH_CHECKPOINT, None, None, "it is not whole", loses_records=False)
        for offset in snapshots:
            name = offset_file(offset, SNAPSHOT)
            data = read_file(self._disk, self._path / name)
            try:
                if data is not None and topic_id is not None:
                    decode_snapshot(data, offset, topic_id, self._partition)
            except SnapshotError as error:
                self._add(name, None, offset, str(error), loses_records=False)
