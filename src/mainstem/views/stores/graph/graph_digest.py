"""The digest of a graph view, such that it can be kept up to date from what a batch changes alone.

Two sums modulo 2^256: of the hash of each record with its edge, and of the hash of each edge times the number of its
records. The second is linear, so a change of an edge's number is enough to carry it on. Hashes are BLAKE2s: the same in
any process and any version and, with no parameters, three times as fast to make in Python as a short BLAKE2b. Pure
functions; safe from any thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2s

from mainstem.views.stores.store import Digest

_MODULUS = 1 << 256
_HASH_BYTES = 8
NO_EDGE = bytes(_HASH_BYTES)
"""In place of the hash of an edge that someone has deleted under its records."""


def edge_hash(source: str, target: str) -> bytes:
    """The hash of an edge; the length of its source is hashed too, so that the two names cannot run together."""
    name = source.encode()
    return blake2s(len(name).to_bytes(8, "big") + name + target.encode()).digest()[:_HASH_BYTES]


def record_term(key: str, edge: bytes) -> int:
    """The term in the sum of a record that supports the edge with that hash."""
    return int.from_bytes(blake2s(edge + key.encode()).digest(), "big")


def edge_term(edge: bytes, records: int) -> int:
    """The term of an edge with so many records; for a difference of records, the change of the sum."""
    return int.from_bytes(edge, "big") * records


def summed(before: Digest, entries: int, terms: Iterable[int]) -> Digest:
    """``before`` with more (or fewer) entries and terms."""
    return Digest(before.entries + entries, (before.checksum + sum(terms)) % _MODULUS)
