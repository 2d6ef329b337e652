"""The tree of one partition of a verifiable topic: a leaf for each stored batch, in order, up to the durable end.

Invariants:

1. A leaf is made only of a batch below the recovery point: what no power cut can take. So a checkpoint never names what
   is not on the disk. Leaves that a crash took are computed from the same batches, and are the same.
2. Up to ``kept_offset`` the leaves are durable themselves. No segment at or past it is removed, and no batch past it
   is compacted: what takes batches waits for their leaves.
3. Leaves are only ever added. A tree whose files are damaged or missing has a ``failure`` and signs nothing.

One advance has three steps, as a flush has: ``start`` (owner) opens the files to read, ``TreeAdvance.run`` (any thread)
reads the batches and writes the leaves, ``finish`` (owner) takes note. At most one is under way.

Concurrency: owned by the thread that owns the partition log.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from mainstem.errors import CorruptBatchError, DamagedTreeError, MainstemError, StorageError
from mainstem.log.files.disk import Disk
from mainstem.log.verifiable.stored_batches import Span, close_spans, open_spans, read_batches
from mainstem.log.verifiable.tree_files import TreeFiles
from mainstem.tlog.leaf import decode_leaf, entry_of
from mainstem.tlog.merkle import EMPTY_ROOT
from mainstem.tlog.tiles import ENTRIES, TILE_HEIGHT, Tile, encode_bundle

if TYPE_CHECKING:
    from mainstem.log.partition.partition_log import PartitionLog
    from mainstem.log.segments.log_segments import LogSegments

_LOG: Final = logging.getLogger(__name__)

_ADVANCE_BYTES_MAX: Final = 32 << 20
"""About how much log one advance reads."""
_LEAVES_A_WRITE: Final = 4096


class TreeHead(NamedTuple):
    """A state of the tree: its leaves cover all that lies before ``next_offset``."""

    size: int
    root: bytes
    next_offset: int


class TreeAdvance:
    """One step of the tree towards the end of the log."""

    def __init__(self, files: TreeFiles, head: TreeHead, spans: Sequence[Span], end_offset: int, *, keep: bool) -> None:
        self.head = head
        self.kept: int | None = None
        self.error: MainstemError | None = None
        self._files = files
        self._spans = spans
        self.end_offset = end_offset
        self._keep = keep

    def run(self, partition: int) -> None:
        """The second step; ``error`` says how it failed."""
        try:
            self._add_leaves(partition)
            if self._keep:
                self._files.write_state(self.head.size, self.head.root)
                self.kept = self.head.next_offset
        except MainstemError as error:
            self.error = error
        finally:
            close_spans(self._spans)

    def _add_leaves(self, partition: int) -> None:
        size, next_offset, read_bytes = self.head.size, self.head.next_offset, 0
        entries: list[bytes] = []
        for header, batch in read_batches(self._spans, self.end_offset):
            if header.base_offset < next_offset:
                raise CorruptBatchError(f"a batch begins at offset {header.base_offset}, {next_offset} comes next")
            if read_bytes >= _ADVANCE_BYTES_MAX:
                break
            next_offset = header.next_offset
            read_bytes += len(batch)
            entries.append(entry_of(partition, header, batch))
            if len(entries) == _LEAVES_A_WRITE:
                self._files.append(size, entries)
                size += len(entries)
                entries.clear()
        if entries:
            self._files.append(size, entries)
            size += len(entries)
        if size != self.head.size:
            self.head = TreeHead(size, self._files.root(size), next_offset)


class PartitionTree:
    """One partition's; made by its log. ``failure`` says why it signs nothing."""

    def __init__(self, log: PartitionLog, disk: Disk, segments: LogSegments) -> None:
        self.failure: str | None = None
        self.kept_offset = 0
        self.kept_size = 0
        self._log = log
        self._disk = disk
        self._segments = segments
        self._files = TreeFiles(disk, log.directory, log.topic_id, log.topic_partition.partition)
        self._head: TreeHead | None = None
        self._covered_to = 0
        self._under_way: TreeAdvance | None = None

    @property
    def head(self) -> TreeHead | None:
        """The tree as it is; None while it is not loaded, or failed."""
        return self._head if self.failure is None else None

    def require_head(self) -> TreeHead:
        """The tree as it is. Raises DamagedTreeError; StorageError when it is not loaded, as the disk failed."""
        if self.failure is not None:
            raise DamagedTreeError(self.failure)
        if self._head is None:
            raise StorageError(f"the tree of {self._log.topic_partition} cannot be read now: try again later")
        return self._head

    @property
    def is_behind(self) -> bool:
        """Whether durable batches have no leaves yet."""
        return self.failure is None and (self._head is None or self._covered_to < self._log.recovery_point)

    def covers(self, offset: int) -> bool:
        """Whether every batch before ``offset`` has its leaf."""
        return self.failure is None and self._head is not None and self._covered_to >= offset

    @property
    def has_unkept(self) -> bool:
        """Whether it has leaves that are not durable yet."""
        return self.failure is None and self._head is not None and self._head.size > self.kept_size

    def load(self) -> None:
        """Load the durable state. Raises StorageError when the disk cannot be read or written now.

        A log without a state that has lost its beginning is refused: its leaves would be others than those before.
        """
        log = self._log
        try:
            state = self._files.load()
            if state is None:
                if log.log_start_offset > 0:
                    raise DamagedTreeError(
                        f"the tree of {log.topic_partition} is lost: restore its files from a backup"
                    )
                self._files.write_state(0, EMPTY_ROOT)
                self._head = TreeHead(0, EMPTY_ROOT, self._segments[0].base_offset)
                return
            next_offset = self._segments[0].base_offset  # no segment goes before its leaves are kept
            if state.size:
                next_offset = self._files.leaf(state.size - 1).last_offset + 1
            if next_offset > log.log_end_offset:
                raise DamagedTreeError(
                    f"the tree of {log.topic_partition} ends at offset {next_offset}, its log at {log.log_end_offset}: "
                    "durable records are lost; restore the partition from a backup"
                )
            self._head = TreeHead(state.size, state.root, next_offset)
            self.kept_offset, self.kept_size = next_offset, state.size
        except DamagedTreeError as error:
            self._fail(error)

    def _fail(self, error: MainstemError) -> None:
        self.failure = str(error)
        _LOG.error("%s is not verifiable until the next start: %s", self._log.topic_partition, error)

    def start(self, *, keep: bool = False) -> TreeAdvance | None:
        """Begin an advance; None when nothing is to be done, or one is under way. ``keep``: make the leaves durable.

        Raises StorageError: it may be tried again.
        """
        if self._under_way is not None:
            return None
        if self._head is None and self.failure is None:
            self.load()
        if self.head is None or not (self.is_behind or (keep and self.has_unkept)):
            return None
        spans: list[Span] = []
        end_offset = self._log.recovery_point
        if self.is_behind:
            try:
                spans = open_spans(self._disk, self._segments, self.head.next_offset, end_offset, _ADVANCE_BYTES_MAX)
            except CorruptBatchError as error:
                self._fail(error)
                return None
        self._under_way = TreeAdvance(self._files, self.head, spans, end_offset, keep=keep)
        return self._under_way

    def finish(self, advance: TreeAdvance) -> None:
        """Take note of how an advance ended."""
        assert advance is self._under_way, "an advance ends once, and one at a time"
        self._under_way = None
        before = self._head
        if isinstance(advance.error, CorruptBatchError | DamagedTreeError):
            self._fail(advance.error)
        if advance.error is not None:
            # The disk may have dropped what was written: go on from the durable state, and write it again.
            self._head, self._covered_to = None, 0
            self._files.forget_unsynced()
            return
        self._head = advance.head
        is_at_end = advance.head == before or advance.head.next_offset >= advance.end_offset
        self._covered_to = advance.end_offset if is_at_end else advance.head.next_offset
        if advance.kept is not None:
            self.kept_offset, self.kept_size = advance.kept, advance.head.size
            self._log.needs_checkpoint = True  # segments may have waited for it

    def advance(self, *, keep: bool = False) -> None:
        """All steps at once, up to the durable end, for those who may wait. Raises MainstemError."""
        while (step := self.start(keep=keep)) is not None:
            step.run(self._log.topic_partition.partition)
            self.finish(step)
            if step.error is not None:
                raise step.error

    # What others read

    def read(self, tile: Tile) -> TileRead:
        """A read of a tile that the tree has, or of a bundle; ``run`` it in any thread.

        Raises StorageError, CorruptBatchError.
        """
        head = self._served((tile.first + tile.width) << (TILE_HEIGHT * max(tile.level, 0)))
        if tile.level != ENTRIES:
            return TileRead(self._files, head, tile)
        entries = self._files.entries(tile.first, tile.first + tile.width)
        leaves = [decode_leaf(entry) for entry in entries]
        if self._log.config.is_compacted:
            return TileRead(self._files, head, tile, entries)
        stored = [at for at, leaf in enumerate(leaves) if leaf.base_offset >= self._segments[0].base_offset]
        spans: Sequence[Span] = ()
        if stored:
            end_offset = leaves[-1].last_offset + 1
            spans = open_spans(self._disk, self._segments, leaves[stored[0]].base_offset, end_offset)
        return TileRead(self._files, head, tile, entries, spans, len(stored))

    def find(self, offset: int) -> FoundLeaf | None:
        """The leaf of the batch that holds ``offset``, or of the next one. Raises StorageError."""
        size = self.require_head().size
        index = self._files.find(offset, size)
        return FoundLeaf(index, self._files.entries(index, index + 1)[0]) if index < size else None

    def _served(self, size: int) -> TreeHead:
        """The head of a tree of ``size`` leaves at least: a failed write may have taken it while a read waited."""
        head = self.require_head()
        if head.size < size:
            raise StorageError(f"the tree of {self._log.topic_partition} cannot be read now: try again later")
        return head


class FoundLeaf(NamedTuple):
    """A leaf, and its index in the log."""

    leaf_index: int
    entry: bytes


class TileRead:
    """A read of one tile. Of a bundle the last ``stored`` entries are compared with the batches of ``spans``.

    So a check of a served log is a check of the stored batches, and not only of what was kept of them.
    """

    def __init__(
        self,
        files: TreeFiles,
        head: TreeHead,
        tile: Tile,
        entries: Sequence[bytes] = (),
        spans: Sequence[Span] = (),
        stored: int = 0,
    ) -> None:
        self._files = files
        self._head = head
        self._tile = tile
        self._entries = entries
        self._spans = spans
        self._stored = stored

    def run(self) -> bytes:
        """The bytes. Raises StorageError for a damaged tree, CorruptBatchError for batches that were changed."""
        if self._tile.level != ENTRIES:
            return self._files.tile(self._tile, self._head.size, self._head.root)
        if self._spans:
            self._compare()
        return encode_bundle(self._entries)

    def _compare(self) -> None:
        expected = self._entries[-self._stored :]
        leaves = [decode_leaf(entry) for entry in expected]
        try:
            found = [
                entry_of(leaves[0].partition, header, batch)
                for header, batch in read_batches(self._spans, leaves[-1].last_offset + 1)
            ]
        finally:
            close_spans(self._spans)
        for at, leaf in enumerate(leaves):
            if at >= len(found) or found[at] != expected[at]:
                raise CorruptBatchError(
                    f"the batch at offset {leaf.base_offset} is not the one that its leaf names: the stored log was "
                    "changed; restore it from a backup"
                )
        if len(found) > len(leaves):
            raise CorruptBatchError(f"there are batches after offset {leaves[0].base_offset} that have no leaf")
