"""The key index of one partition: the records of each key, and the record of each idempotency key.

It follows the log like a replica. Invariants:

1. While it is ready, it has an entry for each keyed record in [log start, log end): ``appended`` is called for every
   batch after its bytes are written and before its producer is answered, and a record whose entry could not be written
   makes the index fail, not the append. There may be entries of records that retention, delete-records or compaction
   removed: readers check the log, and so does ``last_offset`` where compaction may have run.
2. Its position is stored with the entries, in one write. After a kill it is at most behind, and catches up from the log
   when it is opened. After a power cut it may also be ahead of the log. Every entry and the position have a leader
   epoch; with the log's list of epochs it shows where index and log differ, and entries from there on are ignored.
3. A new generation is built from the log up to ``build_end``; later appends are written to it at once. So nothing is
   missing when it takes over. A build that ends in any other way leaves no files.
4. It may be deleted at any time. Without it reads scan, and conditions wait until it is built.

Concurrency: owned by the thread that owns the partition log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from mainstem.clock import Clock
from mainstem.errors import CorruptBatchError, IndexNotReadyError, StorageError
from mainstem.log.key_index import key_layout as layout
from mainstem.log.key_index.key_entries import IDEMPOTENCY_KEYS, KEYS, IndexedBatch, entries_of, read_batch, time_of
from mainstem.log.key_index.key_store import Entry, KeyStore
from mainstem.record.append_headers import ABSENT
from mainstem.record.header import BatchHeader, iter_headers
from mainstem.record.key_scan import records_of, scan_keys

if TYPE_CHECKING:
    from mainstem.log.partition.partition_reads import PartitionReads

_CATCH_UP_BYTES_MAX: Final = 4 << 20
"""How much log is read at once, on the spot; more is a build's, in a process of its own."""
_READ_BYTES: Final = 1 << 20
_GARBAGE_MIN: Final = 1_000_000
_SWEPT_MIN: Final = 1_000
_AFTER_OFFSETS: Final = b"\xff"


class BuildPlan(NamedTuple):
    """A generation to be built: the entries of the records in [start, end), from the files in ``directory``."""

    directory: PurePath
    start_offset: int
    end_offset: int
    generation: int
    parts: int
    now_ms: int
    remember_from_ms: int


class KeyIndex:
    """The key index of one partition."""

    def __init__(self, store: KeyStore, log: PartitionReads, clock: Clock, next_generation: Callable[[], int]) -> None:
        self.log = log
        self._store = store
        self.parts = self.wanted_parts
        self.build: BuildPlan | None = None
        self._clock = clock
        self._next_generation = next_generation
        self._meta_key = layout.meta_key(log.topic_id, log.topic_partition.partition)
        self._generation: int | None = None
        self._failure: str | None = None
        self._wanted: tuple[int, int] | None = None
        self._start_offset = 0
        self._swept_to = b""
        self._to_sweep = 0

    # Its state

    @property
    def wanted_parts(self) -> int:
        """The kinds of entries that the topic's configs ask for."""
        config = self.log.config
        return KEYS * config.mainstem_key_index + IDEMPOTENCY_KEYS * config.remembers_idempotency_keys

    @property
    def is_ready(self) -> bool:
        return self._generation is not None and self._failure is None

    @property
    def failure(self) -> str | None:
        """Why the store does not do; a new one has to be opened."""
        return self._failure

    @property
    def wants_build(self) -> bool:
        """Whether it has to be built, or has gathered more entries of records that are gone than of others."""
        if self._failure is not None or self.build is not None:
            return False
        gone = self.log.log_start_offset - self._start_offset
        return not self.is_ready or gone > max(_GARBAGE_MIN, self.log.log_end_offset - self.log.log_start_offset)

    def fail(self, reason: str) -> None:
        """Stop writing, because later entries would come after a gap. A new index continues from the log."""
        self._failure, self.build = reason, None

    # Opening

    def open(self) -> None:
        """Find what the store has, and catch up from the log, if that is little; else it wants a build."""
        try:
            meta = layout.decode_meta(self._store.get(self._meta_key))
            if meta is not None and meta.parts == self.parts:
                generation, start = meta.generation, max(self._agreed(meta), self.log.log_start_offset)
                self._start_offset = meta.start_offset
            else:
                generation, start = self._next_generation(), self.log.log_start_offset
                self._start_offset = start
            entries = self._read_entries(generation, start)
            if entries is None:
                self._wanted = (generation, start)
                return
            self._store.write([*entries, self._meta(generation)])
            self._generation = generation
        except StorageError as error:
            self.fail(str(error))

    def _agreed(self, meta: layout.IndexMeta) -> int:
        """Up to where the index and the log are of the same history."""
        if meta.leader_epoch == self.log.leader_epoch:
            return min(meta.position, self.log.log_end_offset)
        end = self.log.end_offset_for_epoch(meta.leader_epoch).end_offset
        return max(0, min(meta.position, end))

    def _read_entries(self, generation: int, start: int) -> list[Entry] | None:
        """The entries of the log from ``start`` on; None when that is much, or cannot all be read now."""
        log, entries, size = self.log, [], 0
        if log.high_watermark < log.log_end_offset:
            return None
        now_ms = self._clock.time_ms()
        try:
            for header, batch in _batches(log, start):
                size += header.size_bytes
                if size > _CATCH_UP_BYTES_MAX:
                    return None
                entries += entries_of(read_batch(header, batch), self.parts, generation, time_of(header, now_ms))
        except CorruptBatchError:
            return None  # a build says what is damaged
        return entries

    def _meta(self, generation: int) -> Entry:
        log = self.log
        meta = layout.IndexMeta(self.parts, generation, log.log_end_offset, log.leader_epoch, self._start_offset)
        return self._meta_key, layout.encode_meta(meta)

    # Following the log

    def appended(self, batches: Sequence[IndexedBatch]) -> None:
        """Take in what has just been written to the log, up to its end."""
        if self._failure is not None:
            return
        now_ms, puts = self._clock.time_ms(), list[Entry]()
        generations = {self._generation, self.build.generation if self.build is not None else None}
        for generation in generations - {None}:
            assert generation is not None
            for batch in batches:
                puts += entries_of(batch, self.parts, generation, now_ms)
        if self._generation is not None:
            puts.append(self._meta(self._generation))
        if not puts:
            return
        if self.parts & IDEMPOTENCY_KEYS:
            self._to_sweep += 2 * len(puts)
        try:
            self._store.write(puts)
        except StorageError as error:
            self.fail(str(error))

    # Building

    def start_build(self) -> BuildPlan:
        """Start a build up to the log end; from now on each append is also written to the new generation."""
        assert self.build is None, "one build at a time"
        log, now_ms = self.log, self._clock.time_ms()
        generation, start = self._wanted or (self._next_generation(), log.log_start_offset)
        start = max(start, log.log_start_offset)
        remember_from_ms = now_ms - log.config.mainstem_idempotency_window_ms
        plan = BuildPlan(log.directory, start, log.log_end_offset, generation, self.parts, now_ms, remember_from_ms)
        self.build = plan
        return plan

    def finish_build(self, files: Sequence[PurePath]) -> None:
        """Take over the files that hold the plan's entries."""
        assert self.build is not None, "no build was started"
        build, old = self.build, self._generation
        self.build = self._wanted = None
        try:
            if files:
                self._store.ingest(files)
            if self._start_offset > build.start_offset or old != build.generation:
                self._start_offset = build.start_offset
            self._store.write([self._meta(build.generation)])
            self._generation, self._swept_to = build.generation, b""
            if old is not None and old != build.generation:
                drop_generation(self._store, old)
        except StorageError as error:
            self.fail(str(error))

    def abandon_build(self) -> None:
        """The build failed: it is wanted as before."""
        assert self.build is not None, "no build was started"
        generation, self.build = self.build.generation, None
        if self._wanted is None or self._wanted[0] != generation:
            self._try(lambda: drop_generation(self._store, generation))

    def forget(self) -> None:
        """Remove all entries: the topic is deleted, or has no index any more."""
        generations = {self._generation, *(each.generation for each in [self.build] if each is not None)}
        self.build = None
        self._try(lambda: self._store.write((), [self._meta_key]))
        for generation in generations - {None}:
            assert generation is not None
            self._try(lambda generation=generation: drop_generation(self._store, generation))  # type: ignore[misc]
        self._generation = None

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except StorageError as error:
            self.fail(str(error))

    def sweep(self) -> None:
        """Remove some of the idempotency keys that are out of their window: more than were added since the last time.

        Expired keys that are not removed yet are ignored, because each entry has its time.
        """
        if not self.parts & IDEMPOTENCY_KEYS or self._generation is None or self._failure is not None:
            return
        count, self._to_sweep = _SWEPT_MIN + self._to_sweep, 0
        start = layout.generation_prefix(b"i", self._generation)
        end = layout.generation_prefix(b"i", self._generation + 1)
        expired = []
        try:
            for key, value in self._store.scan(max(start, self._swept_to), end):
                if not self._is_in_window(layout.decode_remembered(value)):
                    expired.append(key)
                self._swept_to, count = key, count - 1
                if count == 0:
                    break
            else:
                self._swept_to = b""
            if expired:
                self._store.write((), expired)
        except StorageError as error:
            self.fail(str(error))

    # Reading

    def last_offset(self, key: bytes, end_offset: int | None = None) -> int:
        """The offset of the key's last record before the log end, or ``end_offset``; -1 when it has none.

        Tombstones count, and records of transactions whether these commit or not. Raises IndexNotReadyError.
        """
        start = self._prefix(b"k") + layout.key_part(key)
        end = start + (_AFTER_OFFSETS if end_offset is None else layout.pack_offset(end_offset))
        while (found := self._last(start, end)) is not None:
            offset = layout.offset_in(found[0])
            if offset < self.log.log_start_offset:
                return ABSENT
            if self._is_current(offset, layout.epoch_in(found[1])):
                # What compaction took was superseded, or a tombstone: before it there is nothing left of this key.
                return offset if self._is_in_log(offset, key) else ABSENT
            end = found[0]
        return ABSENT

    def offsets(self, key: bytes, start_offset: int, end_offset: int, limit: int) -> list[int]:
        """The first offsets in [start, end) at which the key may have a record, rising; all where it has one.

        Raises IndexNotReadyError.
        """
        prefix = self._prefix(b"k") + layout.key_part(key)
        start = prefix + layout.pack_offset(max(start_offset, self.log.log_start_offset))
        found: list[int] = []
        try:
            for entry_key, value in self._store.scan(start, prefix + layout.pack_offset(max(end_offset, 0))):
                offset = layout.offset_in(entry_key)
                if self._is_current(offset, layout.epoch_in(value)):
                    found.append(offset)
                    if len(found) == limit:
                        break
        except StorageError as error:
            self.fail(str(error))
            raise self._not_ready() from error
        return found

    def remembered_offset(self, idempotency_key: bytes) -> int | None:
        """The offset of the key's record, within its window; None when there is none.

        Raises IndexNotReadyError.
        """
        try:
            value = self._store.get(self._prefix(b"i") + idempotency_key)
        except StorageError as error:
            self.fail(str(error))
            raise self._not_ready() from error
        if value is None:
            return None
        remembered = layout.decode_remembered(value)
        is_there = remembered.offset >= self.log.log_start_offset
        is_current = is_there and self._is_current(remembered.offset, remembered.leader_epoch)
        return remembered.offset if is_current and self._is_in_window(remembered) else None

    def _is_in_window(self, remembered: layout.Remembered) -> bool:
        return self._clock.time_ms() - remembered.time_ms <= self.log.config.mainstem_idempotency_window_ms

    def _prefix(self, kind: bytes) -> bytes:
        if self._generation is None or self._failure is not None:
            raise self._not_ready()
        return layout.generation_prefix(kind, self._generation)

    def _not_ready(self) -> IndexNotReadyError:
        return IndexNotReadyError(f"the key index of {self.log.topic_partition} is being built: try again later")

    def _last(self, start: bytes, end: bytes) -> Entry | None:
        try:
            return self._store.last(start, end)
        except StorageError as error:
            self.fail(str(error))
            raise self._not_ready() from error

    def _is_current(self, offset: int, leader_epoch: int) -> bool:
        """Whether the record at ``offset`` is the one that ``leader_epoch`` wrote there."""
        if leader_epoch == self.log.leader_epoch:
            return offset < self.log.log_end_offset
        found = self.log.end_offset_for_epoch(leader_epoch)
        return found.leader_epoch == leader_epoch and offset < found.end_offset

    def _is_in_log(self, offset: int, key: bytes) -> bool:
        """Whether compaction, if there is any, has left the record. A batch that is damaged has it still."""
        log = self.log
        if not log.config.is_compacted or offset >= log.high_watermark:
            return True
        try:
            for header, batch in _batches(log, offset, max_bytes=1):
                if header.base_offset > offset or header.is_dense:
                    return header.base_offset <= offset
                deltas = scan_keys(header, records_of(header, batch))
                return any(header.base_offset + at == offset and each == key for at, each in deltas)
        except CorruptBatchError:
            return True
        return False


def drop_generation(store: KeyStore, generation: int) -> None:
    """Remove all entries of a generation. Raises StorageError."""
    for kind in layout.GENERATIONS:
        store.delete_range(layout.generation_prefix(kind, generation), layout.generation_prefix(kind, generation + 1))


def _batches(
    log: PartitionReads, offset: int, max_bytes: int = _READ_BYTES
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches from the one that holds ``offset`` up to the high watermark. Raises CorruptBatchError."""
    while offset < log.high_watermark:
        before = offset
        for buffer in log.read(offset, max_bytes).buffers:
            for file_position, header in iter_headers(buffer):
                yield header, buffer[file_position : file_position + header.size_bytes]
                offset = header.next_offset
        if offset == before:
            return  # the offsets up to here are a gap
