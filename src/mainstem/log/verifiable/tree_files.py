"""The files of a partition's tree, in the partition's directory:

* ``tree-entries``: the entries of all leaves, 56 bytes each.
* ``tree-hashes-L``: the hashes of level L of the tiles, 32 bytes each: those of the leaves for L = 0, above it those of
  the full tiles below. A tile is a range of its level's file.
* ``tree-state``: size and root, as the text of a checkpoint whose origin is the topic's id and the partition.

Contract: what the first ``size`` leaves of a state need was synced before the state was written, and never changes
afterwards; the bytes after them are leaves that the state does not count yet, or what a crash left of them. So
after a power cut the tree is that of the state. ``load`` proves the right edge of the tree and the last entry against
the state's root; ``tile`` proves each tile that it returns. Damage is a DamagedTreeError that names the file: never a
hash or a root of other leaves.

Concurrency: ``append`` and ``write_state`` by one thread at a time; ``tile`` and ``entries`` by any thread, for a size
that was appended before.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final
from uuid import UUID

from mainstem.durable_files import replace_file
from mainstem.errors import DamagedTreeError, ProofError
from mainstem.log.files.disk import Disk, DiskFile
from mainstem.log.files.small_files import read_file, sync_file
from mainstem.tlog.checkpoints import Checkpoint, parse_checkpoint
from mainstem.tlog.leaf import LEAF_BYTES, Leaf, decode_leaf
from mainstem.tlog.merkle import EMPTY_ROOT, HASH_BYTES, complete_root, leaf_hash, root_of
from mainstem.tlog.tiles import TILE_WIDTH, Tile, TileTree, count_at, tile_in

ENTRIES_FILE: Final = "tree-entries"
HASHES_FILE: Final = "tree-hashes-"
STATE_FILE: Final = "tree-state"
_TILE_BYTES: Final = TILE_WIDTH * HASH_BYTES


class TreeFiles:
    """One partition's."""

    def __init__(self, disk: Disk, directory: PurePath, topic_id: UUID, partition: int) -> None:
        self._disk = disk
        self._directory = directory
        self._origin = f"{topic_id}/{partition}"
        self._partition = partition
        self._names: set[str] | None = None
        self._unsynced: set[str] = set()
        self._has_new_files = False

    # The state

    def begin(self) -> None:
        """Write the state of no leaves, where there is none: the tree will begin with what the log holds.

        Raises StorageError.
        """
        if not any(self._disk.exists(self._directory / name) for name in (STATE_FILE, ENTRIES_FILE)):
            self.write_state(0, EMPTY_ROOT)

    def kept_offset(self) -> int:
        """The end of the batches whose leaves are durable; 0 for a tree that is damaged. Raises StorageError."""
        try:
            state = self.load()
        except DamagedTreeError:
            return 0
        return 0 if state is None or state.size == 0 else self.leaf(state.size - 1).last_offset + 1

    def load(self) -> Checkpoint | None:
        """The durable state, proven; None where there never was one. Raises StorageError."""
        data = read_file(self._disk, self._directory / STATE_FILE)
        if data is None:
            if self._disk.exists(self._directory / ENTRIES_FILE):
                raise self._damaged(STATE_FILE, "it is missing")
            return None
        try:
            state = parse_checkpoint(data)
        except ProofError as error:
            raise self._damaged(STATE_FILE, str(error)) from error
        if state.origin != self._origin:
            raise self._damaged(STATE_FILE, f"it is of {state.origin[:100]}, not of {self._origin}")
        self.prove_edge(state.size, state.root)
        if state.size:
            self.entries(state.size - 1, state.size)
        return state

    def write_state(self, size: int, root: bytes) -> None:
        """Make the tree of ``size`` leaves durable. Raises StorageError: then the former state counts."""
        for name in sorted(self._unsynced):
            sync_file(self._disk, self._directory / name)
        if self._has_new_files:
            self._disk.sync_directory(self._directory)
        self.forget_unsynced()
        text = Checkpoint(self._origin, size, root).text()
        replace_file(self._disk, self._directory / STATE_FILE, text, sync=True)

    def forget_unsynced(self) -> None:
        """Nothing is to be synced: all is, or the leaves are written again."""
        self._unsynced.clear()
        self._has_new_files = False

    # Growing

    def append(self, size: int, entries: Sequence[bytes]) -> None:
        """Write the entries of the leaves from ``size`` on, and all hashes that they make. Raises StorageError."""
        self._write(ENTRIES_FILE, size * LEAF_BYTES, b"".join(entries))
        level, first, hashes = 0, size, [leaf_hash(entry) for entry in entries]
        end = size + len(entries)
        while hashes:
            self._write(f"{HASHES_FILE}{level}", first * HASH_BYTES, b"".join(hashes))
            first, after = count_at(level + 1, size), count_at(level + 1, end)
            hashes = [complete_root(_split(self._stored(Tile(level, index)))) for index in range(first, after)]
            level += 1

    def _write(self, name: str, file_position: int, data: bytes) -> None:
        path = self._directory / name
        if self._names is None:
            self._names = set(self._disk.list(self._directory))
        if name in self._names:
            file = self._disk.open(path)
        else:
            file = self._disk.create(path)
            self._names.add(name)
            self._has_new_files = True
        try:
            self._unsynced.add(name)
            file.write(file_position, [data])
        finally:
            file.close()

    # Reading

    def root(self, size: int) -> bytes:
        """The root of the first ``size`` leaves. Raises StorageError for files that are too short."""
        try:
            return root_of(size, TileTree(size, self._stored).node)
        except ProofError as error:
            raise self._damaged(f"{HASHES_FILE}*", str(error)) from error

    def prove_edge(self, size: int, root: bytes) -> None:
        """Prove that the tiles at the right edge lead to ``root``. Raises StorageError."""
        if self.root(size) != root:
            raise self._damaged(f"{HASHES_FILE}*", f"the root of {size} leaves is not the one that was computed")

    def tile(self, tile: Tile, size: int, root: bytes) -> bytes:
        """The bytes of a tile of hashes, proven by the tree of ``size`` leaves with this root. Raises StorageError."""
        whole = tile_in(tile.level, tile.number, size)
        data = self._stored(whole)
        if whole.width < TILE_WIDTH:
            self.prove_edge(size, root)
        else:
            parent = self._read(f"{HASHES_FILE}{tile.level + 1}", tile.number * HASH_BYTES, HASH_BYTES)
            if len(data) != _TILE_BYTES or complete_root(_split(data)) != parent:
                raise self._damaged(f"{HASHES_FILE}{tile.level}", f"the tile {tile.number} has not the hash above it")
        return data[: tile.width * HASH_BYTES]

    def entries(self, start: int, end: int) -> list[bytes]:
        """The entries of the leaves [start, end), each proven by its hash. Raises StorageError."""
        data = self._read(ENTRIES_FILE, start * LEAF_BYTES, (end - start) * LEAF_BYTES)
        hashes = self._read(f"{HASHES_FILE}0", start * HASH_BYTES, (end - start) * HASH_BYTES)
        found = [data[at : at + LEAF_BYTES] for at in range(0, (end - start) * LEAF_BYTES, LEAF_BYTES)]
        for index, (entry, expected) in enumerate(zip(found, _split(hashes), strict=False), start):
            if leaf_hash(entry) != expected:
                raise self._damaged(ENTRIES_FILE, f"the entry of leaf {index} has not the hash of the leaf")
        if len(hashes) != (end - start) * HASH_BYTES:
            raise self._damaged(f"{HASHES_FILE}0", "it is too short")
        return found

    def verify(self) -> None:
        """Prove all of the durable tree: state, tiles and entries. Raises StorageError at the first damage."""
        state = self.load()
        level = 0
        while state is not None and (count := count_at(level, state.size)) > 0:
            for number in range(-(-count // TILE_WIDTH)):
                tile = tile_in(level, number, state.size)
                self.tile(tile, state.size, state.root)
                if level == 0:
                    self.entries(tile.first, tile.first + tile.width)
            level += 1

    def leaf(self, index: int) -> Leaf:
        """One leaf, proven by its hash. Raises StorageError."""
        return decode_leaf(self.entries(index, index + 1)[0])

    def find(self, offset: int, size: int) -> int:
        """The first of ``size`` leaves that ends at or after ``offset``; ``size`` when there is none.

        Raises StorageError.
        """
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            if self.leaf(middle).last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _stored(self, tile: Tile) -> bytes:
        return self._read(f"{HASHES_FILE}{tile.level}", tile.first * HASH_BYTES, tile.width * HASH_BYTES)

    def _read(self, name: str, file_position: int, length: int) -> bytes:
        path = self._directory / name
        if not self._disk.exists(path):
            return b""
        file: DiskFile = self._disk.open(path)
        try:
            return file.read(file_position, length)
        finally:
            file.close()

    def _damaged(self, name: str, problem: str) -> DamagedTreeError:
        return DamagedTreeError(
            f"the tree of {self._directory.name} is damaged, {name}: {problem}; it signs nothing until the files are "
            "as they were: restore them from a backup"
        )


def _split(data: bytes) -> list[bytes]:
    return [data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)]
