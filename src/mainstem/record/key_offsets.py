"""Finds the latest record of each key over many batches, in a bounded map, and builds batches without the others.

``KeyOffsetMap`` is filled batch by batch, in the order of the offsets, until it is full; then ``filtered`` takes the
records out of batches that are not the latest of their key. A record after what was covered always stays. Batches are
given whole and proven by their checksum; CorruptBatchError says that a batch's records do not add up all the same.

Memory: 24 bytes for each key that fits, at a load of at most 90 %, and the plain records of the batches of one call.

Imports numba and numpy: for worker processes. Owned by one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np

from mainstem.errors import CorruptBatchError
from mainstem.record.compress import compress, decompress
from mainstem.record.constants import (
    COMPRESSION_MASK,
    DECOMPRESSED_BYTES_MAX,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    MAGIC,
    RECORD_BYTES_MIN,
    Buffer,
)
from mainstem.record.header import BatchHeader
from mainstem.record.native import native_compact as native
from mainstem.record.writer import assemble_batch

_SLOT_BYTES: Final = 24
_LOAD_MAX: Final = 0.9
_SLOTS_MIN: Final = 1024
_PLAIN_BYTES: Final = 8 << 20


class Batch(NamedTuple):
    """A batch's header and all its bytes."""

    header: BatchHeader
    data: memoryview


class KeyOffsetMap:
    """``covered`` is the last offset up to which every record is in the map; -1 before the first."""

    def __init__(self, memory_bytes: int, keys_expected: int) -> None:
        """Room for ``keys_expected``, or for as many as ``memory_bytes`` hold."""
        slots = _SLOTS_MIN
        while slots * _LOAD_MAX <= keys_expected and 2 * slots * _SLOT_BYTES <= memory_bytes:
            slots *= 2
        self._key = np.frombuffer(uuid4().bytes, np.uint64).copy()
        self._hashes = np.zeros(2 * slots, np.uint64)
        self._offsets = np.full(slots, -1, np.int64)
        self._room = int(slots * _LOAD_MAX)
        self.covered = -1
        self.is_full = False

    def add(self, batches: Sequence[Batch], start_offset: int) -> None:
        """Take in the records at or after ``start_offset``, until the map is full. Raises CorruptBatchError."""
        for group, source, table in _sources_of(batches):
            walked, added, covered, no_room_for = native.map_keys(
                source, table, (start_offset, self._room), self._key, self._hashes, self._offsets
            )
            self._room -= int(added)
            self.covered = max(self.covered, int(covered))
            if walked < len(group) and no_room_for < 0:
                raise _bad_records(group[walked].header)
            if walked < len(group):
                self.is_full = True
                return

    def pass_over(self, header: BatchHeader) -> None:
        """A batch whose records need not be in the map: it is covered all the same."""
        self.covered = max(self.covered, header.last_offset)

    def filtered(
        self, batches: Sequence[Batch], now_ms: int, delete_retention_ms: int
    ) -> Iterator[bytes | memoryview | None]:
        """Each batch as it is to be stored: as it was, rebuilt with fewer records, or None where none is left.

        Tombstones that are seen for the first time get their delete horizon; those past theirs go. Raises
        CorruptBatchError.
        """
        for group, source, table in _sources_of(batches):
            table[:, native.DROPS_TOMBSTONES : native.NEW_BASE_TIME + 1] = [
                _horizon(batch.header, now_ms, delete_retention_ms) for batch in group
            ]
            counts = table[:, native.COUNT]
            spans = np.empty((4, int(counts.max())), np.int64)
            output = np.empty(native.output_bytes_max(len(source), int(counts.sum())), np.uint8)
            walked = native.choose_records(
                source, table, self.covered, self._key, self._hashes, self._offsets, spans, output
            )
            if walked < len(group):
                raise _bad_records(group[walked].header)
            view = memoryview(output.data)
            for batch, values in zip(group, table.tolist(), strict=True):
                yield _stored(batch, values, view)


def _sources_of(batches: Sequence[Batch]) -> Iterator[tuple[list[Batch], Any, Any]]:
    """As many batches at a time as are of bounded size when they are decompressed: their plain records and a table."""
    group: list[Batch] = []
    parts: list[Buffer] = []
    size = 0
    for batch in batches:
        part = _plain_records(batch)
        group.append(batch)
        parts.append(part)
        size += len(part)
        if size >= _PLAIN_BYTES:
            yield group, *_source_of(group, parts)
            group, parts, size = [], [], 0
    if group:
        yield group, *_source_of(group, parts)


def _plain_records(batch: Batch) -> Buffer:
    header = batch.header
    records = batch.data[HEADER_BYTES : header.size_bytes]
    if header.record_count == 0:
        return b""
    plain = decompress(header.compression, records, limit_bytes=DECOMPRESSED_BYTES_MAX)
    if header.record_count > len(plain) // RECORD_BYTES_MIN:
        raise _bad_records(header)
    return plain


def _source_of(group: Sequence[Batch], parts: Sequence[Buffer]) -> tuple[Any, Any]:
    """The plain records of all batches side by side, and a row for each."""
    rows = []
    at = 0
    for (header, _), part in zip(group, parts, strict=True):
        rows.append(
            (
                at,
                len(part),
                header.record_count,
                header.base_offset,
                header.last_offset_delta,
                header.base_timestamp,
                not header.has_log_append_time,
            )
        )
        at += len(part)
    table = np.zeros((len(group), native.TABLE_COLUMNS), np.int64)
    table[:, : native.HAS_RECORD_TIME + 1] = rows
    return np.frombuffer(b"".join(parts), np.uint8), table


def _horizon(header: BatchHeader, now_ms: int, delete_retention_ms: int) -> tuple[bool, int]:
    """Whether the batch's tombstones go now, and the base timestamp that it gets if one stays."""
    if header.has_delete_horizon:
        return header.base_timestamp <= now_ms, native.NO_NEW_BASE_TIME
    return False, now_ms + delete_retention_ms


def _stored(batch: Batch, row: Sequence[int], output: memoryview) -> bytes | memoryview | None:
    header = batch.header
    kept = row[native.KEPT]
    gets_horizon = row[native.KEPT_TOMBSTONES] > 0 and row[native.NEW_BASE_TIME] != native.NO_NEW_BASE_TIME
    if kept == 0:
        return None
    if kept == header.record_count and not gets_horizon:
        return batch.data
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if gets_horizon:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = row[native.NEW_BASE_TIME]
    max_timestamp = header.max_timestamp if header.has_log_append_time else row[native.KEPT_MAX_TIME]
    changed = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=kept
    )
    payload = output[row[native.OUTPUT_AT] : row[native.OUTPUT_END]]
    return assemble_batch(changed, compress(header.compression, payload))


def emptied(header: BatchHeader) -> bytes:
    """The batch without its records: offsets, producer and sequence are left, which a producer's state needs."""
    return assemble_batch(header._replace(attributes=header.attributes & ~COMPRESSION_MASK, record_count=0), b"")


def filler(base_offset: int, last_offset: int, leader_epoch: int) -> bytes:
    """A batch that says that nothing is left of these offsets, which lie at most 31 bits apart."""
    header = BatchHeader(base_offset, 0, leader_epoch, MAGIC, 0, 0, last_offset - base_offset, -1, -1, -1, -1, -1, 0)
    return assemble_batch(header, b"")


def _bad_records(header: BatchHeader) -> CorruptBatchError:
    return CorruptBatchError(
        f"record batch at offset {header.base_offset}: its checksum matches, but its records do not add up"
    )
