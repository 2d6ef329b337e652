from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import CorruptBatchError
from mainstem.record.constants import HEADER_BYTES, Compression
from mainstem.record.header import read_header
from mainstem.record.key_scan import ScannedHeader, records_of, scan_headers, scan_keys, scan_starts
from mainstem.record.reader import read_records
from mainstem.record.writer import NewRecord, build_batch, rebuild_batch

_BYTES = st.none() | st.binary(max_size=300)
_NAMES = st.sampled_from(["x", "mainstem-a", "mainstem-b", "other"])
_RECORDS = st.lists(
    st.builds(
        NewRecord, _BYTES, _BYTES, st.lists(st.tuples(_NAMES, _BYTES), max_size=3).map(tuple), st.integers(0, 2**41)
    ),
    min_size=1,
    max_size=20,
)


@given(_RECORDS, st.sampled_from(Compression))
def test_what_is_scanned_is_what_the_reader_reads(rows: list[NewRecord], codec: Compression) -> None:
    batch = build_batch(rows, base_offset=7, compression=codec)
    header = read_header(batch)
    records = records_of(header, batch)
    assert scan_keys(header, records) == [(each.offset - 7, each.key) for each in read_records(batch)]
    assert scan_starts(header, records, 17) == [
        (row.key if row.key is None else row.key[:17], row.value if row.value is None else row.value[:17])
        for row in rows
    ]
    assert scan_headers(header, records, b"mainstem-") == [
        ScannedHeader(at, name.encode(), value)
        for at, row in enumerate(rows)
        for name, value in row.headers
        if name.startswith("mainstem-")
    ]


def test_a_compacted_batch_keeps_its_offset_deltas() -> None:
    original = read_header(build_batch([NewRecord(b"k", b"v")] * 5, base_offset=10))
    batch = rebuild_batch(original, [(11, NewRecord(b"a", b"1")), (14, NewRecord(None, b"2"))])
    header = read_header(batch)
    assert scan_keys(header, records_of(header, batch)) == [(1, b"a"), (4, None)]
    empty = rebuild_batch(original, [])
    assert scan_keys(read_header(empty), records_of(read_header(empty), empty)) == []


@given(_RECORDS, st.data())
def test_damaged_records_are_corrupt_or_read_and_nothing_else(rows: list[NewRecord], data: st.DataObject) -> None:
    batch = bytearray(build_batch(rows))
    header = read_header(batch)
    at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
    batch[at] ^= data.draw(st.integers(1, 255))
    records = records_of(header, batch)
    for scan in (scan_keys, lambda *parts: scan_headers(*parts, b""), lambda *parts: scan_starts(*parts, 17)):
        try:
            scan(header, records)
        except CorruptBatchError:
            continue


@pytest.mark.parametrize("cut", range(1, 12))
def test_records_that_are_cut_off_are_corrupt(cut: int) -> None:
    batch = build_batch([NewRecord(b"key", b"value", (("mainstem-a", b"1"),))])
    header = read_header(batch)
    records = records_of(header, batch)[:-cut]
    with pytest.raises(CorruptBatchError):
        scan_keys(header, records)
    with pytest.raises(CorruptBatchError):
        scan_headers(header, records, b"")
