from __future__ import annotations

import pytest

from mainstem.record.constants import LAST_OFFSET_DELTA_AT, ControlType
from mainstem.record.writer import NewRecord, build_batch, build_control_batch
from mainstem.views.feed.batch_scan import scan_batches


def batch(first: int, count: int = 1, epoch: int = 0) -> bytes:
    return build_batch([NewRecord(b"k", b"v")] * count, base_offset=first, leader_epoch=epoch)


def thinned(first: int, last: int) -> bytes:
    """A batch from ``first`` to ``last`` of which compaction has left one record."""
    data = bytearray(batch(first))
    data[LAST_OFFSET_DELTA_AT : LAST_OFFSET_DELTA_AT + 4] = (last - first).to_bytes(4, "big")
    return bytes(data)


MARKER = build_control_batch(ControlType.ABORT, producer_id=7, producer_epoch=0, timestamp_ms=1, base_offset=4)


@pytest.mark.parametrize(
    ("records", "offset", "has_gap"),
    [
        (b"", 0, False),
        (batch(0, 4) + MARKER + batch(5), 0, False),
        (batch(0, 4), 2, False),
        (batch(2), 0, True),
        (batch(0) + batch(2), 0, True),
        (thinned(0, 3), 0, True),
        (batch(0) + batch(2)[:-1], 0, False),
    ],
)
def test_an_offset_without_a_record_is_a_gap(records: bytes, offset: int, has_gap: bool) -> None:
    assert scan_batches(memoryview(records), offset).has_gap is has_gap


@pytest.mark.parametrize(("end", "has_gap"), [(2, False), (3, True)])
def test_what_lies_behind_the_end_does_not_count(end: int, has_gap: bool) -> None:
    assert scan_batches(memoryview(batch(0, 2) + batch(9)), 0, end).has_gap is has_gap


def test_the_last_whole_batch_tells_the_epoch() -> None:
    records = memoryview(batch(0, epoch=3) + batch(1, epoch=5) + batch(2, epoch=9)[:-1])
    assert scan_batches(records, 0).last_epoch == 5
    assert scan_batches(records[:50], 0).last_epoch is None
