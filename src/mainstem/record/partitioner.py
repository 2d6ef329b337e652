"""Which partition a key belongs to, as Kafka's Java clients decide it. All writers must agree, or a key's records part.

Plain Python, for one key; ``arrow_partition`` does a column. Pure functions; safe from any thread.
"""

from __future__ import annotations

from mainstem.errors import InputError
from mainstem.record.constants import INT32_MAX

_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """Kafka's 32-bit murmur2 of the key, signed like Java's ``int``."""
    size = len(key)
    digest = _SEED ^ (size & _MASK)
    whole = size & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        digest = (digest * _M & _MASK) ^ word
    if whole < size:
        digest = (digest ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    digest = (digest ^ digest >> 13) * _M & _MASK
    digest ^= digest >> 15
    return digest - 2**32 if digest > INT32_MAX else digest


def partition_for(key: bytes, partition_count: int) -> int:
    """The partition of a record with this key: ``toPositive(murmur2(key)) % partition_count``."""
    if partition_count < 1:
        raise InputError(f"a topic has at least one partition, not {partition_count}")
    return (murmur2(key) & INT32_MAX) % partition_count
