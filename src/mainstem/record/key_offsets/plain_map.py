"""``native_map`` in plain Python: the same records stay, a tenth as fast, with a tenth of the keys in the same memory.

Keys are compared by BLAKE2b of 128 bits with a random secret for each run, so a producer cannot choose two keys that
collide. Owned by one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple
from uuid import uuid4

from mainstem.errors import CorruptBatchError
from mainstem.record.constants import INT64_MAX, INT64_MIN, RECORD_BYTES_MIN
from mainstem.record.header import BatchHeader
from mainstem.record.key_offsets.batches import (
    NO_NEW_BASE_TIME,
    Batch,
    KeptRecords,
    KeyCoverage,
    bad_records,
    horizon,
    plain_records,
    stored,
)
from mainstem.record.reader import read_varint
from mainstem.record.writer import varint

_BYTES_OF_A_KEY: Final = 256
"""A digest, an offset and their places in a dict, also while that grows."""
_ROOM_MIN: Final = 921
"""Keys that always fit, as in the native map."""


class _Span(NamedTuple):
    """Where a record, and in it the offset delta, stand in the plain records of a batch. A null value has size -1."""

    start: int
    end: int
    timestamp_ms: int
    delta: int
    delta_at: int
    key: bytes | None
    value_size: int


class PlainKeyOffsets(KeyCoverage):
    """The map of one run; its ``filtered`` may be called when it ``is_full``, or has all."""

    def __init__(self, memory_bytes: int, keys_expected: int) -> None:
        """Room for ``keys_expected``, or for as many as ``memory_bytes`` hold."""
        super().__init__()
        self._room = max(min(keys_expected, memory_bytes // _BYTES_OF_A_KEY), _ROOM_MIN)
        self._digest = partial(blake2b, digest_size=16, key=uuid4().bytes)
        self._offsets: dict[bytes, int] = {}

    def add(self, batches: Sequence[Batch], start_offset: int) -> None:
        """Take in the records at or after ``start_offset``, until the map is full. Raises CorruptBatchError."""
        offsets, digest = self._offsets, self._digest
        for batch in batches:
            base_offset = batch.header.base_offset
            for span in _spans(batch.header, bytes(plain_records(batch))):
                offset = base_offset + span.delta
                if offset < start_offset:
                    continue
                if span.key is not None:
                    key = digest(span.key).digest()
                    if len(offsets) >= self._room and key not in offsets:
                        self.is_full = True
                        return
                    offsets[key] = offset
                self.covered = max(self.covered, offset)
            self.pass_over(batch.header)

    def filtered(
        self, batches: Sequence[Batch], now_ms: int, delete_retention_ms: int
    ) -> Iterator[bytes | memoryview | None]:
        """Each batch as it is to be stored: as it was, rebuilt with fewer records, or None where none is left.

        Tombstones that are seen for the first time get their delete horizon; those past theirs go. Raises
        CorruptBatchError.
        """
        for batch in batches:
            header = batch.header
            drops_tombstones, new_base_time = horizon(header, now_ms, delete_retention_ms)
            data = bytes(plain_records(batch))
            spans = [span for span in _spans(header, data) if self._stays(header, span, drops_tombstones)]
            tombstones = sum(span.value_size < 0 for span in spans)
            kept = KeptRecords(len(spans), tombstones, max((span.timestamp_ms for span in spans), default=0))
            if tombstones and new_base_time != NO_NEW_BASE_TIME and not header.has_log_append_time:
                payload = b"".join(_rebased(header, data, span, new_base_time) for span in spans)
            else:
                payload = b"".join(data[span.start : span.end] for span in spans)
            yield stored(batch, kept, new_base_time, payload)

    def _stays(self, header: BatchHeader, span: _Span, drops_tombstones: bool) -> bool:
        offset = header.base_offset + span.delta
        if offset > self.covered:
            return True
        if span.key is None or (span.value_size < 0 and drops_tombstones):
            return False
        return self._offsets.get(self._digest(span.key).digest(), -1) <= offset


def _spans(header: BatchHeader, data: bytes) -> Iterator[_Span]:
    """The records of a batch, every length and number checked. Raises CorruptBatchError."""
    at, delta = 0, -1
    for _ in range(header.record_count):
        start, delta_before = at, delta
        try:
            size, at = read_varint(data, start)
            end = at + size
            if size < RECORD_BYTES_MIN - 1 or end > len(data):
                raise bad_records(header)
            time_delta, delta_at = read_varint(data, at + 1)
            delta, at = read_varint(data, delta_at)
            key_at, key_end = _field(header, data, at, end)
            value_at, value_end = _field(header, data, key_end, end)
            at = _headers_end(header, data, value_end, end)
        except CorruptBatchError:
            raise bad_records(header) from None
        timestamp_ms = header.base_timestamp + time_delta
        if at != end or not delta_before < delta <= header.last_offset_delta:
            raise bad_records(header)
        if not INT64_MIN <= timestamp_ms <= INT64_MAX:
            raise bad_records(header)
        key = data[key_at:key_end] if key_at >= 0 else None
        yield _Span(start, end, timestamp_ms, delta, delta_at, key, value_end - value_at if value_at >= 0 else -1)
    if at != len(data):
        raise bad_records(header)


def _field(header: BatchHeader, data: bytes, at: int, end: int) -> tuple[int, int]:
    """Where a nullable field begins and ends; null begins at -1."""
    size, at = read_varint(data, at)
    if size == -1:
        return -1, at
    if not 0 <= size <= end - at:
        raise bad_records(header)
    return at, at + size


def _headers_end(header: BatchHeader, data: bytes, at: int, end: int) -> int:
    """Where a record's headers end."""
    count, at = read_varint(data, at)
    if not 0 <= count <= (end - at) // 2:
        raise bad_records(header)
    for _ in range(count):
        name_at, at = _field(header, data, at, end)
        if name_at < 0:
            raise bad_records(header)
        _, at = _field(header, data, at, end)
    return at


def _rebased(header: BatchHeader, data: bytes, span: _Span, base_time: int) -> bytes:
    """A record's bytes with another base timestamp. Raises CorruptBatchError when its timestamp is too far off it."""
    delta = span.timestamp_ms - base_time
    if not INT64_MIN <= delta <= INT64_MAX:
        raise bad_records(header)
    body = b"\0" + varint(delta) + data[span.delta_at : span.end]
    return varint(len(body)) + body
