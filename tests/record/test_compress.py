from __future__ import annotations

import gzip
import random

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import CorruptBatchError
from mainstem.record.compress import compress, decompress
from mainstem.record.constants import Compression
from tests.record.batches import CODECS, repeatable

REAL_CODECS = CODECS[1:]
_noise = random.Random(7).randbytes(200_000)


@repeatable
@given(data=st.binary(max_size=2000), codec=st.sampled_from(CODECS))
def test_what_was_compressed_comes_back(data: bytes, codec: Compression) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [_noise, _noise[:1000] * 300, bytes(3_000_000)], ids=["noise", "text", "zeros"])
def test_several_blocks_come_back(codec: Compression, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_no_more_than_the_limit_is_taken(codec: Compression) -> None:
    bomb = compress(codec, bytes(10_000_000))
    with pytest.raises(CorruptBatchError, match="limit of 1000000"):
        decompress(codec, bomb, limit_bytes=1_000_000)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_exactly_the_limit_is_allowed(codec: Compression) -> None:
    assert len(decompress(codec, compress(codec, bytes(100_000)), limit_bytes=100_000)) == 100_000


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("keep", [0, 1, 4, 8, 9, 15, 17, 20, 40])
def test_data_that_is_cut_off_is_refused(codec: Compression, keep: int) -> None:
    whole = bytes(compress(codec, _noise[:300]))
    with pytest.raises(CorruptBatchError):
        decompress(codec, whole[:keep])


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_nonsense_is_refused(codec: Compression) -> None:
    with pytest.raises(CorruptBatchError):
        decompress(codec, b"\xff" * 100)


def test_a_raw_snappy_block_is_read_as_librdkafka_writes_it() -> None:
    assert bytes(decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(_noise)))) == _noise


def test_a_snappy_block_that_claims_more_than_it_can_hold_takes_no_memory() -> None:
    claim = bytes.fromhex("80808040") + b"x"  # 134 million bytes out of five
    with pytest.raises(CorruptBatchError, match="claims 134217728"):
        decompress(Compression.SNAPPY, claim)


@pytest.mark.parametrize("size", [-1, 0, 1000, 2**31 - 1])
def test_a_xerial_block_of_a_wrong_size_is_refused(size: int) -> None:
    data = bytes(compress(Compression.SNAPPY, b"abc"))
    wrong = data[:16] + size.to_bytes(4, "big", signed=True) + data[20:]
    with pytest.raises(CorruptBatchError, match="snappy block"):
        decompress(Compression.SNAPPY, wrong)


def test_gzip_of_several_members_is_read_whole() -> None:
    assert bytes(decompress(Compression.GZIP, gzip.compress(b"one ") + gzip.compress(b"two"))) == b"one two"


def test_a_frame_that_tells_its_size_is_read_at_once() -> None:
    data = bytes(700_000)
    for codec, frame in (
        (Compression.ZSTD, cramjam.zstd.compress(data)),
        (Compression.LZ4, cramjam.lz4.compress(data)),
    ):
        assert bytes(decompress(codec, bytes(frame))) == data


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("codec", CODECS)
def test_any_buffer_will_do(kind: type, codec: Compression) -> None:
    assert bytes(decompress(codec, kind(bytes(compress(codec, kind(b"some data")))))) == b"some data"
