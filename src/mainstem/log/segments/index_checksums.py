"""The seal of a segment: the checksums of its index files, so that a wrong index is found before it is used.

Kafka's index files carry no checksum. A ``.seal`` says up to which byte of the ``.log`` they reach, how long each is,
and the CRC32C of its bytes. An index without a matching seal is thrown away and rebuilt from the ``.log``. The seal
also knows the segment's end and its greatest timestamp, so that a segment can be passed over without loading its
indexes, and a ``.log`` that has become shorter than it was is noticed. And it knows which transactions are open at
that end: what is needed to rebuild the next segment's transaction index from that segment alone.

Layout, big-endian: magic ``MSSL``, version (int16), CRC32C of all that follows (uint32), then ``_BODY``'s fields in the
order of ``IndexChecksums``, and for each open transaction its producer id and first offset (int64 each). Pure data,
no I/O.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from mainstem.record.checksum import crc32c

_MAGIC: Final = b"MSSL"
_VERSION: Final = 2
_HEAD = struct.Struct(">4shI")
_BODY = struct.Struct(">qqqqqIqqqqIqIqI")
_TRANSACTION = struct.Struct(">qq")


NOT_KNOWN_DURABLE: Final = -1


class IndexChecksums(NamedTuple):
    """``log_bytes`` is the file position up to which the indexes reach, ``end_offset`` the next offset there.

    All of the partition's records before ``durable_offset`` were synced when the seal was written.
    The last batch's place and checksum tie the seal to one ``.log``: indexes of another segment are found out.
    """

    base_offset: int
    durable_offset: int
    log_bytes: int
    end_offset: int
    last_batch_position: int
    last_batch_crc: int
    max_timestamp_ms: int
    max_timestamp_offset: int
    bytes_since_entry: int
    offset_index_bytes: int
    offset_index_crc: int
    time_index_bytes: int
    time_index_crc: int
    transaction_index_bytes: int
    transaction_index_crc: int
    open_transactions: tuple[tuple[int, int], ...] = ()


def encode_seal(seal: IndexChecksums) -> bytes:
    """The file's bytes."""
    body = _BODY.pack(*seal[:-1]) + b"".join(_TRANSACTION.pack(*entry) for entry in seal.open_transactions)
    return _HEAD.pack(_MAGIC, _VERSION, crc32c(body)) + body


def decode_seal(data: bytes | None) -> IndexChecksums | None:
    """Read the file's bytes; None when they are not a whole seal of this version."""
    if data is None or len(data) < _HEAD.size + _BODY.size:
        return None
    magic, version, crc = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    if magic != _MAGIC or version != _VERSION or crc != crc32c(body):
        return None
    if (len(body) - _BODY.size) % _TRANSACTION.size:
        return None
    open_transactions = tuple(_TRANSACTION.iter_unpack(body[_BODY.size :]))
    return IndexChecksums._make((*_BODY.unpack_from(body), open_transactions))
