"""How the key index lies in its store. Pure functions. Numbers are big-endian, so that they sort.

    m topic id (16) partition (4)           → _META: the partition's generation, and how far it reaches
    k generation (8) key offset (8)         → leader epoch (4)       one for each record that has a key
    i generation (8) idempotency key        → _REMEMBERED: offset, leader epoch, time of the append

A *generation* is one build of one partition's index: a rebuild writes a new one beside the old one, and the meta entry
says which one it is. A key of up to 64 bytes is its length (1) and itself; a longer one is 255 and its BLAKE2b digest
(32). An entry carries the leader epoch that wrote its record: with the log's own list of epochs it tells an entry of a
record that a power cut took (and whose offset another record has now) from one that holds.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Final, NamedTuple
from uuid import UUID

GENERATIONS: Final = (b"k", b"i")
META: Final = b"m"
AFTER_META: Final = b"n"
_PLAIN_KEY_BYTES_MAX: Final = 64
_DIGEST_BYTES: Final = 32
_DIGEST: Final = b"\xff"
_GENERATION = struct.Struct(">cQ")
_META_KEY = struct.Struct(">c16si")
_META = struct.Struct(">BBQqiq")
_META_VERSION: Final = 1
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_REMEMBERED = struct.Struct(">qiq")

pack_offset = _OFFSET.pack
pack_epoch = _EPOCH.pack
pack_remembered = _REMEMBERED.pack


class IndexMeta(NamedTuple):
    """The state of an index: ``generation`` holds the records before ``position``; the last has ``leader_epoch``.

    ``parts`` are the kinds of its entries; ``start_offset`` is the log start offset when it was built.
    """

    parts: int
    generation: int
    position: int
    leader_epoch: int
    start_offset: int


class Remembered(NamedTuple):
    """The record that an idempotency key belongs to, and when it was appended."""

    offset: int
    leader_epoch: int
    time_ms: int


def meta_key(topic_id: UUID, partition: int) -> bytes:
    """The key of a partition's meta entry."""
    return _META_KEY.pack(META, topic_id.bytes, partition)


def encode_meta(meta: IndexMeta) -> bytes:
    """The meta entry's value."""
    return _META.pack(_META_VERSION, *meta)


def decode_meta(data: bytes | None) -> IndexMeta | None:
    """The meta entry; None for one that is missing, or of another version of this layout."""
    if data is None or len(data) != _META.size or data[0] != _META_VERSION:
        return None
    return IndexMeta._make(_META.unpack(data)[1:])


def generation_prefix(kind: bytes, generation: int) -> bytes:
    """The prefix of all entries of a kind (``k`` or ``i``) of a generation; the next generation's is their end."""
    return _GENERATION.pack(kind, generation)


def generation_of(key: bytes) -> int:
    """The generation that an entry's key belongs to."""
    return int(_GENERATION.unpack_from(key)[1])


def key_part(key: bytes) -> bytes:
    """A record's key as it stands in an entry's: none is the beginning of another."""
    size = len(key)
    if size <= _PLAIN_KEY_BYTES_MAX:
        return bytes((size,)) + key
    return _DIGEST + blake2b(key, digest_size=_DIGEST_BYTES).digest()


def offset_in(entry_key: bytes) -> int:
    """The offset at the end of a ``k`` entry's key."""
    return int(_OFFSET.unpack_from(entry_key, len(entry_key) - _OFFSET.size)[0])


def epoch_in(value: bytes) -> int:
    """The leader epoch that is a ``k`` entry's value."""
    return int(_EPOCH.unpack(value)[0])


def decode_remembered(value: bytes) -> Remembered:
    """Decode the value of an ``i`` entry."""
    return Remembered._make(_REMEMBERED.unpack(value))
