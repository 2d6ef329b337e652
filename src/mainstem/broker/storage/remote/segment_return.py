"""Brings a segment back to the disk as a whole, with its index files: one of them was lost.

The file is written beside its place; the partition's owner then renames it. Its index files are built here, so that the
owner, who is on the event loop, does not walk the whole segment. The transactions that are open at its beginning come
from the seal of the segment before. Without that, the owner builds the indexes, once that segment is back, too.

Concurrency: ``run`` is for a thread. The owner writes no index files of a segment that is not on the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from mainstem.durable_files import TEMPORARY
from mainstem.errors import StorageError
from mainstem.log.files.disk import Disk, DiskFile
from mainstem.log.files.names import PARTITION_METADATA, REMOTE, offset_file
from mainstem.log.files.small_files import read_file
from mainstem.log.partition.checkpoints import decode_partition_metadata, encode_uuid
from mainstem.log.segments.batch_scan import Start, walk_verified
from mainstem.log.segments.index_checksums import NOT_KNOWN_DURABLE
from mainstem.log.segments.remote_segment import RemoteSegment
from mainstem.log.segments.segment import read_marker
from mainstem.log.segments.segment_indexes import SegmentIndexes, read_seal
from mainstem.log.segments.transactions import OpenTransactions

if TYPE_CHECKING:
    from mainstem.broker.storage.remote.remote_pieces import RemotePieces


class SegmentReturn(NamedTuple):
    """A segment that is ``stored``, whose ``.log`` goes beside ``path``.

    ``previous`` is the base offset of the segment before; None when there is none.
    """

    disk: Disk
    path: PurePath
    stored: RemoteSegment
    base_offset: int
    previous: int | None
    interval_bytes: int

    def run(self, pieces: RemotePieces, step: Callable[[], None] = lambda: None) -> PurePath:
        """Write all its bytes and its index files, durably; the name of the file.

        Raises StorageError, also when the segment is gone meanwhile, CorruptBatchError, and what the store raises.
        """
        self._require_there()
        target = self.path.with_name(self.path.name + TEMPORARY)
        self.disk.remove(target)
        file = self.disk.create(target)
        try:
            for piece in self.stored.pieces:
                file.write(piece.start, [pieces.fetch(self.stored.url, piece, step)])
            file.sync()
            self._require_there()  # loading it took some time
            self._build_indexes(file, step)
        except BaseException:
            self.disk.remove(target)
            raise
        finally:
            file.close()
        self.disk.sync_directory(self.path.parent)
        return target

    def _require_there(self) -> None:
        """The segment is not deleted, and the directory is not of a topic that was created again under the name."""
        topic_id = decode_partition_metadata(read_file(self.disk, self.path.parent / PARTITION_METADATA))
        is_same = topic_id is not None and encode_uuid(topic_id) == self.stored.topic_id
        if not is_same or not self.disk.exists(self.path.with_name(offset_file(self.base_offset, REMOTE))):
            raise StorageError(f"{self.path} is not a segment of topic {self.stored.topic_id} any more")

    def _build_indexes(self, file: DiskFile, step: Callable[[], None]) -> None:
        open_transactions = OpenTransactions()
        if self.previous is not None:
            before = read_seal(self.disk, self.path.parent, self.previous)
            if before is None:
                return
            open_transactions = OpenTransactions(before.open_transactions)
        indexes = SegmentIndexes(self.base_offset, self.interval_bytes, open_transactions)
        for file_position, header in walk_verified(file, Start(0, self.base_offset), self.stored.size_bytes):
            marker = read_marker(file, file_position, header) if header.is_control else None
            indexes.add(header, file_position, marker)
            step()
        seal = read_seal(self.disk, self.path.parent, self.base_offset)
        indexes.close()
        durable_offset = NOT_KNOWN_DURABLE if seal is None else seal.durable_offset
        indexes.write(self.disk, self.path.parent, durable_offset, sync=True)
