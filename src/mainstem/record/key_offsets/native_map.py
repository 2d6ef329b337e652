"""Finds the latest record of each key over many batches, in a bounded map, and builds batches without the others.

``NativeKeyOffsets`` is filled batch by batch, in the order of the offsets, until it is full; then ``filtered`` takes
the records out of batches that are not the latest of their key. A record after what was covered always stays. Batches
are given whole and proven by their checksum; CorruptBatchError says that a batch's records do not add up all the same.

Memory: 24 bytes for each key that fits, at a load of at most 90 %, and the plain records of the batches of one call.

Imports numba and numpy: for worker processes. Owned by one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import uuid4

import numpy as np

from mainstem.record.constants import Buffer
from mainstem.record.key_offsets.batches import (
    Batch,
    KeptRecords,
    KeyCoverage,
    bad_records,
    horizon,
    plain_records,
    stored,
)
from mainstem.record.native import native_compact as native

_SLOT_BYTES: Final = 24
_LOAD_MAX: Final = 0.9
_SLOTS_MIN: Final = 1024
_PLAIN_BYTES: Final = 8 << 20


class NativeKeyOffsets(KeyCoverage):
    """The map of one run; its ``filtered`` may be called when it ``is_full``, or has all."""

    def __init__(self, memory_bytes: int, keys_expected: int) -> None:
        """Room for ``keys_expected``, or for as many as ``memory_bytes`` hold."""
        super().__init__()
        slots = _SLOTS_MIN
        while slots * _LOAD_MAX <= keys_expected and 2 * slots * _SLOT_BYTES <= memory_bytes:
            slots *= 2
        self._key = np.frombuffer(uuid4().bytes, np.uint64).copy()
        self._hashes = np.zeros(2 * slots, np.uint64)
        self._offsets = np.full(slots, -1, np.int64)
        self._room = int(slots * _LOAD_MAX)

    def add(self, batches: Sequence[Batch], start_offset: int) -> None:
        """Take in the records at or after ``start_offset``, until the map is full. Raises CorruptBatchError."""
        for group, source, table in _sources_of(batches):
            walked, added, covered, no_room_for = native.map_keys(
                source, table, (start_offset, self._room), self._key, self._hashes, self._offsets
            )
            self._room -= int(added)
            self.covered = max(self.covered, int(covered))
            if walked < len(group) and no_room_for < 0:
                raise bad_records(group[walked].header)
            if walked < len(group):
                self.is_full = True
                return

    def filtered(
        self, batches: Sequence[Batch], now_ms: int, delete_retention_ms: int
    ) -> Iterator[bytes | memoryview | None]:
        """Each batch as it is to be stored: as it was, rebuilt with fewer records, or None where none is left.

        Tombstones that are seen for the first time get their delete horizon; those past theirs go. Raises
        CorruptBatchError.
        """
        for group, source, table in _sources_of(batches):
            table[:, native.DROPS_TOMBSTONES : native.NEW_BASE_TIME + 1] = [
                horizon(batch.header, now_ms, delete_retention_ms) for batch in group
            ]
            counts = table[:, native.COUNT]
            spans = np.empty((4, int(counts.max())), np.int64)
            output = np.empty(native.output_bytes_max(len(source), int(counts.sum())), np.uint8)
            walked = native.choose_records(
                source, table, self.covered, self._key, self._hashes, self._offsets, spans, output
            )
            if walked < len(group):
                raise bad_records(group[walked].header)
            view = memoryview(output.data)
            for batch, values in zip(group, table.tolist(), strict=True):
                kept = KeptRecords(*values[native.KEPT : native.OUTPUT_AT])
                payload = view[values[native.OUTPUT_AT] : values[native.OUTPUT_END]]
                yield stored(batch, kept, values[native.NEW_BASE_TIME], payload)


def _sources_of(batches: Sequence[Batch]) -> Iterator[tuple[list[Batch], Any, Any]]:
    """As many batches at a time as are of bounded size when they are decompressed: their plain records and a table."""
    group: list[Batch] = []
    parts: list[Buffer] = []
    size = 0
    for batch in batches:
        part = plain_records(batch)
        group.append(batch)
        parts.append(part)
        size += len(part)
        if size >= _PLAIN_BYTES:
            yield group, *_source_of(group, parts)
            group, parts, size = [], [], 0
    if group:
        yield group, *_source_of(group, parts)


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
