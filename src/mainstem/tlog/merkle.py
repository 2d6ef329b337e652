"""The Merkle tree of RFC 9162 (section 2.1), over SHA-256: hashes, inclusion proofs, consistency proofs.

A proof is made from a ``NodeReader``, which knows the hash of each complete subtree; so a tree of any size costs a few
dozen hashes. A proof is verified from its hashes alone. Pure functions; ``verify_…`` raise ProofError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final, TypeAlias

from mainstem.errors import ProofError

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = sha256(b"").digest()

NodeReader: TypeAlias = "Callable[[int, int], bytes]"
"""``(height, index)`` → the hash of the subtree over the leaves ``[index << height, (index + 1) << height)``."""


def leaf_hash(entry: bytes) -> bytes:
    """The hash of a leaf."""
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of two subtrees side by side."""
    return sha256(b"\x01" + left + right).digest()


def complete_root(hashes: Sequence[bytes]) -> bytes:
    """The root over the hashes of a complete subtree: their number is a power of two."""
    level = list(hashes)
    while len(level) > 1:
        level = [node_hash(level[at], level[at + 1]) for at in range(0, len(level), 2)]
    return level[0]


def root_of(size: int, node: NodeReader) -> bytes:
    """The root of the tree of ``size`` leaves."""
    return _range_hash(0, size, node) if size else EMPTY_ROOT


def inclusion_proof(index: int, size: int, node: NodeReader) -> list[bytes]:
    """The proof that the leaf ``index`` is in the tree of ``size`` leaves: from the leaf's sibling up."""
    assert 0 <= index < size
    proof: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            proof.append(_range_hash(middle, end, node))
            end = middle
        else:
            proof.append(_range_hash(start, middle, node))
            start = middle
    return proof[::-1]


def consistency_proof(first: int, second: int, node: NodeReader) -> list[bytes]:
    """The proof that the tree of ``first`` leaves is the beginning of the tree of ``second`` leaves."""
    assert 0 <= first <= second
    if first in (0, second):
        return []
    proof: list[bytes] = []
    start, end = 0, second
    while end != first:
        middle = start + _split(end - start)
        if first <= middle:
            proof.append(_range_hash(middle, end, node))
            end = middle
        else:
            proof.append(_range_hash(start, middle, node))
            start = middle
    if start != 0:  # else the verifier knows this hash: it is the first tree's root
        proof.append(_range_hash(start, end, node))
    return proof[::-1]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Verify that the leaf with the hash ``leaf`` is in the tree (RFC 9162, 2.1.3.2). Raises ProofError."""
    if not 0 <= index < size:
        raise ProofError(f"the leaf {index} is not in a tree of {size} leaves")
    if any(len(each) != HASH_BYTES for each in (leaf, root, *proof)):
        raise ProofError(f"a hash has not {HASH_BYTES} bytes")
    node, last, found = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise ProofError("the inclusion proof has too many hashes")
        if node & 1 or node == last:
            found = node_hash(sibling, found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    if last != 0:
        raise ProofError("the inclusion proof has too few hashes")
    if found != root:
        raise ProofError("the inclusion proof leads to another root than the checkpoint's")


def verify_consistency(first: int, second: int, proof: Sequence[bytes], first_root: bytes, second_root: bytes) -> None:
    """Verify that the first tree is the beginning of the second one (RFC 9162, 2.1.4.2). Raises ProofError."""
    if first > second:
        raise ProofError(f"the tree has shrunk: it had {first} leaves and has {second}")
    if first in (0, second):  # every tree continues the empty one, whose root is known
        if proof:
            raise ProofError("the consistency proof must be empty here")
        if first_root != (second_root if first == second else EMPTY_ROOT):
            raise ProofError("two trees of the same size have different roots: the history was changed")
        return
    if not proof:
        raise ProofError("the consistency proof has too few hashes")
    hashes = list(proof) if first & (first - 1) else [first_root, *proof]
    node, last = first - 1, second - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = hashes[0]
    for each in hashes[1:]:
        if last == 0:
            raise ProofError("the consistency proof has too many hashes")
        if node & 1 or node == last:
            old, new = node_hash(each, old), node_hash(each, new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            new = node_hash(new, each)
        node, last = node >> 1, last >> 1
    if last != 0:
        raise ProofError("the consistency proof has too few hashes")
    if old != first_root or new != second_root:
        raise ProofError("the second checkpoint does not continue the first one: the history was changed")


def _split(size: int) -> int:
    """The greatest power of two that is less than ``size``."""
    return 1 << ((size - 1).bit_length() - 1)


def _range_hash(start: int, end: int, node: NodeReader) -> bytes:
    """The hash of the leaves [start, end), a range that the tree's splits make."""
    size = end - start
    if size & (size - 1) == 0:
        height = size.bit_length() - 1
        return node(height, start >> height)
    middle = start + _split(size)
    return node_hash(_range_hash(start, middle, node), _range_hash(middle, end, node))
