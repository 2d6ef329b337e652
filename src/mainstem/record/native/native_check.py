"""The native check of a producer's records, and what numba makes of it: a kernel, or machine code to be kept.

``python -m mainstem.record.native.native_check`` writes the machine code to its standard output, for ``kept_code``: a
process that has it never loads numba. The kernel itself is for machines that cannot run it so.

Invariant: no read outside the records, no write outside ``found``, whatever the bytes say.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence

import numpy as np
from numba import types

from mainstem.record.constants import INT64_MAX, INT64_MIN, NO_TIMESTAMP
from mainstem.record.native.kept_code import NativeCall
from mainstem.record.native.native_kernel import (
    Native,
    helper,
    int64s,
    kernel,
    load_word,
    machine_code,
    store_word,
)
from mainstem.record.native.native_walk import walk_record
from mainstem.record.native.walk_code import RESULTS
from mainstem.record.record_check import BAD_OFFSET, BAD_RECORD, BAD_TIME, BYTES_LEFT, SOUND

_NICENESS = 10


@helper
def _int64(address: Native) -> Native:
    return np.int64(load_word(address))


def walk_batch(asked: Native) -> Native:
    """Walk the plain records of a producer's batch. At the address ``asked`` lie the integers of ``walk_code.ASKED``.

    Offset deltas must be 0, 1, 2 and so on. Timestamps count only where ``oldest`` and ``newest`` are not the least and
    the greatest that there are; -1, no timestamp, is always taken. The first ``found_max`` records that break a rule
    are noted at the address ``found``: index, whether the key is missing, timestamp.

    Returns (how it ended, records walked, the greatest timestamp or -1, records that break a rule).
    """
    at, end, found, found_max = _int64(asked), _int64(asked + 8), _int64(asked + 16), _int64(asked + 24)
    count, base_time, needs_key = _int64(asked + 32), _int64(asked + 40), _int64(asked + 48)
    oldest, newest = _int64(asked + 56), _int64(asked + 64)
    checks_times = oldest != INT64_MIN or newest != INT64_MAX
    max_time: Native = np.int64(NO_TIMESTAMP)
    broken: Native = np.int64(0)
    for index in range(count):
        at, timestamp, time_fits, delta, _, _, key_size, _ = walk_record(at, end, base_time)
        if at < 0:
            return np.int64(BAD_RECORD), np.int64(index), max_time, broken
        if delta != index:
            return np.int64(BAD_OFFSET), np.int64(index), max_time, broken
        if checks_times and time_fits == 0:
            return np.int64(BAD_TIME), np.int64(index), max_time, broken
        if checks_times:
            max_time = max(max_time, timestamp)
        has_no_key = needs_key != 0 and key_size < 0
        if has_no_key or (checks_times and timestamp != NO_TIMESTAMP and (timestamp < oldest or timestamp > newest)):
            if broken < found_max:
                store_word(found, np.int64(index))
                store_word(found + 8, np.int64(has_no_key))
                store_word(found + 16, timestamp)
                found += 24
            broken += 1
    if at != end:
        return np.int64(BYTES_LEFT), np.int64(count), max_time, broken
    return np.int64(SOUND), np.int64(count), max_time, broken


def compiled_walk() -> NativeCall:
    """``walk_batch`` as a kernel of this process."""
    walk: Native = kernel(types.int64, returns=int64s(RESULTS))(walk_batch)

    def walk_asked(asked: bytes, is_short: bool) -> Sequence[int]:
        memory = ctypes.create_string_buffer(asked)
        found: Sequence[int] = walk(ctypes.addressof(memory))
        return found

    return walk_asked


if __name__ == "__main__":
    os.nice(_NICENESS)
    sys.stdout.buffer.write(machine_code(walk_batch, 1, RESULTS))
