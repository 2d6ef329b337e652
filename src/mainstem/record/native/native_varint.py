"""Varints: plain ones, as Protobuf has them, and those of zigzag numbers, the form of Kafka's records and of Avro.

Helpers of kernels. Readers never read at ``end`` or after it. numba's cache does not see changes of this file: after
editing it, delete the ``*.nbi`` of the kernels that use it.
"""

from __future__ import annotations

import numpy as np

from mainstem.record.native.native_kernel import Native, helper, load_byte, store_byte

_HIGH_BIT = 0x80
_BAD = -1


@helper
def _zigzag(number: Native) -> Native:
    return np.uint64(number << 1) ^ np.uint64(number >> 63)


@helper
def from_zigzag(number: Native) -> Native:
    """The signed number that 64 bits mean in zigzag form."""
    return np.int64(np.uint64(number) >> np.uint64(1)) ^ -np.int64(np.uint64(number) & np.uint64(1))


@helper
def read_plain_varint(at: Native, end: Native) -> Native:
    """(64 bits as a signed number, address after them); the address is -1 for more bits, or bytes up to ``end``."""
    result: Native = np.uint64(0)
    for count in range(10):
        if at >= end:
            return np.int64(0), np.int64(_BAD)
        byte = np.uint64(load_byte(at))
        at += 1
        result |= (byte & np.uint64(0x7F)) << np.uint64(7 * count)
        if byte < np.uint64(_HIGH_BIT):
            if count == 9 and byte > np.uint64(1):
                return np.int64(0), np.int64(_BAD)
            return np.int64(result), at
    return np.int64(0), np.int64(_BAD)


@helper
def plain_varint_bytes(number: Native) -> Native:
    """How many bytes the 64 bits of the number take: 1 to 10."""
    rest = np.uint64(number) >> np.uint64(7)
    count: Native = np.int64(1)
    while rest != 0:
        rest >>= np.uint64(7)
        count += 1
    return count


@helper
def put_plain_varint(at: Native, number: Native) -> Native:
    """Write the 64 bits of the number at this address; the address after it."""
    rest = np.uint64(number)
    while rest >= np.uint64(_HIGH_BIT):
        store_byte(at, np.int64(rest & np.uint64(0x7F)) | 0x80)
        rest >>= np.uint64(7)
        at += 1
    store_byte(at, np.int64(rest))
    return at + 1


@helper
def varint_bytes(number: Native) -> Native:
    """How many bytes the number takes in zigzag form: 1 to 10."""
    return plain_varint_bytes(_zigzag(number))


@helper
def put_varint(at: Native, number: Native) -> Native:
    """Write the number in zigzag form at this address; the address after it."""
    return put_plain_varint(at, _zigzag(number))


@helper
def delta_fits(time: Native, base_time: Native) -> Native:
    """Whether the difference of two timestamps fits 64 bits."""
    return ((time ^ base_time) & (time ^ (time - base_time))) >= 0
