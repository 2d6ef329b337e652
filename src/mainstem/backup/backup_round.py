"""One round of a backup: from the log's newest checkpoint to one new point in the store.

The checkpoint is read first, then the files. A partition is looked at when its line in the checkpoint or the names in
its directory have changed. Of each segment the stretch that is new goes into pieces. Where a segment is another file
than before (compaction, or a copied directory), the bytes are compared, and stored as a new generation if they differ.

A compaction may have used records that came after the checkpoint. So a segment that is new to the backup is taken only
when the partition's recovery point has reached the active segment, behind all that was compacted.

A round that takes long, or meets files that change, commits what it has stored as an entry without a point, and the
next round goes on with a newer checkpoint. So nothing is stored twice, also after a kill.

Concurrency: one thread; uploads run in threads of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Final
from uuid import UUID

from mainstem.backup.catalog import TREE, ManifestEntry, PartitionEnd, PartitionKey, StoredFile, key_of
from mainstem.backup.manifest import Manifest
from mainstem.backup.pieces import PieceWriter
from mainstem.backup.remote_files import LeftOutError, RemoteFiles
from mainstem.backup.retention import Keeper
from mainstem.backup.source import (
    ChangedError,
    DataDirectory,
    Listing,
    Moment,
    OpenFile,
    Proven,
    kept_leaves,
    opened,
    prove,
)
from mainstem.errors import DamagedTreeError
from mainstem.log.files.names import LOG, SNAPSHOT, offset_file
from mainstem.log.partition.checkpoints import encode_uuid
from mainstem.log.recovery.node_checkpoint import PartitionOffsets
from mainstem.log.segments.remote_segment import PIECE_BYTES_MAX, StoredPiece
from mainstem.log.verifiable.tree_files import ENTRIES_FILE
from mainstem.model import TopicPartition
from mainstem.tlog.leaf import LEAF_BYTES

_ROUND_BYTES: Final = 256 << 20
_ROUND_S: Final = 10.0
_PIECES_MAX: Final = 16
"""The pieces at a file's end that are smaller than the largest: when there are more, they are merged."""


class MoreToStoreError(ChangedError):
    """The round was long: what it has stored is committed, and the next one goes on."""


class BackupRounds:
    """The rounds of one writer. After a StoreError it is thrown away, and a new one claims the manifest."""

    def __init__(
        self, directory: DataDirectory, manifest: Manifest, keeper: Keeper, on_damage: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._manifest = manifest
        self._keeper = keeper
        self._on_damage = on_damage
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="backup upload")
        self._seen: dict[TopicPartition, tuple[PartitionOffsets, int]] = {}
        self._ends: dict[TopicPartition, PartitionEnd | None] = {}
        self._remote = RemoteFiles(directory, manifest)
        self.left_out: dict[TopicPartition, str] = {}
        self.stored_bytes = 0
        keeper.begin(manifest)

    def close(self) -> None:
        """Let the uploads end."""
        self._threads.shutdown(cancel_futures=True)

    @property
    def number(self) -> int:
        """The number of the newest entry."""
        return self._manifest.root.newest

    @property
    def ends(self) -> Mapping[TopicPartition, PartitionEnd]:
        """Where the partitions end in the newest entry."""
        return self._manifest.state.ends

    def run(self) -> Moment:
        """Bring the backup up to the newest checkpoint; returns that.

        Raises ChangedError: then run it again, at once after MoreToStoreError. Also raises StorageError, StoreError and
        BackupTakenError.
        """
        moment = self._directory.moment()
        round_ = _Round(self._directory, self._manifest, self._remote, self._threads, self._on_damage)
        try:
            self._take_changed(round_, moment)
        except ChangedError:
            if not round_.entry.is_empty:
                self._commit(round_, moment, is_point=False)
            raise
        finally:
            round_.writer.abandon()
        for topic_partition in self._gone(moment):
            round_.drop(topic_partition)
            self._ends[topic_partition] = None
        state = self._manifest.state
        self._ends = {name: end for name, end in self._ends.items() if state.ends.get(name) != end}
        if not round_.entry.is_empty or self._ends or not self._manifest.root.chapters:
            self._commit(round_, moment, is_point=True)
        self._remote.write(self._seen)
        self._keeper.tidy(self._remote.named_objects)
        return moment

    def _gone(self, moment: Moment) -> list[TopicPartition]:
        """The partitions that were deleted: their directories are gone, or another topic's.

        A log that has lost its checkpoint names a partition only when it has opened it; until then it keeps its files,
        of which some may be in this store alone.
        """
        missing = [each for each in self._manifest.state.ends.items() if each[0] not in moment.checkpoint.partitions]
        ids = {name: self._directory.topic_id(name) for name, _ in missing}
        return [name for name, end in missing if ids[name] is None or end.topic_id != _text_of(ids[name])]

    def _take_changed(self, round_: _Round, moment: Moment) -> None:
        for topic_partition, offsets in moment.checkpoint.partitions.items():
            look = (offsets, self._directory.changed_ns(topic_partition))
            if self._seen.get(topic_partition) != look:
                self._seen.pop(topic_partition, None)
                self._take(round_, topic_partition, offsets, look)
                round_.pause_if_long()
        for topic_partition in self._seen.keys() - moment.checkpoint.partitions.keys():
            del self._seen[topic_partition]
        for topic_partition in self.left_out.keys() - moment.checkpoint.partitions.keys():
            del self.left_out[topic_partition]

    def _take(
        self,
        round_: _Round,
        topic_partition: TopicPartition,
        offsets: PartitionOffsets,
        look: tuple[PartitionOffsets, int],
    ) -> None:
        try:
            self._ends[topic_partition] = round_.take(topic_partition, offsets)
        except LeftOutError as error:
            self._ends.pop(topic_partition, None)
            self.left_out[topic_partition] = str(error)
            return
        self._seen[topic_partition] = look
        self.left_out.pop(topic_partition, None)

    def _commit(self, round_: _Round, moment: Moment, *, is_point: bool) -> None:
        round_.writer.finish()
        entry = round_.entry
        entry.time_ms, entry.leader_epoch, entry.is_point = moment.time_ms, moment.checkpoint.leader_epoch, is_point
        if is_point:
            entry.ends = dict(self._ends)
        self._keeper.commit(entry)
        self.stored_bytes += round_.writer.uploaded_bytes


def _text_of(topic_id: UUID | None) -> str:
    return encode_uuid(topic_id) if topic_id is not None else ""


class _Round:
    """The files of one entry, as they become known."""

    def __init__(
        self,
        directory: DataDirectory,
        manifest: Manifest,
        remote: RemoteFiles,
        threads: ThreadPoolExecutor,
        on_damage: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._state = manifest.state
        self._remote = remote
        self._on_damage = on_damage
        self._until_s = time.monotonic() + _ROUND_S
        number = manifest.root.newest + 1
        prefix = f"{number:012d}-{manifest.root.writer}-{time.monotonic_ns():x}"
        self.writer = PieceWriter(manifest.store, prefix, threads)
        self.entry = ManifestEntry(number, 0, 0, False)

    def pause_if_long(self) -> None:
        """Raises MoreToStoreError when there is enough for a commit."""
        if self.writer.uploaded_bytes >= _ROUND_BYTES or (self.writer.uploaded_bytes and self._is_late):
            raise MoreToStoreError("the round is long: what it has stored is committed first")

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._until_s

    def take(self, topic_partition: TopicPartition, offsets: PartitionOffsets) -> PartitionEnd:
        """Store what is new of a partition; where it ends. Raises ChangedError, LeftOutError."""
        listing = self._directory.listing(topic_partition, offsets.topic_id)
        # Kafka's checkpoint files, which are read where the node's own is damaged, name no ids.
        topic_id = _text_of(offsets.topic_id or self._directory.topic_id(topic_partition))
        key = key_of(topic_id, topic_partition.partition)
        listing = self._remote.examined(topic_partition, topic_id, listing)
        if any(base >= offsets.recovery_point for base in listing.in_the_store):
            self._directory.require_newest(topic_partition, offsets)
        bases = [base for base in listing.bases if base <= offsets.recovery_point]
        if not bases:
            raise ChangedError(f"{listing.directory} has no segment up to offset {offsets.recovery_point}")
        known = self._state.current(key, LOG)
        self._require_known(listing, known, bases, offsets.recovery_point)
        in_the_store = self._in_the_store(key, topic_id, listing, bases)  # before anything is stored of the partition
        before = self._state.ends.get(topic_partition)
        if before is not None and before.topic_id != topic_id:
            self._remove_all(key_of(before.topic_id, topic_partition.partition))
        end = 0
        for base, following in zip(bases, [*bases[1:], None], strict=True):
            if base in in_the_store:
                self._replace(key, known.get(base), in_the_store[base])
                continue
            end = self._take_segment(key, listing, known.get(base), (base, following), offsets.recovery_point)
            if following is not None:
                self.pause_if_long()
        for base in known.keys() - set(listing.bases):
            self._put(key, replace(known[base], removed=self.entry.number))
            self._remote.forget(key, base)
        self._take_snapshot(key, listing, offsets.recovery_point)
        self._take_tree(key, listing)
        return PartitionEnd(
            topic_id,
            max(offsets.log_start_offset, bases[0]),
            offsets.recovery_point,
            bases[-1],
            end,
            tuple(pair for pair in listing.epochs if pair[1] < offsets.recovery_point),
        )

    def drop(self, topic_partition: TopicPartition) -> None:
        """A partition that is gone: its files stay for the points before."""
        end = self._state.ends[topic_partition]
        self._remove_all(key_of(end.topic_id, topic_partition.partition))

    def _remove_all(self, key: PartitionKey) -> None:
        for file in list(self._state.files.get(key, {}).values()):
            if file.removed is None:
                self._put(key, replace(file, removed=self.entry.number))

    def _put(self, key: PartitionKey, file: StoredFile) -> None:
        files = self.entry.files.setdefault(key, [])
        files[:] = [*(each for each in files if each.name != file.name), file]

    def _require_known(
        self, listing: Listing, known: dict[int, StoredFile], bases: list[int], recovery_point: int
    ) -> None:
        """Raises ChangedError where a compaction may be ahead of the checkpoint."""
        if recovery_point >= max(listing.bases):
            return
        for base in set(bases) - listing.in_the_store:
            if base not in known or not listing.segments[base].is_in(known[base].identity):
                raise ChangedError(f"{listing.directory} has segments that are newer than the checkpoint")

    # Segments

    def _in_the_store(
        self, key: PartitionKey, topic_id: str, listing: Listing, bases: list[int]
    ) -> dict[int, StoredFile]:
        """The stored files of the segments that are not on the disk. Raises ChangedError, LeftOutError."""
        if bases[-1] in listing.in_the_store:
            raise LeftOutError(f"{listing.path(bases[-1])} is not on the disk, and the checkpoint is in it")
        return {
            base: self._remote.stored_file(key, topic_id, listing, (base, following), self.entry.number)
            for base, following in pairwise(bases)
            if base in listing.in_the_store
        }

    def _replace(self, key: PartitionKey, known: StoredFile | None, file: StoredFile) -> None:
        """Let ``file`` take the place of what the manifest has of a segment."""
        if file != known:
            if known is not None:
                self._put(key, replace(known, removed=self.entry.number))
            self._put(key, file)

    def _take_segment(
        self,
        key: PartitionKey,
        listing: Listing,
        stored: StoredFile | None,
        bases: tuple[int, int | None],
        recovery_point: int,
    ) -> int:
        """Store what is new of a segment; the file position up to which it belongs to the point."""
        base, following = bases
        listed = listing.segments[base]
        if stored is not None and following is not None and stored.identity == listed.text(closed=True):
            return stored.size_bytes
        with opened(listing.path(base)) as file:
            if (file.identity.device, file.identity.inode) != (listed.device, listed.inode):
                raise ChangedError(f"{file.path} was replaced")
            if stored is not None and not file.identity.is_in(stored.identity):
                stored = self._same_or_replaced(key, stored, file)
            if stored is None:
                stored = StoredFile(base, LOG, self.entry.number, "", base)
            until_offset = recovery_point if following is None else following
            found = prove(file, stored.size_bytes, stored.end_offset, until_offset)
            end = found.end if following is None else file.identity.size_bytes
            if found.damaged_at is not None or found.end != end:
                self._tell_damage(file, found)
            pieces = [*stored.pieces, *self.writer.add_file(file, stored.size_bytes, end)]
            changed = replace(
                stored,
                identity=file.identity.text(closed=following is not None),
                end_offset=max(found.end_offset, following or 0),
                pieces=self._merged(file, pieces),
            )
        if changed != self._state.files.get(key, {}).get(changed.name):
            self._put(key, changed)
        return max(end, stored.size_bytes)

    def _tell_damage(self, file: OpenFile, found: Proven) -> None:
        at = found.end if found.damaged_at is None else found.damaged_at
        self._on_damage(f"{file.path} is damaged at file position {at}; the backup has its bytes as they are")

    def _same_or_replaced(self, key: PartitionKey, stored: StoredFile, file: OpenFile) -> StoredFile | None:
        """The stored file, if the local file begins with the same bytes; else it ends here, and None."""
        is_long_enough = file.identity.size_bytes >= stored.size_bytes
        if is_long_enough and all(file.crc(piece.start, piece.end) == piece.crc for piece in stored.pieces):
            return stored
        self._put(key, replace(stored, removed=self.entry.number))
        return None

    def _merged(self, file: OpenFile, pieces: list[StoredPiece]) -> list[StoredPiece]:
        """Fewer and larger pieces, of the same bytes: a run at the end becomes one when there are too many small ones.

        A piece joins if those after it are as large together, so each byte is stored again only a few times.
        """
        small = 0
        while small < len(pieces) and pieces[-1 - small].size_bytes < PIECE_BYTES_MAX:
            small += 1
        if small <= _PIECES_MAX:
            return pieces
        first, total = len(pieces), 0
        while first and total + pieces[first - 1].size_bytes <= PIECE_BYTES_MAX:
            if len(pieces) - first >= _PIECES_MAX and pieces[first - 1].size_bytes > total:
                break
            first -= 1
            total += pieces[first].size_bytes
        if len(pieces) - first < 2:
            return pieces
        return [*pieces[:first], *self.writer.add_file(file, pieces[first].start, pieces[-1].end)]

    # Snapshots of producers

    def _take_snapshot(self, key: PartitionKey, listing: Listing, recovery_point: int) -> None:
        """Store the newest snapshot up to the recovery point; those that are gone end here."""
        known = self._state.current(key, SNAPSHOT)
        wanted = [offset for offset in listing.snapshots if offset <= recovery_point][-1:]
        for offset in wanted:
            if offset not in known:
                with opened(listing.directory / offset_file(offset, SNAPSHOT)) as file:
                    pieces = list(self.writer.add_file(file, 0, file.identity.size_bytes))
                self._put(key, StoredFile(offset, SNAPSHOT, self.entry.number, "", offset, None, pieces))
        for offset in known.keys() - set(wanted):
            self._put(key, replace(known[offset], removed=self.entry.number))

    # The trees of verifiable topics

    def _take_tree(self, key: PartitionKey, listing: Listing) -> None:
        """Store the leaves that are new. They are read after the segments: what took batches had kept their leaves.

        Leaves that are damaged are left as they are stored.
        """
        try:
            count = kept_leaves(listing.directory)
        except DamagedTreeError as error:
            self._on_damage(f"{error}; the backup keeps the leaves that it has")
            return
        if count is None:
            return
        stored = self._state.current(key, TREE).get(0)
        if count == 0:
            if stored is None:
                self._put(key, StoredFile(0, TREE, self.entry.number, "", 0))
            return
        with opened(listing.directory / ENTRIES_FILE) as file:
            if stored is not None and stored.pieces and not file.identity.is_in(stored.identity):
                stored = self._same_or_replaced(key, stored, file)
            stored = stored or StoredFile(0, TREE, self.entry.number, "", 0)
            pieces = list(stored.pieces)
            if count * LEAF_BYTES > stored.size_bytes:
                pieces += self.writer.add_file(file, stored.size_bytes, count * LEAF_BYTES)
            changed = replace(stored, identity=file.identity.text(closed=False), pieces=self._merged(file, pieces))
        if changed != self._state.files.get(key, {}).get(changed.name):
            self._put(key, changed)
