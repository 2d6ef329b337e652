"""Proves a backup: every piece by its checksum, and every record batch of every segment by its own.

What is proven: the manifest can be read; the first point of each chapter and the newest one find all bytes that they
name; no piece differs from its checksum; in each segment the batches follow on one another, each has its CRC32C, and
the last ends where the manifest says. If the log's own file was damaged when it was stored, that is found, too, and
named. Nothing is changed.

A backup that runs meanwhile may merge objects: then verification begins again with the newer manifest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mainstem.backup.catalog import TREE, BackupState, PartitionKey, StoredFile, key_of
from mainstem.backup.manifest import ManifestReader
from mainstem.backup.moments import points
from mainstem.backup.stored_files import DamagedObjectError, StoredReader, stretches
from mainstem.errors import CorruptBatchError, ProofError
from mainstem.log.files.names import LOG, offset_file, partition_directory
from mainstem.log.partition.producer_snapshot import SnapshotError, decode_snapshot, owner_of
from mainstem.log.segments.batch_scan import Start, walk_past_damage
from mainstem.model import TopicPartition
from mainstem.object_stores.store import ObjectMissingError, ObjectStore
from mainstem.tlog.leaf import LEAF_BYTES, decode_leaf

_TRIES: Final = 3


@dataclass(slots=True)
class BackupReport:
    """The counts of what was read, and the damages."""

    points: int = 0
    first_ms: int = 0
    last_ms: int = 0
    files: int = 0
    pieces: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    damages: list[str] = field(default_factory=list)


def verify_backup(store: ObjectStore, tell: Callable[[str], None]) -> BackupReport:
    """Read all of a backup. Raises InputError where there is none, StoreError."""
    for last in (*[False] * (_TRIES - 1), True):
        reader = ManifestReader(store)
        try:
            return _Verification(store, reader, reader.newest()).run(stop_at_missing=not last)
        except ObjectMissingError as error:
            if ManifestReader(store).root.newest == reader.root.newest:
                return _Verification(store, reader, reader.newest()).run(stop_at_missing=False)
            tell(f"the backup went on meanwhile ({error}): it is read again")
    raise AssertionError


class _Verification:
    """One try."""

    def __init__(self, store: ObjectStore, reader: ManifestReader, newest: BackupState) -> None:
        self._store = store
        self._reader = reader
        self._newest = newest
        self._report = BackupReport()
        self._names: dict[PartitionKey, TopicPartition] = {}

    def run(self, *, stop_at_missing: bool) -> BackupReport:
        self._walk_points()
        for key, file in self._newest.all_files():
            try:
                self._verify_file(key, file)
            except ObjectMissingError as error:
                if stop_at_missing:
                    raise
                self._damage(key, file, str(error))
            except DamagedObjectError as error:
                self._damage(key, file, str(error))
        return self._report

    def _walk_points(self) -> None:
        """The first point of each chapter, and the newest, have all the bytes that they name."""
        report, starts = self._report, {number for number, _ in self._reader.root.chapters}
        for chapter in range(len(self._reader.root.chapters)):
            for state in points(self._reader, chapter):
                report.points += 1
                report.first_ms = report.first_ms or state.time_ms
                report.last_ms = state.time_ms
                self._names |= {key_of(end.topic_id, name.partition): name for name, end in state.ends.items()}
                if state.number in starts or state.number == self._newest.number:
                    self._require_files(state)

    def _require_files(self, state: BackupState) -> None:
        for name, end in state.ends.items():
            segments, _ = self._newest.at(key_of(end.topic_id, name.partition), state.number, end)
            if not segments or segments[-1].offset != end.last_base or segments[-1].size_bytes < end.end_position:
                self._report.damages.append(f"point {state.number} lacks bytes of {name}")

    def _verify_file(self, key: PartitionKey, file: StoredFile) -> None:
        self._report.files += 1
        self._report.pieces += len(file.pieces)
        self._report.size_bytes += file.size_bytes
        if file.suffix == LOG:
            self._verify_segment(key, file)
            return
        data = b"".join(stretch for _, stretch in stretches(self._store, file, file.size_bytes))
        if file.suffix == TREE:
            self._verify_leaves(key, file, data)
            return
        try:
            decode_snapshot(data, file.offset, *owner_of(data))
        except SnapshotError as error:
            self._damage(key, file, str(error))

    def _verify_leaves(self, key: PartitionKey, file: StoredFile, data: bytes) -> None:
        next_offset = 0
        try:
            for at in range(0, len(data), LEAF_BYTES):
                leaf = decode_leaf(data[at : at + LEAF_BYTES])
                if leaf.base_offset < next_offset:
                    raise ProofError(f"the leaf of offset {leaf.base_offset} comes after that of {next_offset - 1}")
                next_offset = leaf.last_offset + 1
        except ProofError as error:
            self._damage(key, file, str(error))

    def _verify_segment(self, key: PartitionKey, file: StoredFile) -> None:
        at = file.pieces[0].start if file.pieces else 0
        if at or any(before.end != after.start for before, after in zip(file.pieces, file.pieces[1:], strict=False)):
            self._damage(key, file, "its pieces do not follow on one another")
        end, next_offset = 0, file.offset
        try:
            reader = StoredReader(self._store, file)
            for position, header in walk_past_damage(reader, Start(0, file.offset), file.size_bytes, prove=True):
                if position != end:
                    self._damage(key, file, f"{position - end} bytes from {end} on are not a whole record batch")
                end, next_offset = position + header.size_bytes, header.next_offset
                self._report.batches += 1
                self._report.records += header.record_count
        except CorruptBatchError as error:
            self._damage(key, file, str(error))
        if end != file.size_bytes or next_offset > file.end_offset:
            self._damage(key, file, f"its batches end at {end}, offset {next_offset}, of {file.size_bytes} bytes")

    def _damage(self, key: PartitionKey, file: StoredFile, text: str) -> None:
        name = self._names.get(key)
        directory = partition_directory(name) if name is not None else key
        self._report.damages.append(f"{directory}/{offset_file(file.offset, file.suffix)}: {text}")
