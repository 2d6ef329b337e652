"""Proofs in files (C2SP tlog-proof): that a record batch is in a log, to be verified without a server.

The file has the leaf's index, the inclusion proof and the checkpoint. Its ``extra`` line has what the format leaves to
the application: our leaf entry and, where it was asked for, the batch's bytes after it. Neither is believed: the entry
must lead to the checkpoint's root, and the batch must have the hash that the entry fixes. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mainstem.errors import ProofError
from mainstem.tlog.base64_text import decode_base64, encode_base64
from mainstem.tlog.checkpoints import Checkpoint, open_checkpoint
from mainstem.tlog.leaf import LEAF_BYTES, Leaf, decode_leaf, verify_batch
from mainstem.tlog.merkle import HASH_BYTES, leaf_hash, verify_inclusion
from mainstem.tlog.notes import VerifierKey

_FIRST_LINE: Final = b"c2sp.org/tlog-proof@v1"
_INDEX = re.compile(rb"index (0|[1-9]\d{0,18})")
_HASHES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class BatchProof:
    """A proof as its file has it. ``batch`` is empty where the file was made without the batch's bytes."""

    index: int
    hashes: Sequence[bytes]
    checkpoint: bytes
    entry: bytes
    batch: bytes = b""

    @property
    def leaf(self) -> Leaf:
        """The leaf that the proof is about. Raises ProofError."""
        return decode_leaf(self.entry)

    def encode(self) -> bytes:
        """The file."""
        extra = encode_base64(self.entry + self.batch)
        hashes = "".join(f"{encode_base64(each)}\n" for each in self.hashes)
        head = f"{_FIRST_LINE.decode()}\nextra {extra}\nindex {self.index}\n{hashes}\n"
        return head.encode() + self.checkpoint

    def verify(self, keys: Sequence[VerifierKey], batch: bytes | None = None) -> VerifiedBatch:
        """Verify everything: signature, inclusion, and the batch's bytes (the file's, or ``batch``).

        Raises ProofError.
        """
        checkpoint = open_checkpoint(self.checkpoint, keys)
        leaf = self.leaf
        verify_inclusion(leaf_hash(self.entry), self.index, checkpoint.size, self.hashes, checkpoint.root)
        if checkpoint.origin.rpartition("/")[2] != str(leaf.partition):
            raise ProofError(f"the leaf is of partition {leaf.partition}, the checkpoint of {checkpoint.origin[:300]}")
        data = self.batch if batch is None else batch
        if data:
            verify_batch(leaf, data)
        return VerifiedBatch(checkpoint, self.index, leaf, data)


@dataclass(frozen=True, slots=True)
class VerifiedBatch:
    """The batch that a proof is about. ``batch`` is empty where only its hash is known."""

    checkpoint: Checkpoint
    index: int
    leaf: Leaf
    batch: bytes


def is_proof(data: bytes) -> bool:
    """Whether a file is a proof, by its first line."""
    return data.startswith(_FIRST_LINE + b"\n")


def decode_proof(data: bytes) -> BatchProof:
    """The proof of a file. Raises ProofError."""
    head, separator, checkpoint = data.partition(b"\n\n")
    lines = head.split(b"\n")
    index = _INDEX.fullmatch(lines[2]) if len(lines) > 2 else None
    if not separator or lines[0] != _FIRST_LINE or not lines[1].startswith(b"extra ") or index is None:
        raise ProofError("this is not a proof of a record batch: make one with: mainstem prove TOPIC/PARTITION:OFFSET")
    try:
        extra = decode_base64(lines[1].removeprefix(b"extra "))
        hashes = [decode_base64(line) for line in lines[3:]]
    except ProofError:
        raise ProofError("the proof is damaged: a line is not base64") from None
    if len(hashes) > _HASHES_MAX or any(len(each) != HASH_BYTES for each in hashes) or len(extra) < LEAF_BYTES:
        raise ProofError("the proof is damaged: a hash or the leaf's entry has a wrong length")
    return BatchProof(int(index[1]), hashes, checkpoint, extra[:LEAF_BYTES], extra[LEAF_BYTES:])
