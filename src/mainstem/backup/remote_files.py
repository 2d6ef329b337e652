"""Segments that are in the store alone: which stored file holds their bytes, and what their ``.remote`` files say.

A round cannot read such a segment on the disk. Its ``.remote`` names the pieces that the log reads, so it decides:

* A stored file with the same pieces, or with pieces of proven equal bytes, is the segment. If it had been marked as
  removed (another copy of the directory wrote into the backup meanwhile), it becomes a new generation.
* The manifest may have lost it (its root is an older one). If the store has all pieces, they are
  a stored file again.
* Else the partition is left out of the round: ``LeftOutError``. The manifest keeps what it has of it.
* A ``.remote`` that is damaged or lost is written again from the stored file that matches the segment's seal.

A ``.remote`` without a ``.log`` is all that the log knows of the bytes. It is replaced only by one of the same bytes.

Concurrency: one thread.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from mainstem.backup.catalog import BackupState, PartitionKey, StoredFile, key_of
from mainstem.backup.source import ChangedError, DataDirectory, Listing
from mainstem.backup.stored_files import DamagedObjectError, StoredReader
from mainstem.errors import CorruptBatchError, StorageError
from mainstem.log.files.disk import OsDisk
from mainstem.log.files.names import LOG, REMOTE, SEAL, offset_file
from mainstem.log.files.small_files import list_offsets
from mainstem.log.segments.remote_segment import RemoteSegment, StoredPiece, read_remote
from mainstem.log.segments.segment_indexes import read_seal
from mainstem.model import TopicPartition
from mainstem.object_stores.store import ObjectMissingError
from mainstem.record.constants import HEADER_BYTES
from mainstem.record.header import read_header

if TYPE_CHECKING:
    from mainstem.backup.manifest import Manifest
    from mainstem.backup.source import FileIdentity

_FROM_REMOTE: Final = "0:0:0:{size_bytes}"
"""The identity of a stored file that was found by its ``.remote``: closed, and of no local file."""
_TICK_NS: Final = 1_000_000_000
_Place: TypeAlias = tuple[PartitionKey, int]


class LeftOutError(StorageError):
    """A partition cannot be backed up now. All others can."""


class RemoteFiles:
    """Of one writer."""

    def __init__(self, directory: DataDirectory, manifest: Manifest) -> None:
        self._directory = directory
        self._store = manifest.store
        self._manifest = manifest
        self._matched: dict[_Place, tuple[FileIdentity, StoredFile]] = {}
        self._differ: set[tuple[FileIdentity, PartitionKey, tuple[int, str, int]]] = set()
        self._lost: set[_Place] = set()
        self._written: dict[_Place, tuple[StoredPiece, ...]] = {}
        self._named: dict[Path, tuple[int, frozenset[str]]] = {}
        self._disk = OsDisk()

    @property
    def _state(self) -> BackupState:
        return self._manifest.state

    # What the log has

    def examined(self, topic_partition: TopicPartition, topic_id: str, listing: Listing) -> Listing:
        """The listing without the ``.remote`` files of other topics, and with segments whose ``.remote`` is lost.

        Raises ChangedError.
        """
        key = key_of(topic_id, topic_partition.partition)
        known = self._state.current(key, LOG)
        foreign = {base for base in listing.remote if self._is_foreign(key, topic_id, listing, base)}
        listing = replace(listing, remote={base: each for base, each in listing.remote.items() if base not in foreign})
        if not known.keys() - set(listing.bases):
            return listing
        if not listing.remote and topic_partition not in self._directory.remote_partitions():
            return listing
        lost = self._find_lost(key, topic_id, listing, known, self._directory.log_start(topic_partition))
        for base in lost:
            self._lost.add((key, base))
            self._written.pop((key, base), None)
        return replace(listing, lost=lost)

    def _find_lost(
        self, key: PartitionKey, topic_id: str, listing: Listing, known: dict[int, StoredFile], log_start_offset: int
    ) -> frozenset[int]:
        """The stored segments that the log must have in the store alone, and that it has no ``.remote`` of.

        Retention takes what ends at or before the log's start. What is left fills a gap exactly: it begins where the
        segment before ends, and ends where the next one begins. Other stored files are of another history.
        """
        found: set[int] = set()
        for first, following in pairwise([-1, *listing.bases]):
            run: list[StoredFile] = []
            for base in sorted(base for base in known if first < base < following):
                if known[base].end_offset > log_start_offset:
                    run.append(known[base])
            if not run or any(not file.is_closed or not file.pieces for file in run):
                continue
            ends = [file.end_offset for file in run]
            begin = run[0].offset if first < 0 else self._end_of(key, topic_id, listing, known, first)
            if [begin, *ends] == [*(file.offset for file in run), following]:
                found.update(file.offset for file in run)
        return frozenset(found)

    def _end_of(
        self, key: PartitionKey, topic_id: str, listing: Listing, known: dict[int, StoredFile], base: int
    ) -> int | None:
        """Where a segment that the log has ends, by the stored file of the same bytes; None when there is none."""
        file = known.get(base)
        if base in listing.remote:
            file = self._match(key, listing, base) or self._found(key, topic_id, listing, base)
        elif file is not None and not listing.segments[base].is_in(file.identity):
            file = None
        return None if file is None else file.end_offset

    def _is_foreign(self, key: PartitionKey, topic_id: str, listing: Listing, base: int) -> bool:
        """As the log sees it: a seal is of this topic, a ``.remote`` may be of an earlier one of that name."""
        if self._match(key, listing, base) is not None or listing.path(base, SEAL).exists():
            return False
        try:
            remote = read_remote(self._disk, listing.path(base, REMOTE))
        except StorageError:
            return False
        return remote is not None and remote.topic_id != topic_id

    def _match(self, key: PartitionKey, listing: Listing, base: int) -> StoredFile | None:
        """The stored file that was found for this very ``.remote``."""
        identity, file = self._matched.get((key, base), (None, None))
        return file if identity is not None and identity == listing.remote.get(base) else None

    # Which stored file it is

    def stored_file(
        self, key: PartitionKey, topic_id: str, listing: Listing, bases: tuple[int, int], number: int
    ) -> StoredFile:
        """The stored file of a segment from ``bases[0]`` to ``bases[1]``, new in the entry ``number`` or known.

        Raises LeftOutError, ChangedError, StoreError.
        """
        base, following = bases
        file = self._match(key, listing, base)
        if file is None:
            file = self._found(key, topic_id, listing, base)
        if file is None:
            file = self._adopted(topic_id, listing, base, following)
        if file.removed is not None or file != self._state.files.get(key, {}).get(file.name):
            file = replace(file, added=number, removed=None)
        if base in listing.remote:
            self._matched[key, base] = (listing.remote[base], file)
        return file

    def forget(self, key: PartitionKey, base: int) -> None:
        """The log does not have a segment any more."""
        self._matched.pop((key, base), None)
        self._lost.discard((key, base))

    def _found(self, key: PartitionKey, topic_id: str, listing: Listing, base: int) -> StoredFile | None:
        """The generation that has the bytes of the segment; the newest one first."""
        files = [file for file in self._state.files.get(key, {}).values() if (file.offset, file.suffix) == (base, LOG)]
        closed = [file for file in files if file.is_closed and file.pieces]
        closed.sort(key=lambda file: (file.removed is not None, -file.added))
        remote = self._read(listing, base)
        if remote is None:
            self._written.pop((key, base), None)  # it is damaged or lost: it is written again
            return next((file for file in closed if self._matches_seal(listing, file)), None)
        if remote.topic_id != topic_id:
            return None
        same = [file for file in closed if self._is_same(remote, file)]
        if not same:
            same = [file for file in closed if self._is_equal(listing.remote[base], key, remote, file)]
        return same[0] if same else None

    def _read(self, listing: Listing, base: int) -> RemoteSegment | None:
        """The content of a ``.remote``; None when it is damaged or lost. Raises ChangedError."""
        try:
            found = read_remote(self._disk, listing.path(base, REMOTE))
        except StorageError:
            return None
        if found is None and base not in listing.lost:
            raise ChangedError(f"{listing.path(base, REMOTE)} is gone")
        return found

    def _is_same(self, remote: RemoteSegment, file: StoredFile) -> bool:
        """Whether the stored file has these very pieces; no two objects ever have one name.

        In another store than the ``.remote`` names they have to be there: the objects may have been copied.
        """
        return tuple(file.pieces) == remote.pieces and (remote.url == self._store.url or self._has(remote.pieces))

    def _is_equal(self, identity: FileIdentity, key: PartitionKey, remote: RemoteSegment, file: StoredFile) -> bool:
        """Whether the stored file has the same bytes, in other pieces: they were merged. Reads all of them."""
        looked = (identity, key, file.name)
        if file.size_bytes != remote.size_bytes or looked in self._differ:
            return False
        try:
            if remote.is_copy_of(StoredReader(self._store, file), file.size_bytes):
                return True
        except (ObjectMissingError, DamagedObjectError):
            return False
        self._differ.add(looked)
        return False

    def _matches_seal(self, listing: Listing, file: StoredFile) -> bool:
        """Whether the seal is of these bytes. Without a seal the newest point decides."""
        seal = read_seal(self._disk, listing.directory, file.offset)
        if seal is None:
            return file.removed is None
        if seal.log_bytes != file.size_bytes:
            return False
        try:
            header = read_header(StoredReader(self._store, file).read(seal.last_batch_position, HEADER_BYTES))
        except (CorruptBatchError, ObjectMissingError, DamagedObjectError):
            return False
        return header.crc == seal.last_batch_crc

    def _adopted(self, topic_id: str, listing: Listing, base: int, following: int) -> StoredFile:
        """A stored file of the pieces that the ``.remote`` names. Raises LeftOutError when the store lacks one."""
        remote = self._read(listing, base)
        name = offset_file(base, REMOTE)
        if remote is None or remote.topic_id != topic_id:
            what = "is damaged, or of another topic" if base in listing.remote else "is lost"
            raise LeftOutError(
                f"{listing.path(base)} is not on the disk, {name} beside it {what}, and this backup does not hold the "
                "segment. Put the file back from a copy of the directory"
            )
        if remote.url != self._store.url:
            raise LeftOutError(
                f"{listing.path(base)} is not on the disk, and not in this backup: back up into the URL that "
                f"{name} beside it names, {remote.url}"
            )
        if not self._has(remote.pieces):
            raise LeftOutError(
                f"{listing.path(base)} is not on the disk, and {self._store.url} lacks objects that {name} beside it "
                "names: bring them back from a copy of the store, or delete the records before offset "
                f"{following}"
            )
        identity = _FROM_REMOTE.format(size_bytes=remote.size_bytes)
        return StoredFile(base, LOG, 0, identity, following, None, list(remote.pieces))

    def _has(self, pieces: Iterable[StoredPiece]) -> bool:
        """Whether each piece is in the store to its last byte. All were proven when they were written."""
        try:
            return all(
                self._store.get_range(piece.object_name, piece.object_offset + piece.size_bytes - 1, 1)
                for piece in pieces
            )
        except ObjectMissingError:
            return False

    def named_objects(self) -> set[str] | None:
        """The objects of this store that a ``.remote`` of the log names; None when one without a ``.log`` is damaged.

        Raises StorageError.
        """
        found: set[str] = set()
        self._named, before = {}, self._named
        for directory, changed_ns in self._directory.partition_directories():
            known = before.get(directory)
            if known is None or known[0] != changed_ns:
                looked_ns = time.time_ns()
                names = self._names_in(directory)
                if names is None:
                    return None
                # Names may still change within the tick of the clock in which they have changed.
                known = (changed_ns if looked_ns - changed_ns > _TICK_NS else -1, names)
            self._named[directory] = known
            found |= known[1]
        return found

    def _names_in(self, directory: Path) -> frozenset[str] | None:
        found: set[str] = set()
        for base in list_offsets(self._disk, directory, REMOTE):
            try:
                remote = read_remote(self._disk, directory / offset_file(base, REMOTE))
            except StorageError:
                if (directory / offset_file(base, LOG)).exists():
                    continue  # the log does not use it, and it is written again
                return None
            if remote is not None and remote.url == self._store.url:
                found.update(piece.object_name for piece in remote.pieces)
        return frozenset(found)

    # What is written beside the segments

    def write(self, taken: Container[TopicPartition]) -> None:
        """Write where closed segments are in the store, for the partitions of which the log may then remove them.

        ``taken`` are those that the manifest has as they are on the disk.
        """
        state = self._state
        written: dict[_Place, tuple[StoredPiece, ...]] = {}
        for topic_partition in self._directory.remote_partitions():
            end = state.ends.get(topic_partition)
            if end is None or topic_partition not in taken:
                continue
            key = key_of(end.topic_id, topic_partition.partition)
            for base, file in state.current(key, LOG).items():
                if base >= end.last_base or not file.is_closed or not file.pieces:
                    continue
                pieces = tuple(file.pieces)
                if self._written.get((key, base)) == pieces or self._write(topic_partition, end.topic_id, file):
                    written[key, base] = pieces
        self._written = written

    def _write(self, topic_partition: TopicPartition, topic_id: str, file: StoredFile) -> bool:
        """Whether the ``.remote`` says by now what the manifest does."""
        key = key_of(topic_id, topic_partition.partition)
        data = RemoteSegment(self._store.url, topic_id, tuple(file.pieces)).encode()
        is_lost = (key, file.offset) in self._lost

        def may_replace(path: Path, identity: FileIdentity) -> bool:
            try:
                remote = read_remote(self._disk, path)
            except StorageError:
                return True  # it is damaged, and the round has compared the seal
            if remote is None or remote.topic_id != topic_id:
                return False
            return self._is_same(remote, file) or self._is_equal(identity, key, remote, file)

        is_done = self._directory.write_remote(
            topic_partition, topic_id, file.offset, data, may_replace, is_lost=is_lost
        )
        if is_done:
            self._lost.discard((key, file.offset))
        return is_done
