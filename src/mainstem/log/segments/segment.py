"""One segment: a ``.log`` file of record batches and its indexes, from its base offset to the next segment's.

Invariants:

* ``.log`` holds whole batches from 0 to ``size_bytes``, offsets rising; only the active segment grows, only at its end.
* The indexes belong to the ``.log``: built with it, confirmed by a seal, or rebuilt from it at first use. The
  transactions open at this segment's start come from ``previous``, the segment before it. The first segment has none:
  a transaction that began in a removed segment then counts from its first record that is left.
* Every byte that a reader gets was verified by its batch's checksum since this process started: by the append, by
  recovery, or by the first read. Damage raises CorruptBatchError, and nothing is deleted.

A dirty segment keeps its file open, because the kernel reports an fsync error only to file handles that were open when
it happened.

Concurrency: owned by the thread that owns the partition log. ``DiskFile.sync`` may run elsewhere meanwhile; memory
views that were handed out outlive the segment.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import NamedTuple

from mainstem.errors import CorruptBatchError, MainstemError, StorageError
from mainstem.log.files.disk import Buffer, Disk, DiskFile
from mainstem.log.files.names import LOG, REMOTE, SEGMENT_SUFFIXES, offset_file
from mainstem.log.segments.batch_scan import (
    Start,
    find_valid_batch,
    last_batch_end,
    skip_before,
    walk_headers,
    walk_past_damage,
)
from mainstem.log.segments.file_ranges import FileRanges
from mainstem.log.segments.handles import LeastRecentlyUsed
from mainstem.log.segments.index_checksums import NOT_KNOWN_DURABLE
from mainstem.log.segments.remote_segment import READ_BYTES_MAX, LoadedPieces, RemoteFile, read_remote
from mainstem.log.segments.segment_indexes import SegmentIndexes, read_seal
from mainstem.log.segments.transactions import OpenTransactions
from mainstem.open_files import segment_files_limit
from mainstem.record.constants import HEADER_BYTES, NO_LEADER_EPOCH
from mainstem.record.header import BatchHeader, iter_headers, read_header, verify
from mainstem.record.reader import EndMarker, read_end_marker

_LOG = logging.getLogger(__name__)

LOADED_INDEXES_MAX = 128
_DAMAGED_PLACES_KEPT = 1000


class SegmentContext:
    """Shared by all segments of a node: the disk, and the limits on open files and loaded indexes.

    ``remote``: the loaded pieces of segments that are in the backup's store alone; None where no store is known.
    """

    __slots__ = ("disk", "loaded_indexes", "open_files", "remote")

    def __init__(
        self, disk: Disk, open_files_max: int | None = None, loaded_indexes_max: int = LOADED_INDEXES_MAX
    ) -> None:
        self.disk = disk
        self.open_files = LeastRecentlyUsed(segment_files_limit() if open_files_max is None else open_files_max)
        self.loaded_indexes = LeastRecentlyUsed(loaded_indexes_max)
        self.remote: LoadedPieces | None = None


def read_marker(file: DiskFile, file_position: int, header: BatchHeader) -> EndMarker | None:
    """The transaction that the verified control batch at this position ends, if it does."""
    try:
        return read_end_marker(file.read(file_position, header.size_bytes))
    except CorruptBatchError as error:  # whole, but its writer wrote no sense: it ends nothing
        _LOG.warning("%s: %s", file.path, error)
        return None


class BatchPlace(NamedTuple):
    """The place of a batch in its segment, and its marker, if it is a proven transaction marker."""

    file_position: int
    header: BatchHeader
    marker: EndMarker | None = None


class _IndexHolder:
    """The segment as the owner of loaded indexes (it is the owner of an open file itself)."""

    __slots__ = ("_segment",)

    def __init__(self, segment: Segment) -> None:
        self._segment = segment

    def is_pinned(self) -> bool:
        return self._segment.is_active

    def release(self) -> None:
        self._segment.unload_indexes()


class Segment:
    """Created empty (``create``) or opened from its files; lazily: nothing is read before it is needed."""

    __slots__ = (
        "_after_damage",
        "_context",
        "_file",
        "_index_holder",
        "_indexes",
        "_interval_bytes",
        "_is_damaged",
        "_lost_until",
        "_max_timestamp_ms",
        "_proven",
        "_size_bytes",
        "base_offset",
        "directory",
        "ending",
        "is_active",
        "is_remote",
        "pins",
        "previous",
    )

    def __init__(self, context: SegmentContext, directory: PurePath, base_offset: int, interval_bytes: int) -> None:
        self._context = context
        self.directory = directory
        self.base_offset = base_offset
        self.ending = ""  # of the name of its .log, while compaction lets it take the place of others
        self._interval_bytes = interval_bytes
        self._file: DiskFile | None = None
        self._size_bytes: int | None = None
        self._indexes: SegmentIndexes | None = None
        self._index_holder = _IndexHolder(self)
        self._proven = FileRanges()
        self._after_damage: dict[tuple[int, int, int], tuple[int, BatchHeader] | None] = {}
        self._max_timestamp_ms: int | None = None
        self._is_damaged = False
        self._lost_until = 0
        self.is_active = False
        self.is_remote = False  # its .log is in the backup's store alone
        self.pins = 0
        self.previous: Segment | None = None

    @classmethod
    def create(
        cls,
        context: SegmentContext,
        directory: PurePath,
        base_offset: int,
        interval_bytes: int,
        open_transactions: OpenTransactions | None = None,
    ) -> Segment:
        """A new, empty, active segment. Its name is durable once its directory is synced.

        ``open_transactions`` are those at its beginning; None when there is nothing before it.
        """
        segment = cls(context, directory, base_offset, interval_bytes)
        segment._use_file(context.disk.create(segment.path(LOG)))
        segment._size_bytes = 0
        segment._indexes = SegmentIndexes(base_offset, interval_bytes, open_transactions)
        segment.is_active = True
        return segment

    def path(self, suffix: str) -> PurePath:
        """One of the segment's files."""
        return self.directory / (offset_file(self.base_offset, suffix) + (self.ending if suffix == LOG else ""))

    # The file, opened when needed

    def file(self) -> DiskFile:
        """The ``.log``, open."""
        if self._file is None:
            self._use_file(self._open_remote() if self.is_remote else self._context.disk.open(self.path(LOG)))
        else:
            self._context.open_files.use(self)
        assert self._file is not None
        return self._file

    def _open_remote(self) -> DiskFile:
        stored = read_remote(self._context.disk, self.path(REMOTE))
        if stored is None:
            raise StorageError(
                f"{self.path(LOG)} is gone, and {self.path(REMOTE).name}, which says where the store has it, is lost: "
                "a backup of this log writes it again"
            )
        return RemoteFile(self.path(LOG), stored, self._context.remote)

    @property
    def is_stored(self) -> bool:
        """Whether the backup has said where its bytes are."""
        return self.is_remote or self._context.disk.exists(self.path(REMOTE))

    def _use_file(self, file: DiskFile) -> None:
        self._file = file
        self._context.open_files.use(self)

    def is_pinned(self) -> bool:
        """Whether the open file must stay: it has bytes that are not synced."""
        return self.pins > 0

    def release(self) -> None:
        """Close the file; it is opened again when needed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def size_bytes(self) -> int:
        """Where the last whole batch ends in the active segment; the file's length in any other.

        A remote segment's seal is of its whole file. It is 0 where both are lost.
        """
        if self._size_bytes is None:
            seal = read_seal(self._context.disk, self.directory, self.base_offset) if self.is_remote else None
            if seal is None and self.is_remote and not self._context.disk.exists(self.path(REMOTE)):
                return 0
            self._size_bytes = self.file().size_bytes() if seal is None else seal.log_bytes
        return self._size_bytes

    # The indexes, loaded or rebuilt when needed

    def indexes(self) -> SegmentIndexes:
        """The indexes over the whole segment."""
        if self.is_active and self._indexes is not None:
            return self._indexes
        if self._indexes is None:
            self._load_indexes()
        self._context.loaded_indexes.use(self._index_holder)
        assert self._indexes is not None
        return self._indexes

    def _open_before(self) -> OpenTransactions:
        """The transactions that are open where this segment begins.

        Segments before it whose indexes must be rebuilt, too, come first, oldest first: a call for each would nest.
        """
        if self.previous is None:
            return OpenTransactions()
        unknown, segment = [], self.previous
        while not segment.is_remote and segment._indexes is None:
            if segment.previous is None or segment.read_indexes().log_bytes:
                break
            unknown.append(segment)
            segment = segment.previous
        for each in reversed(unknown):
            each.indexes()
        return self.previous._open_at_end()

    def _open_at_end(self) -> OpenTransactions:
        """The transactions that are open where this segment ends: of a remote one its seal alone says it."""
        if self.is_remote and self._indexes is None:
            seal = read_seal(self._context.disk, self.directory, self.base_offset)
            if seal is None:
                raise self._lost_index()
            return OpenTransactions(seal.open_transactions)
        return self.indexes().open_transactions

    def _lost_index(self) -> MainstemError:
        file = self.file()
        assert isinstance(file, RemoteFile)
        return file.bring_back()

    def _load_indexes(self) -> None:
        indexes = self.read_indexes()
        if self.is_remote:
            if not indexes.log_bytes or indexes.log_bytes != self.size_bytes:
                raise self._lost_index()
            self._indexes = indexes
            return
        if indexes.log_bytes == 0:
            indexes.open_transactions = self._open_before().copy()
        known = indexes.log_bytes
        for place in self.walk_proving(indexes.end):
            self._is_damaged = self._is_damaged or place.file_position != indexes.log_bytes
            indexes.add(place.header, place.file_position, place.marker)
        seal = read_seal(self._context.disk, self.directory, self.base_offset)
        if seal is not None and indexes.log_bytes != known and seal.end_offset >= indexes.end_offset:
            # Markers may be in damage that was passed.
            indexes.restore_transactions(self._context.disk, self.directory, seal, self.file())
        if seal is not None and seal.log_bytes > self.size_bytes:
            self._lost_until = seal.end_offset
        self._is_damaged = self._is_damaged or indexes.log_bytes != self.size_bytes or self._lost_until > 0
        self._indexes = indexes
        if indexes.log_bytes != known and self._lost_until == 0:
            indexes.close()
            durable_offset = NOT_KNOWN_DURABLE if seal is None else seal.durable_offset
            indexes.write(self._context.disk, self.directory, durable_offset, sync=True)

    def walk_proving(self, start: Start, end: int | None = None) -> Iterator[BatchPlace]:
        """Every batch from ``start`` on that is whole, proven, and ends by ``end``; damage is passed over."""
        end = self.size_bytes if end is None else end
        for file_position, header in walk_past_damage(self.file(), start, end, prove=True, search=self._search):
            self._proven.add(file_position, file_position + header.size_bytes)
            yield BatchPlace(file_position, header, self.marker_at(file_position, header))

    def _search(self, start: int, end: int, first_offset: int) -> tuple[int, BatchHeader] | None:
        """As ``find_valid_batch``, which looks through the file once for each damaged place and not at every read."""
        place = (start, end, first_offset)
        if place not in self._after_damage:
            if len(self._after_damage) >= _DAMAGED_PLACES_KEPT:
                self._after_damage.clear()
            self._after_damage[place] = find_valid_batch(self.file(), *place)
        return self._after_damage[place]

    def marker_at(self, file_position: int, header: BatchHeader) -> EndMarker | None:
        """The transaction that the verified batch at this position ends, if it is a transaction marker."""
        return read_marker(self.file(), file_position, header) if header.is_control else None

    def read_indexes(self) -> SegmentIndexes:
        """The indexes as far as their files vouch for them: all, a part, or empty ones."""
        disk = self._context.disk
        log = None if self.is_remote else self.file()  # a remote one was checked when it was here
        seal = read_seal(disk, self.directory, self.base_offset)
        indexes = None
        if seal is not None and (log is None or seal.log_bytes <= log.size_bytes()):
            indexes = SegmentIndexes.read(disk, self.directory, seal, self._interval_bytes, log)
        return indexes or SegmentIndexes(self.base_offset, self._interval_bytes)

    def unload_indexes(self) -> None:
        """Forget the indexes in memory; they are loaded again when needed."""
        self._indexes = None

    # Becoming active, growing, being closed

    def activate(self, indexes: SegmentIndexes) -> None:
        """Make this the segment that grows; ``indexes`` reach to its last whole batch, where its file ends."""
        self._indexes = indexes
        self._size_bytes = indexes.log_bytes
        self.is_active = True
        self._context.loaded_indexes.use(self._index_holder)

    def adopt_indexes(self, indexes: SegmentIndexes, lost_until: int = 0) -> None:
        """Take indexes that recovery has built over the whole segment, which is closed.

        Records from the end of the indexes to ``lost_until`` existed once, and are lost.
        """
        self._indexes = indexes
        if indexes.end_offset < lost_until:
            self._lost_until = lost_until
            indexes.mark_lost(lost_until, self.size_bytes)
        self._is_damaged = indexes.log_bytes != self.size_bytes or self._lost_until > 0
        self._context.loaded_indexes.use(self._index_holder)

    def resize(self, size_bytes: int) -> None:
        """Recovery cuts the file off there."""
        self._size_bytes = size_bytes
        self._proven.cut(size_bytes)
        self._after_damage.clear()

    def append(
        self, headers: Sequence[BatchHeader], buffers: Sequence[Buffer], marker: EndMarker | None = None
    ) -> None:
        """Write whole batches at the end: ``buffers`` are their bytes, ``headers`` carry their final offsets.

        ``marker`` is what the one batch holds if it is a control batch.
        After StorageError ``discard_tail`` must follow.
        """
        assert self.is_active
        assert self._indexes is not None
        start = file_position = self.size_bytes
        self.file().write(start, buffers)
        for header in headers:
            self._indexes.add(header, file_position, marker)
            file_position = self._indexes.log_bytes
        self._size_bytes = file_position
        self._proven.add(start, file_position)

    def discard_tail(self) -> None:
        """Cut off the bytes that a failed write has left after the last whole batch. Raises StorageError."""
        self.file().truncate(self.size_bytes)

    def write_indexes(self, durable_offset: int, *, last: bool = False, sync: bool = False) -> None:
        """Write the index files and the seal up to the last batch; ``last``: no batches will follow.

        ``sync``: the seal is durable on return.
        """
        indexes = self.indexes()
        if last:
            indexes.close()
        indexes.write(self._context.disk, self.directory, durable_offset, sync=sync)

    def mark_proven(self, start: int, end: int) -> None:
        """Recovery has proven these bytes."""
        self._proven.add(start, end)

    def close(self) -> None:
        """Let go of the file and the indexes."""
        self.release()
        self._indexes = None
        self._context.open_files.forget(self)
        self._context.loaded_indexes.forget(self._index_holder)

    def remove(self) -> None:
        """Remove its files. Views that were handed out stay valid."""
        self.close()
        for suffix in SEGMENT_SUFFIXES:
            self._context.disk.remove(self.path(suffix))

    # Reading

    def is_whole(self) -> bool:
        """Whether it holds all that it ever held: else a reader must not go on after its end as if it did."""
        if self.is_remote and not self.size_bytes:
            return False
        indexes = self.indexes()
        return not self._lost_until and indexes.log_bytes == self.size_bytes

    @property
    def max_timestamp_ms(self) -> int:
        """The greatest timestamp that is known; from the seal alone, if that covers the segment. -1 without any."""
        if self._indexes is None and self._max_timestamp_ms is None:
            seal = read_seal(self._context.disk, self.directory, self.base_offset)
            if seal is not None and seal.log_bytes == self.size_bytes:
                self._max_timestamp_ms = seal.max_timestamp_ms
        if self._indexes is None and self._max_timestamp_ms is not None:
            return self._max_timestamp_ms
        return self.indexes().max_timestamp_ms

    def may_have_timestamp(self, timestamp_ms: int) -> bool:
        """Whether a record may have at least this timestamp."""
        return self.max_timestamp_ms >= timestamp_ms or self._is_damaged

    def locate(self, offset: int, *, prove: bool = False) -> BatchPlace | None:
        """The first batch that ends at or after ``offset``; None when all of the segment lies before.

        By headers, so the batch there must be proven when it is read; should it fail, the header may have been rotten,
        and with ``prove`` it is found by proven batches alone. Raises CorruptBatchError when the place is damaged.
        """
        start = self.indexes().offsets.lookup(max(offset, self.base_offset))
        if prove:
            return self._locate_carefully(start, offset)
        found = skip_before(self.file(), start, self.size_bytes, offset)
        with suppress(CorruptBatchError):  # found again, and judged, below
            header = read_header(self.file().read(found.file_position, HEADER_BYTES))
            if found.fits(header) and header.base_offset <= offset <= header.last_offset:
                return BatchPlace(found.file_position, header)
        return self._locate_carefully(start, offset)

    def _locate_carefully(self, start: Start, offset: int) -> BatchPlace | None:
        """As ``locate``, where ``offset`` is in no batch that follows on: before the first, in damage, or after."""
        end = start.file_position
        for place in self.walk_proving(start):
            if place.header.last_offset >= offset:
                if place.header.base_offset <= offset or (place.file_position == 0 and offset < self.base_offset):
                    return place
                raise self._damage(end, offset)
            end = place.file_position + place.header.size_bytes
        if end != self.size_bytes or offset < self._lost_until:
            raise self._damage(end, offset)
        return None

    def walk_from(self, offset: int) -> Iterator[BatchPlace]:
        """Every batch, as far as headers tell, that ends at or after ``offset``; damage is passed over."""
        for place in self._walk_past_damage(self.indexes().offsets.lookup(offset)):
            if place.header.last_offset >= offset:
                yield place

    def last_leader_epoch(self) -> int:
        """The leader epoch of its last batch; there is one."""
        return read_header(self.file().read(self.indexes().last_batch_position, HEADER_BYTES)).leader_epoch

    def leader_epochs(self, epoch_max: int) -> Iterator[tuple[int, int]]:
        """(epoch, offset) where the leader epoch may change: walks the segment only if its ends differ.

        An epoch over ``epoch_max`` is rot.
        """
        if self.size_bytes == 0:
            return
        latest = NO_LEADER_EPOCH
        for place in self._walk_past_damage(Start(0, self.base_offset)):
            if latest < place.header.leader_epoch <= epoch_max:
                latest = place.header.leader_epoch
                yield latest, place.header.base_offset
                if latest == self.last_leader_epoch():
                    return

    def _walk_past_damage(self, start: Start) -> Iterator[BatchPlace]:
        walk = walk_past_damage(self.file(), start, self.size_bytes, prove=False, search=self._search)
        return (BatchPlace(file_position, header) for file_position, header in walk)

    def _damage(self, file_position: int, offset: int) -> CorruptBatchError:
        name = self.path(LOG).name
        return CorruptBatchError(f"{name} is damaged at file position {file_position}: offset {offset} cannot be read")

    def locate_timestamp(self, timestamp_ms: int) -> Iterator[BatchPlace]:
        """In order, the batches whose greatest timestamp is at least ``timestamp_ms``. Raises CorruptBatchError."""
        indexes = self.indexes()
        after = indexes.times.lookup(timestamp_ms)
        for file_position, header in walk_headers(self.file(), indexes.offsets.lookup(after + 1), self.size_bytes):
            place = BatchPlace(file_position, header)
            if header.last_offset <= after:
                continue
            if not self._proven.covers(file_position, file_position + header.size_bytes):
                self.read_batch(place)  # the header counts only after that
            if header.max_timestamp >= timestamp_ms:
                yield place
        if self._lost_until:
            raise self._damage(self.size_bytes, self._lost_until - 1)

    def greatest_timestamp(self, end_position: int) -> tuple[int, int]:
        """The greatest timestamp before a batch end, and where the first batch that has it ends."""
        indexes = self.indexes()
        if end_position >= indexes.log_bytes:
            return indexes.max_timestamp_ms, indexes.max_timestamp_offset
        start, best = indexes.known_before(end_position)
        for _, header in walk_headers(self.file(), start, end_position):
            if header.max_timestamp > best[0]:
                best = (header.max_timestamp, header.last_offset)
        return best

    def read_batch(self, place: BatchPlace) -> memoryview:
        """The bytes of one batch, proven. Raises CorruptBatchError."""
        return self.read(place.file_position, place.header.size_bytes, self.size_bytes)

    def read(self, start: int, max_bytes: int, end_position: int, *, minimum_one: bool = True) -> memoryview:
        """Whole batches from the batch start ``start`` on, at most ``max_bytes``, none past ``end_position``.

        With ``minimum_one`` the first comes even if it is larger. Raises CorruptBatchError when the first is damaged;
        a later damaged one ends the read before it.
        """
        end = min(start + (min(max_bytes, READ_BYTES_MAX) if self.is_remote else max_bytes), end_position)
        if not self._proven.covers(start, end):
            return self._read_proving(start, end, end_position, minimum_one=minimum_one)
        if end < end_position:
            end = last_batch_end(self.file(), max(start, self.indexes().offsets.lookup_file_position(end)), end)
            if end == start and minimum_one:
                end = start + read_header(self.file().read(start, HEADER_BYTES)).size_bytes
                if not self._proven.covers(start, end):
                    return self._read_proving(start, end, end_position, minimum_one=True)
        return self.file().view(start, end - start)

    def _read_proving(self, start: int, end: int, end_position: int, *, minimum_one: bool) -> memoryview:
        """Read [start, end), and prove each batch by its checksum on the way, and that it follows on the one before."""
        file = self.file()
        data = memoryview(file.read(start, max(end - start, HEADER_BYTES)))
        first = read_header(data)
        if first.size_bytes > end - start:
            if not minimum_one:
                return data[:0]
            data = memoryview(file.read(start, min(first.size_bytes, end_position - start)))
        verify(data, 0, first)
        if start == 0 and first.base_offset != self.base_offset:
            raise self._damage(0, self.base_offset)
        checked, next_offset = first.size_bytes, first.next_offset
        with suppress(CorruptBatchError):  # the next read begins there, and reports it
            for at, header in iter_headers(data[checked : end - start]):
                verify(data, first.size_bytes + at, header)
                if header.base_offset != next_offset:
                    break
                checked, next_offset = first.size_bytes + at + header.size_bytes, header.next_offset
        self._proven.add(start, start + checked)
        return data[:checked]
