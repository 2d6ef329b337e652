"""Makes the key index's entries from records: the same for appended batches and for batches read from the log.

Pure functions. A batch of the log may have been compacted, or hold unchecked headers: invalid idempotency keys are
skipped here, while ``append_headers.read_marks`` refuses them from a producer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from mainstem.log.key_index import key_layout as layout
from mainstem.log.key_index.key_store import Entry
from mainstem.record.append_headers import IDEMPOTENCY_KEY, IDEMPOTENCY_KEY_BYTES_MAX
from mainstem.record.constants import NO_TIMESTAMP
from mainstem.record.header import BatchHeader
from mainstem.record.key_scan import ScannedKey, records_of, scan_headers, scan_keys

KEYS: Final = 1
IDEMPOTENCY_KEYS: Final = 2
_IDEMPOTENCY_HEADER: Final = IDEMPOTENCY_KEY.encode()


class IndexedBatch(NamedTuple):
    """The entries of one batch: offset deltas with keys, and with idempotency keys."""

    base_offset: int
    leader_epoch: int
    keys: Iterable[ScannedKey]
    idempotency_keys: Iterable[tuple[int, bytes]]


def entries_of(batch: IndexedBatch, parts: int, generation: int, time_ms: int) -> list[Entry]:
    """The entries that ``batch``, appended at ``time_ms``, adds to a generation that has these parts."""
    entries: list[Entry] = []
    base_offset = batch.base_offset
    if parts & KEYS:
        prefix, epoch = layout.generation_prefix(b"k", generation), layout.pack_epoch(batch.leader_epoch)
        part, pack = layout.key_part, layout.pack_offset
        entries += [(prefix + part(key) + pack(base_offset + at), epoch) for at, key in batch.keys if key is not None]
    if parts & IDEMPOTENCY_KEYS:
        prefix = layout.generation_prefix(b"i", generation)
        for at, key in batch.idempotency_keys:
            entries.append((prefix + key, layout.pack_remembered(base_offset + at, batch.leader_epoch, time_ms)))
    return entries


def read_batch(header: BatchHeader, batch: memoryview) -> IndexedBatch:
    """The entries of a batch of the log. Raises CorruptBatchError."""
    if header.is_control:
        return IndexedBatch(header.base_offset, header.leader_epoch, (), ())
    records = records_of(header, batch)
    keys = scan_keys(header, records)
    found: dict[int, bytes] = {}
    for each in scan_headers(header, records, _IDEMPOTENCY_HEADER):
        if each.name == _IDEMPOTENCY_HEADER and 0 < len(each.value or b"") <= IDEMPOTENCY_KEY_BYTES_MAX:
            found.setdefault(keys[each.record][0], each.value or b"")
    return IndexedBatch(header.base_offset, header.leader_epoch, keys, found.items())


def time_of(header: BatchHeader, now_ms: int) -> int:
    """When a batch was appended, as far as it is known: its own timestamp, but never a time in the future."""
    return now_ms if header.max_timestamp == NO_TIMESTAMP else min(header.max_timestamp, now_ms)
