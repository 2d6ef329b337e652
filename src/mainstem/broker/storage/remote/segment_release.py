"""Checks a segment, and syncs its small files, before its ``.log`` leaves the disk for the backup's store.

Nothing of it relies on what was true once: the store is asked now. Its root has to name this log, and a writer that
this directory has claimed it with. Every piece has to be there with its full length, and all bytes of the file have to
match the checksums. In doubt the file stays.

A start without the file needs its indexes, the leader epochs, and a snapshot of the producers of exactly the offset
where the first local segment begins then. They are synced. Such a snapshot is written when a segment begins, and kept.
Where it is missing, because the topic was not tiered then, it is made from the one before and from this file.

Concurrency: ``run`` is for a thread; it reads files that do not change any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from mainstem.durable_files import replace_file
from mainstem.errors import CorruptBatchError, StorageError
from mainstem.log.files.disk import Disk, DiskFile
from mainstem.log.files.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    META_PROPERTIES,
    REMOTE,
    SIDECAR_SUFFIXES,
    SNAPSHOT,
    offset_file,
)
from mainstem.log.files.small_files import read_file, sync_file
from mainstem.log.partition.checkpoints import decode_properties, encode_uuid
from mainstem.log.partition.producer_snapshot import encode_snapshot, find_snapshot
from mainstem.log.partition.producer_state import ProducerState
from mainstem.log.segments.batch_scan import Start, walk_verified
from mainstem.log.segments.remote_segment import BACKUP_ROOT, BACKUP_WRITERS, RemoteSegment, read_remote
from mainstem.log.segments.segment import read_marker
from mainstem.log.segments.segment_indexes import SegmentIndexes, read_seal

if TYPE_CHECKING:
    from mainstem.object_stores.store import ObjectStore


class IndexFilesError(StorageError):
    """The index files of the segment do not vouch for all of it: they have to be written again."""


class ProducersUnknownError(StorageError):
    """The producers of where the local segments would begin are not known: a later segment has to leave first."""


class SegmentRelease(NamedTuple):
    """A segment from ``base_offset`` to ``end_offset``, whose file may go if the store has it.

    ``local_start`` is where the local segments begin after that: at its end, unless later ones have left already.
    ``durable_offset``: up to here the log was synced, and a durable checkpoint says so. ``is_first``: the log has
    nothing before this segment.
    """

    disk: Disk
    data: PurePath
    directory: PurePath
    base_offset: int
    end_offset: int
    topic_id: UUID
    partition: int
    local_start: int
    durable_offset: int
    interval_bytes: int
    is_first: bool

    def run(self, store: ObjectStore, step: Callable[[], None] = lambda: None) -> None:
        """Check and sync. What is cheap comes first.

        Raises StorageError and what the store raises when the file has to stay for now.
        """
        stored = read_remote(self.disk, self._path(REMOTE))
        if stored is None:
            raise StorageError(f"{self._path(REMOTE)} is gone")
        if self.end_offset > self.durable_offset:
            raise StorageError(f"the checkpoint has not reached the end of {self._path(LOG)} yet")
        before = self._producers_before()
        self._require_own(store, stored)
        file = self.disk.open(self._path(LOG))
        try:
            size_bytes = file.size_bytes()
            self._require_stored(store, stored, file, step)
            if not stored.is_copy_of(file, size_bytes, step):
                raise StorageError(f"{self._path(LOG)} has other bytes than {stored.url} holds of it")
            self._require_whole(file, size_bytes, step)
            if before is not None:
                self._write_snapshot(before, file, size_bytes, step)
            self._sync()
            step()
            self._require_own(store, stored)  # reading the file took some time
        finally:
            file.close()

    def _path(self, suffix: str) -> PurePath:
        return self.directory / offset_file(self.base_offset, suffix)

    def _require_own(self, store: ObjectStore, stored: RemoteSegment) -> None:
        """The store is this log's backup, which this directory has written last."""
        if stored.url != store.url or stored.topic_id != encode_uuid(self.topic_id):
            raise StorageError(
                f"{self._path(REMOTE)} is of topic {stored.topic_id} in {stored.url}: this is topic "
                f"{encode_uuid(self.topic_id)}, and the backup of this log is {store.url}"
            )
        own = decode_properties(read_file(self.disk, self.data / META_PROPERTIES) or b"")
        writers = (read_file(self.disk, self.data / BACKUP_WRITERS) or b"").decode().split()
        try:
            root = json.loads(store.get(BACKUP_ROOT).data)
            source = (root["source"]["cluster_id"], root["source"]["directory_id"])
            writer = root["writer"]
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{store.url}/{BACKUP_ROOT} is not the root of a backup") from error
        if source != (own.get("cluster.id"), own.get("directory.id", "")) or writer not in writers:
            raise StorageError(f"{store.url} holds the backup of another log, or another copy of this one has taken it")

    def _require_whole(self, file: DiskFile, size_bytes: int, step: Callable[[], None]) -> None:
        """The file has no damage, and its index files on the disk are of all of it."""
        try:
            for _ in walk_verified(file, Start(0, self.base_offset), size_bytes):
                step()
        except CorruptBatchError as error:
            raise StorageError(f"{self._path(LOG)} is damaged: {error}") from error
        seal = read_seal(self.disk, self.directory, self.base_offset)
        is_of_all = seal is not None and seal.log_bytes == size_bytes
        if seal is None or not is_of_all:
            raise IndexFilesError(f"the index files of {self._path(LOG)} are not of all of it")
        if SegmentIndexes.read(self.disk, self.directory, seal, self.interval_bytes, file) is None:
            raise IndexFilesError(f"the index files of {self._path(LOG)} do not match their seal")

    def _producers_before(self) -> ProducerState | None:
        """The producers in this segment or before it; None where there is a snapshot of where the local ones begin."""
        if self._find_snapshot(self.local_start, self.local_start) is not None:
            return None
        found = self._find_snapshot(self.base_offset, self.end_offset) if self.local_start == self.end_offset else None
        if found is None and self.is_first and self.local_start == self.end_offset:
            return ProducerState((), self.base_offset)
        if found is None:
            raise ProducersUnknownError(
                f"{self._path(LOG)} stays until a later segment has left: there is no snapshot of the producers at "
                f"offset {self.local_start}, nor one in the segment"
            )
        return found

    def _find_snapshot(self, first: int, last: int) -> ProducerState | None:
        return find_snapshot(self.disk, self.directory, (first, last), self.topic_id, self.partition)

    def _write_snapshot(self, state: ProducerState, file: DiskFile, size_bytes: int, step: Callable[[], None]) -> None:
        """Go on with the producers to the end of the file, which is whole, and write their snapshot."""
        start = state.end_offset
        for file_position, header in walk_verified(file, Start(0, self.base_offset), size_bytes):
            if header.last_offset >= start:
                marker = read_marker(file, file_position, header) if header.is_control else None
                state.replay(header, marker)
            step()
        state.end_offset = self.end_offset
        data = encode_snapshot(state, self.topic_id, self.partition)
        replace_file(self.disk, self.directory / offset_file(self.end_offset, SNAPSHOT), data)

    def _sync(self) -> None:
        names = [self.directory / LEADER_EPOCH_CHECKPOINT, self.directory / offset_file(self.local_start, SNAPSHOT)]
        for path in filter(self.disk.exists, [*names, self._path(REMOTE), *map(self._path, SIDECAR_SUFFIXES)]):
            sync_file(self.disk, path)
        self.disk.sync_directory(self.directory)

    def _require_stored(
        self, store: ObjectStore, stored: RemoteSegment, file: DiskFile, step: Callable[[], None]
    ) -> None:
        """Each piece is in the store to its last byte."""
        for piece in stored.pieces:
            step()
            found = store.get_range(piece.object_name, piece.object_offset + piece.size_bytes - 1, 1)
            if found != bytes(file.read(piece.end - 1, 1)):
                raise StorageError(f"{store.url}/{piece.object_name} does not hold all of its bytes")
