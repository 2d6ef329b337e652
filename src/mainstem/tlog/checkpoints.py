"""Checkpoints (C2SP tlog-checkpoint): the size and the root of a log, in a note that the log has signed.

The origin of a partition's log is ``NAME/TOPIC/TOPIC_ID/PARTITION``: NAME is that of the node's key, and a topic that
was deleted and created again has another id, so it is another log. The key's name in the signature is the origin. A
verifier key of the node, ``NAME+…``, gives the keys of all origins that begin with ``NAME/``: it is the same key.
Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from mainstem.errors import ProofError
from mainstem.model import TopicPartition
from mainstem.tlog.base64_text import decode_base64, encode_base64
from mainstem.tlog.merkle import HASH_BYTES
from mainstem.tlog.notes import SigningKey, VerifierKey, open_note, sign_note

_SIZE = re.compile(rb"0|[1-9]\d{0,18}")
_SIZE_MAX: Final = 2**63


class Checkpoint(NamedTuple):
    """The state of a log: its origin, how many leaves it has, and their root."""

    origin: str
    size: int
    root: bytes

    def text(self) -> bytes:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{encode_base64(self.root)}\n".encode()


def origin_of(name: str, tp: TopicPartition, topic_id: UUID) -> str:
    """The origin of a partition's log under a node's key name."""
    return f"{name}/{tp.topic}/{topic_id}/{tp.partition}"


def sign_checkpoint(checkpoint: Checkpoint, keys: Iterable[SigningKey]) -> bytes:
    """The checkpoint as a note, signed with each key under the name of the origin."""
    return sign_note(checkpoint.text(), [key.named(checkpoint.origin) for key in keys])


def parse_checkpoint(text: bytes) -> Checkpoint:
    """A checkpoint's text, whose signatures were verified before. Raises ProofError."""
    lines = text.split(b"\n")
    try:
        root = decode_base64(lines[2])
    except (IndexError, ProofError):
        root = b""
    if len(lines) < 4 or not all(lines[:-1]) or len(root) != HASH_BYTES or _SIZE.fullmatch(lines[1]) is None:
        raise ProofError("this is not a checkpoint: an origin, a size and a root hash are expected, a line each")
    return Checkpoint(lines[0].decode(), int(lines[1]), root)


def unverified_checkpoint(note: bytes) -> Checkpoint:
    """The checkpoint of a note, without a look at its signatures. Raises ProofError."""
    text, separator, _ = note.rpartition(b"\n\n")
    return parse_checkpoint(text + separator[:1])


def open_checkpoint(note: bytes, keys: Sequence[VerifierKey]) -> Checkpoint:
    """The checkpoint of a note that one of ``keys`` has signed. Raises ProofError.

    A key under the origin's name is tried as it is, a node's key under the names of its partitions.
    """
    origin = unverified_checkpoint(note).origin
    accepted = [key.named(origin) for key in keys if key.name == origin or origin.startswith(f"{key.name}/")]
    if not accepted:
        names = ", ".join(key.name for key in keys)
        raise ProofError(f"the checkpoint is of the log {origin[:300]}, the given key is of {names[:300]}")
    return parse_checkpoint(open_note(note, accepted).text)
