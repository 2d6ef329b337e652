"""tlog-tiles: the resources of a log by their paths, and a tree's hashes as its tiles have them.

A *tile* has the hashes of up to 256 subtrees side by side; a hash of level L + 1 covers a full tile of level L. A
*bundle* has the entries of up to 256 leaves. The last tile of a level is partial: its path says how wide it is.

Pure, but for ``TileTree``, which fetches tiles through a function, and belongs to one thread.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from mainstem.errors import InputError, ProofError
from mainstem.tlog.merkle import HASH_BYTES, complete_root

TILE_WIDTH: Final = 256
TILE_HEIGHT: Final = 8
LEVEL_MAX: Final = 63
ENTRIES: Final = -1
"""The level of bundles: they lie below the leaves' hashes."""
CHECKPOINT: Final = "checkpoint"
_PATH = re.compile(r"tile/(0|[1-9]\d?|entries)/((?:x\d{3}/){0,5}\d{3})(?:\.p/([1-9]\d{0,2}))?")
_LENGTH = struct.Struct(">H")


class Tile(NamedTuple):
    """A tile, or with the level ``ENTRIES`` a bundle; ``width`` of its hashes or entries."""

    level: int
    number: int
    width: int = TILE_WIDTH

    @property
    def path(self) -> str:
        """The path below the log's prefix."""
        level = "entries" if self.level == ENTRIES else str(self.level)
        groups, rest = [f"{self.number % 1000:03d}"], self.number // 1000
        while rest:
            groups.append(f"x{rest % 1000:03d}")
            rest //= 1000
        partial = "" if self.width == TILE_WIDTH else f".p/{self.width}"
        return f"tile/{level}/{'/'.join(reversed(groups))}{partial}"

    @property
    def first(self) -> int:
        """The number, on its level, of its first hash or entry."""
        return self.number * TILE_WIDTH

    def exists_in(self, size: int) -> bool:
        """Whether a tree of ``size`` leaves has so much of it."""
        return self.first + self.width <= count_at(max(self.level, 0), size)


def parse_tile(path: str) -> Tile:
    """The tile that a path names. Raises InputError."""
    match = _PATH.fullmatch(path)
    level = -2 if match is None else ENTRIES if match[1] == "entries" else int(match[1])
    width = TILE_WIDTH if match is None or match[3] is None else int(match[3])
    tile = Tile(level, 0 if match is None else int(match[2].replace("/", "").replace("x", "")), width)
    if match is None or level > LEVEL_MAX or tile.path != path:
        raise InputError(
            f"invalid path in a verifiable log {path[:100]!r}: use checkpoint, tile/LEVEL/INDEX or tile/entries/INDEX, "
            "with .p/WIDTH for a partial tile, such as tile/0/x001/234.p/17"
        )
    return tile


def count_at(level: int, size: int) -> int:
    """How many hashes a level of tiles has in a tree of ``size`` leaves."""
    return size >> (TILE_HEIGHT * level)


def tile_in(level: int, index: int, size: int) -> Tile:
    """The tile ``index`` of a level, as wide as a tree of ``size`` leaves has it."""
    return Tile(level, index, min(TILE_WIDTH, count_at(max(level, 0), size) - index * TILE_WIDTH))


def encode_bundle(entries: Iterable[bytes]) -> bytes:
    """The bytes of a bundle."""
    return b"".join(_LENGTH.pack(len(entry)) + entry for entry in entries)


def decode_bundle(data: bytes) -> list[bytes]:
    """The entries of a bundle. Raises ProofError."""
    entries, at = [], 0
    while at < len(data):
        length = _LENGTH.unpack_from(data, at)[0] if at + _LENGTH.size <= len(data) else len(data)
        at += _LENGTH.size + length
        if at > len(data):
            raise ProofError("an entry bundle ends in the middle of an entry")
        entries.append(data[at - length : at])
    return entries


class TileTree:
    """The subtrees of a tree of ``size`` leaves, from its tiles: a ``NodeReader`` by its method ``node``."""

    def __init__(self, size: int, fetch: Callable[[Tile], bytes]) -> None:
        """``fetch`` returns the bytes of a tile; it may raise errors of its own."""
        self.size = size
        self._fetch = fetch
        self._tiles: dict[Tile, bytes] = {}

    def node(self, height: int, index: int) -> bytes:
        """The hash of a complete subtree. Raises ProofError for a tile of a wrong length."""
        level, rest = divmod(height, TILE_HEIGHT)
        count = 1 << rest
        first = index * count
        tile = tile_in(level, first // TILE_WIDTH, self.size)
        data, at = self._tile(tile), (first - tile.first) * HASH_BYTES
        return complete_root([data[at + HASH_BYTES * each :][:HASH_BYTES] for each in range(count)])

    def _tile(self, tile: Tile) -> bytes:
        data = self._tiles.get(tile)
        if data is None:
            data = self._tiles[tile] = bytes(self._fetch(tile))
            if len(data) != tile.width * HASH_BYTES:
                raise ProofError(f"{tile.path} has {len(data)} bytes, {tile.width * HASH_BYTES} are expected")
        return data
