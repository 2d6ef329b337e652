"""The entry of a record batch in a verifiable log: 56 bytes, which name the batch and fix its bytes.

    int32 version (1) · int32 partition · int64 base offset · int64 last offset · SHA-256 of the batch (32 bytes)

All numbers are big-endian. The hash is of the stored batch without the two fields that the log fills in and that its
checksum does not cover: the base offset (the entry has it) and the partition leader epoch (it says which start of the
node wrote the batch). So the bytes under the hash are the batch's length (bytes 8 to 12), then all from the magic
(byte 16) on. Pure functions.
"""

from __future__ import annotations

import struct
from hashlib import sha256
from typing import Final, NamedTuple

from mainstem.errors import CorruptBatchError, ProofError
from mainstem.record.constants import HEADER_BYTES, Buffer
from mainstem.record.header import BatchHeader, read_header, verify

VERSION: Final = 1
_LEAF = struct.Struct(">iiqq32s")
LEAF_BYTES: Final = _LEAF.size
_LENGTH_AT, _EPOCH_AT, _MAGIC_AT = 8, 12, 16


class Leaf(NamedTuple):
    """A leaf's entry, decoded."""

    partition: int
    base_offset: int
    last_offset: int
    batch_sha256: bytes

    def encode(self) -> bytes:
        """The entry's bytes."""
        return _LEAF.pack(VERSION, *self)


def decode_leaf(entry: bytes) -> Leaf:
    """The leaf of an entry. Raises ProofError."""
    if len(entry) != LEAF_BYTES or entry[:4] != VERSION.to_bytes(4, "big"):
        raise ProofError("the entry is not one of a record batch: 56 bytes that begin with version 1 are expected")
    return Leaf(*_LEAF.unpack(entry)[1:])


def batch_digest(batch: Buffer) -> bytes:
    """The SHA-256 of a batch's bytes without the fields that the log fills in."""
    view = memoryview(batch)
    digest = sha256(view[_LENGTH_AT:_EPOCH_AT])
    digest.update(view[_MAGIC_AT:])
    return digest.digest()


def entry_of(partition: int, header: BatchHeader, batch: Buffer) -> bytes:
    """The entry of a batch that was proven before."""
    return _LEAF.pack(VERSION, partition, header.base_offset, header.last_offset, batch_digest(batch))


def verify_batch(leaf: Leaf, batch: bytes) -> None:
    """Verify that these are the bytes of the leaf's batch. Raises ProofError."""
    try:
        if len(batch) < HEADER_BYTES:
            raise ProofError(f"the batch has {len(batch)} bytes: that is not a whole one")
        header = read_header(batch)
        verify(batch, 0, header)
    except CorruptBatchError as error:
        raise ProofError(f"the batch is damaged: {error}") from error
    if header.size_bytes != len(batch):
        raise ProofError("there are bytes after the end of the batch")
    if (header.base_offset, header.last_offset) != (leaf.base_offset, leaf.last_offset):
        raise ProofError(
            f"the batch has the offsets {header.base_offset} to {header.last_offset}, "
            f"its leaf names {leaf.base_offset} to {leaf.last_offset}"
        )
    if batch_digest(batch) != leaf.batch_sha256:
        raise ProofError("the batch has other bytes than those that its leaf fixes")
