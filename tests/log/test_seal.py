from __future__ import annotations

import pytest

from mainstem.log.segments.index_checksums import IndexChecksums, decode_seal, encode_seal

SEAL = IndexChecksums(100, 140, 5000, 150, 4000, 0xDEADBEEF, 1_700_000_000_000, 149, 77, 8, 1, 12, 2, 0, 0)


def test_a_seal_is_read_back() -> None:
    assert decode_seal(encode_seal(SEAL)) == SEAL


def test_no_file_is_no_seal() -> None:
    assert decode_seal(None) is None


@pytest.mark.parametrize("length", [0, 3, 10, 50])
def test_a_seal_that_was_cut_off_is_none(length: int) -> None:
    assert decode_seal(encode_seal(SEAL)[:length]) is None


def test_a_seal_with_any_bit_flipped_is_none() -> None:
    data = encode_seal(SEAL)
    for at in range(len(data) * 8):
        rotten = bytearray(data)
        rotten[at // 8] ^= 1 << at % 8
        assert decode_seal(bytes(rotten)) is None


def test_a_seal_with_bytes_behind_it_is_none() -> None:
    assert decode_seal(encode_seal(SEAL) + b"\0") is None
