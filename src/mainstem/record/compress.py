"""Kafka's four codecs over cramjam, in the framing that Kafka's own clients read and write.

* gzip: one or more members. * snappy: written in xerial's framing, as Java does; read in it or as one raw block, as
librdkafka writes it. * lz4: frames of independent 64 KiB blocks (Java refuses linked ones, which is what cramjam's own
frame writer makes). * zstd: one frame.

Invariant: ``decompress`` never takes memory for more than ``limit_bytes`` of output, whatever the input claims.
Pure functions; safe from any thread.
"""

from __future__ import annotations

import struct

import cramjam

from mainstem.errors import CorruptBatchError
from mainstem.record.constants import DECOMPRESSED_BYTES_MAX, Buffer, Compression

GZIP_DEFAULT_LEVEL = -1
ZSTD_DEFAULT_LEVEL = 3

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT32 = struct.Struct(">i")

# Magic, version 1 with independent blocks and no checksums (the batch has its own), 64 KiB blocks, and the header's
# checksum, which is the second byte of the XXH32 of the two bytes before it.
_LZ4_FRAME_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED_BIT = 1 << 31
_LZ4_END_MARK = bytes(4)
_UINT32_LE = struct.Struct("<I")

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LZ4_CONTENT_SIZE_BIT = 0x08

# A snappy element of three bytes makes at most 64 bytes.
_SNAPPY_RATIO_MAX = 32
# What cramjam says when the output buffer is full; every other error means bad input.
_OUTPUT_FULL = "failed to write whole buffer"
_FIRST_GUESS_BYTES_MIN = 64 * 1024


class DecompressedSizeError(CorruptBatchError):
    """Data that would exceed the caller's limit; it may be valid."""


def compress(codec: Compression, data: Buffer, *, level: int | None = None) -> Buffer:
    """Compress ``data``; NONE returns it as it is. ``level`` is gzip's or zstd's; None is Kafka's default of it."""
    if codec is Compression.NONE:
        return data
    if codec is Compression.GZIP:
        return memoryview(cramjam.gzip.compress(data, level=None if level == GZIP_DEFAULT_LEVEL else level))
    if codec is Compression.SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec is Compression.LZ4:
        return _compress_lz4_frame(memoryview(data))
    return memoryview(cramjam.zstd.compress(data, ZSTD_DEFAULT_LEVEL if level is None else level))


def decompress(codec: Compression, data: Buffer, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """Decompress ``data``; NONE returns it as it is.

    Raises CorruptBatchError when it cannot be decompressed, DecompressedSizeError when it would exceed
    ``limit_bytes``.
    """
    if codec is Compression.NONE:
        return data
    try:
        if codec is Compression.SNAPPY:
            return _decompress_snappy(memoryview(data), limit_bytes)
        return _decompress_bounded(codec, memoryview(data), limit_bytes)
    except cramjam.DecompressionError as error:
        raise CorruptBatchError(f"{codec.name.lower()} data cannot be decompressed: {error}") from error


def _compress_xerial(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _compress_lz4_frame(data: memoryview) -> bytes:
    parts = [_LZ4_FRAME_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_UINT32_LE.pack(len(block)), block)
        else:
            parts += (_UINT32_LE.pack(len(plain) | _LZ4_STORED_BIT), bytes(plain))
    parts.append(_LZ4_END_MARK)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit_bytes: int) -> bytearray:
    output = bytearray()
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, 0, limit_bytes)
    at = len(_XERIAL_HEADER)
    if len(data) < at:
        raise CorruptBatchError("snappy data is cut off in its header")
    while at < len(data):
        if len(data) - at < _INT32.size:
            raise CorruptBatchError("snappy data is cut off between its blocks")
        (size,) = _INT32.unpack_from(data, at)
        at += _INT32.size
        if not 0 < size <= len(data) - at:
            raise CorruptBatchError(f"a snappy block of {size} bytes, where {len(data) - at} are left")
        output += _decompress_snappy_block(data[at : at + size], len(output), limit_bytes)
        at += size
    return output


def _decompress_snappy_block(block: memoryview, before_bytes: int, limit_bytes: int) -> bytearray:
    size = cramjam.snappy.decompress_raw_len(block)
    if before_bytes + size > limit_bytes:
        raise DecompressedSizeError(f"snappy data would exceed the limit of {limit_bytes} bytes")
    if size > len(block) * _SNAPPY_RATIO_MAX:
        raise CorruptBatchError(f"a snappy block of {len(block)} bytes claims {size}")
    output = bytearray(size)
    cramjam.snappy.decompress_raw_into(block, output)
    return output


def _decompress_bounded(codec: Compression, data: memoryview, limit_bytes: int) -> bytearray:
    """Decompress into a buffer of bounded size, and again into a larger one while it proves too small.

    Only zstd and lz4 may say their size, and nothing makes them tell the truth, so it is a hint.
    """
    decompress_into = {
        Compression.GZIP: cramjam.gzip.decompress_into,
        Compression.LZ4: cramjam.lz4.decompress_into,
        Compression.ZSTD: cramjam.zstd.decompress_into,
    }[codec]
    guess = max(4 * len(data), min(_size_hint(codec, data), 64 * len(data)), _FIRST_GUESS_BYTES_MIN)
    while True:
        output = bytearray(min(guess, limit_bytes))
        try:
            size = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise
            if guess >= limit_bytes:
                raise DecompressedSizeError(
                    f"{codec.name.lower()} data would exceed the limit of {limit_bytes} bytes"
                ) from error
            del output  # before the larger one is made
            guess *= 4
        else:
            del output[size:]
            return output


def _size_hint(codec: Compression, data: memoryview) -> int:
    """The decompressed size that the data claims, 0 when it claims none."""
    if codec is Compression.GZIP:
        return int.from_bytes(data[-4:], "little")
    if codec is Compression.LZ4 and len(data) >= 14 and data[4] & _LZ4_CONTENT_SIZE_BIT:
        return int.from_bytes(data[6:14], "little")
    if codec is Compression.ZSTD and len(data) >= 18 and data[:4] == _ZSTD_MAGIC:
        descriptor = data[4]
        single_segment = descriptor >> 5 & 1
        field_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
        at = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
        return int.from_bytes(data[at : at + field_bytes], "little") + (256 if field_bytes == 2 else 0)
    return 0
