"""Writes signed numbers as zigzag varints: the form of Kafka's records and of Avro. Helpers of the encoders' kernels.

numba's cache does not see changes of this file: after editing it, delete the ``*.nbi`` of the encoders.
"""

from __future__ import annotations

import numpy as np

from mainstem.record.native.native_kernel import Native, helper, store_byte


@helper
def _zigzag(number: Native) -> Native:
    return np.uint64(number << 1) ^ np.uint64(number >> 63)


@helper
def varint_bytes(number: Native) -> Native:
    """How many bytes the number takes: 1 to 10."""
    rest = _zigzag(number) >> np.uint64(7)
    count: Native = np.int64(1)
    while rest != 0:
        rest >>= np.uint64(7)
        count += 1
    return count


@helper
def put_varint(at: Native, number: Native) -> Native:
    """Write the number at this address; the address behind it."""
    rest = _zigzag(number)
    while rest >= 0x80:
        store_byte(at, np.int64(rest & np.uint64(0x7F)) | 0x80)
        rest >>= np.uint64(7)
        at += 1
    store_byte(at, np.int64(rest))
    return at + 1


@helper
def delta_fits(time: Native, base_time: Native) -> Native:
    """Whether the difference of two timestamps fits 64 bits."""
    return ((time ^ base_time) & (time ^ (time - base_time))) >= 0
