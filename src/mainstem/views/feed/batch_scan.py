"""Reads from the headers of fetched record batches the leader epoch, and whether a record is missing.

Pure; reads the header of each whole batch, and no record.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from mainstem.record.constants import HEADER_BYTES, LENGTH_PREFIX

# Base offset, batch length, leader epoch; last offset delta; record count.
_HEADER = struct.Struct(">qii7xi30xi")
assert _HEADER.size == HEADER_BYTES


class BatchScan(NamedTuple):
    """``last_epoch``: the leader epoch of the last whole batch; None when there is none.

    ``has_gap``: whether an offset has no record any more: compaction has removed it. (A transaction's marker and an
    aborted record are in their batches, and are no gaps.)
    """

    last_epoch: int | None
    has_gap: bool


def scan_batches(records: memoryview, offset: int, end: int | None = None) -> BatchScan:
    """Look at the whole batches in ``records``, which were fetched from ``offset`` on, and end before ``end``."""
    epoch = -1
    has_gap = False
    expected = offset
    at = 0
    while at + HEADER_BYTES <= len(records):
        base_offset, length, found, last_offset_delta, count = _HEADER.unpack_from(records, at)
        at += LENGTH_PREFIX + length
        if at > len(records) or (end is not None and expected >= end):
            break
        epoch = found
        has_gap = has_gap or base_offset > expected or count <= last_offset_delta
        expected = base_offset + last_offset_delta + 1
    return BatchScan(None if epoch < 0 else epoch, has_gap)
