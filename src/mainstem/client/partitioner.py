"""Which partition a key goes to: murmur2, as Kafka's Java client and this package's producer have it.

librdkafka's own default (CRC32, used by confluent-kafka and kcat unless told otherwise) puts keys elsewhere.
Pure functions; safe from any thread.
"""

from __future__ import annotations

LIBRDKAFKA_NAME = "murmur2_random"
"""The same partitioner by librdkafka's name; a record without a key goes to a random partition."""
_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 of ``data``, as an unsigned 32-bit number."""
    size = len(data)
    h = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if size != whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of ``key`` among ``partitions``."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
