"""The record batch on the wire and on disk, as numbers: field positions, sizes, attribute bits, codec ids.

Every multi-byte field is big-endian. Positions count from the first byte of the batch. What each field means, and what
the checksum covers, is in docs/internals/record-format.md.
"""

from __future__ import annotations

import mmap
from enum import IntEnum
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
"""The bytes that every function of this package takes: contiguous, read in place, never kept after the call."""

MAGIC = 2

BASE_OFFSET_AT = 0
BATCH_LENGTH_AT = 8
LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
PRODUCER_EPOCH_AT = 51
BASE_SEQUENCE_AT = 53
RECORD_COUNT_AT = 57
RECORDS_AT = 61

LENGTH_PREFIX = 12
"""Base offset and batch length: the bytes that ``batch_length`` does not count."""
HEADER_BYTES = 61
"""A whole batch header; the records follow."""
STAMPED_BYTES = 16
"""Base offset, batch length and leader epoch: a broker overwrites them, and the checksum does not cover them."""
CRC_COVERS_FROM = ATTRIBUTES_AT
"""The CRC32C covers the batch from here to its end."""
BATCH_LENGTH_MIN = HEADER_BYTES - LENGTH_PREFIX
RECORD_BYTES_MIN = 7
"""An empty record: six one-byte varints and the attributes. Bounds the record count of a given number of bytes."""

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""How much one batch may decompress to, unless the caller sets another limit."""


class Compression(IntEnum):
    """The codec ids in the low three bits of ``attributes``."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class ControlType(IntEnum):
    """The type in a control record's key: how a transaction ended."""

    ABORT = 0
    COMMIT = 1


MAX_BATCH_BYTES = 1024 * 1024
"""Just under what brokers take by default (``max.message.bytes`` = 1,048,588)."""
