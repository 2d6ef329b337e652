"""RFC 9162's tree: the known roots of its reference tests, and proofs of every leaf and every prefix."""

from __future__ import annotations

import pytest

from mainstem.errors import ProofError
from mainstem.tlog.merkle import (
    EMPTY_ROOT,
    complete_root,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)

_INPUTS = [bytes.fromhex(each) for each in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")]
_INPUTS.append(bytes(range(0x60, 0x70)))
_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""The roots of the first 1 to 8 inputs, as Certificate Transparency's reference tests have them."""
_HASHES = [leaf_hash(b"leaf %d" % number) for number in range(70)]


def node(height: int, index: int) -> bytes:
    return complete_root(_HASHES[index << height : (index + 1) << height])


def slow_root(hashes: list[bytes]) -> bytes:
    """The definition, word by word."""
    if not hashes:
        return EMPTY_ROOT
    if len(hashes) == 1:
        return hashes[0]
    split = 1
    while split * 2 < len(hashes):
        split *= 2
    return node_hash(slow_root(hashes[:split]), slow_root(hashes[split:]))


@pytest.mark.parametrize("size", range(1, 9))
def test_the_roots_of_the_reference_tests(size: int) -> None:
    hashes = [leaf_hash(each) for each in _INPUTS[:size]]
    read = root_of(size, lambda height, index: complete_root(hashes[index << height : (index + 1) << height]))
    assert read.hex() == _ROOTS[size - 1]


@pytest.mark.parametrize("size", range(70))
def test_a_root_is_that_of_the_definition(size: int) -> None:
    assert root_of(size, node) == slow_root(_HASHES[:size])


@pytest.mark.parametrize("size", [*range(1, 34), 64, 65, 70])
def test_every_leaf_has_a_proof_and_no_other_place_or_tree_takes_it(size: int) -> None:
    root = slow_root(_HASHES[:size])
    for index in range(size):
        proof = inclusion_proof(index, size, node)
        verify_inclusion(_HASHES[index], index, size, proof, root)
        wrong = [
            (_HASHES[index], index + 1, size, proof, root),
            (_HASHES[index], index, size, [*proof, root], root),
            (_HASHES[index], index, size, proof, EMPTY_ROOT),
            (_HASHES[index - 1] if size > 1 else EMPTY_ROOT, index, size, proof, root),
        ]
        wrong += [(_HASHES[index], index, size, proof[:-1], root)] if proof else []
        for arguments in wrong:
            with pytest.raises(ProofError):
                verify_inclusion(*arguments)


@pytest.mark.parametrize("second", [*range(1, 20), 64, 65, 70])
def test_every_prefix_has_a_proof_and_a_changed_one_has_none(second: int) -> None:
    root = slow_root(_HASHES[:second])
    for first in range(second + 1):
        before = slow_root(_HASHES[:first])
        proof = consistency_proof(first, second, node)
        verify_consistency(first, second, proof, before, root)
        changed = slow_root([leaf_hash(b"other"), *_HASHES[1:first]])
        for arguments in [(first, second, [*proof, root], before, root), (first, second, proof, changed, root)]:
            with pytest.raises(ProofError):
                verify_consistency(*arguments)


def test_a_tree_that_has_shrunk_is_refused() -> None:
    with pytest.raises(ProofError, match="it had 5 leaves and has 4"):
        verify_consistency(5, 4, [], slow_root(_HASHES[:5]), slow_root(_HASHES[:4]))
