from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import InputError, RecordTooLargeError
from mainstem.record.arrow_decode import decode
from mainstem.record.arrow_encode import encode
from mainstem.record.constants import Compression
from mainstem.record.header import read_header, stamped_prefix, verify
from mainstem.record.reader import read_records
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch
from tests.record.batches import CODECS, new_records, repeatable

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def _columns(rows: list[NewRecord]) -> dict:
    headers = [[{"key": name, "value": value} for name, value in row.headers] or None for row in rows]
    return {
        "keys": pa.array([row.key for row in rows], pa.binary()),
        "values": pa.array([row.value for row in rows], pa.binary()),
        "timestamps_ms": pa.array([row.timestamp_ms for row in rows], pa.int64()),
        "headers": pa.array(headers, HEADERS),
    }


def _values(batches: list[bytes]) -> list[bytes | None]:
    return [record.value for batch in batches for record in read_records(batch)]


@repeatable
@given(rows=st.lists(new_records, min_size=1, max_size=12), codec=st.sampled_from(CODECS))
def test_a_batch_is_byte_for_byte_the_plain_writers(rows: list[NewRecord], codec: Compression) -> None:
    assert encode(**_columns(rows), compression=codec) == [build_batch(rows, compression=codec)]


@repeatable
@given(rows=st.lists(new_records, max_size=20), limit=st.integers(800, 1600), codec=st.sampled_from(CODECS))
def test_batches_are_cut_below_the_limit_and_hold_every_record(rows: list, limit: int, codec: Compression) -> None:
    batches = encode(**_columns(rows), compression=codec, max_batch_bytes=limit)
    read = [record for batch in batches for record in read_records(batch)]
    assert [(r.key, r.value, r.headers, r.timestamp_ms) for r in read] == [tuple(row) for row in rows]
    for batch in batches:
        verify(batch, 0, read_header(batch))
        assert codec is not Compression.NONE or len(batch) <= limit


def test_a_batch_is_filled_as_far_as_the_limit_goes() -> None:
    values = pa.array([b"x" * 10] * 4)
    whole = len(encode(None, values)[0])
    assert len(encode(None, values, max_batch_bytes=whole)) == 1
    assert len(encode(None, values, max_batch_bytes=whole - 1)) == 2


def test_sequences_run_on_from_batch_to_batch_and_wrap() -> None:
    producer = ProducerStamp(7, 1, 5, is_transactional=True)
    batches = encode(None, pa.array([b"x" * 50] * 6), producer=producer, base_sequence=2**31 - 3, max_batch_bytes=200)
    headers = [read_header(batch) for batch in batches]
    assert [header.base_sequence for header in headers] == [2**31 - 3, 2**31 - 1, 1]
    assert {(header.producer_id, header.producer_epoch, header.is_transactional) for header in headers} == {
        (7, 1, True)
    }
    assert read_header(encode(None, pa.array([b"x"]), producer=producer)[0]).base_sequence == 5


def test_without_a_producer_there_is_no_sequence() -> None:
    batches = encode(None, pa.array([b"x" * 50] * 6), max_batch_bytes=200)
    assert {read_header(batch).base_sequence for batch in batches} == {-1}


def test_no_records_make_no_batch() -> None:
    assert encode(pa.array([], pa.binary()), pa.array([], pa.string()), headers=pa.array([], HEADERS)) == []


def test_a_record_that_fits_no_batch_is_refused_by_number() -> None:
    with pytest.raises(RecordTooLargeError, match="record 1 is too large"):
        encode(None, pa.array([b"x", b"x" * 1000]), max_batch_bytes=500)


def test_timestamps_too_far_apart_go_into_batches_of_their_own() -> None:
    times = [2**63 - 1, -(2**63), 0]
    batches = encode(None, pa.array([b"a", b"b", b"c"]), timestamps_ms=np.array(times))
    assert [record.timestamp_ms for batch in batches for record in read_records(batch)] == times


@pytest.mark.parametrize("times", [5, pa.array([5, 5], pa.int32()), np.array([5, 5]), pa.chunked_array([[5], [5]])])
def test_timestamps_come_as_a_number_or_a_column(times: object) -> None:
    assert read_header(encode(None, pa.array([b"a", b"b"]), timestamps_ms=times)[0]).max_timestamp == 5


@pytest.mark.parametrize(
    "arrow_type",
    [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary(2), pa.binary_view(), pa.string_view()],
    ids=str,
)
def test_bytes_and_text_of_every_arrow_type_will_do(arrow_type: pa.DataType) -> None:
    column = pa.array(["aa", None, "bb"], pa.string()).cast(pa.binary()).cast(arrow_type)
    assert _values(encode(column, column)) == [b"aa", None, b"bb"]


def test_slices_and_chunks_are_read_where_they_begin() -> None:
    column = pa.array([b"skipped", b"a", None, b"c", b"skipped"])
    assert _values(encode(None, column[1:4])) == [b"a", None, b"c"]
    assert _values(encode(None, pa.chunked_array([column[1:3], column[3:4]]))) == [b"a", None, b"c"]
    assert _values(encode(None, pa.chunked_array([], pa.binary()))) == []


def test_headers_of_a_slice_are_its_own() -> None:
    headers = pa.array([[("a", b"1")], None, [("b", None), ("c", b"2")], []], HEADERS)
    records = read_records(encode(None, pa.array([b"v"] * 3), headers=headers[1:])[0])
    assert [record.headers for record in records] == [(), (("b", None), ("c", b"2")), ()]


def test_a_column_of_nulls_is_tombstones() -> None:
    assert _values(encode(pa.array([b"k"]), pa.nulls(1))) == [None]


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"values": pa.array([1])}, "values are of type int64"),
        ({"keys": pa.array([b"k", b"l"])}, "differ in length"),
        ({"timestamps_ms": pa.array([1, 2])}, "differ in length"),
        ({"timestamps_ms": np.array([1.5])}, "float64"),
        ({"headers": pa.array([b"h"])}, "headers are of type binary"),
        ({"headers": pa.array([[(None, b"1")]], HEADERS)}, "no key"),
        ({"headers": pa.array([[None]], HEADERS)}, "never null"),
        ({"max_batch_bytes": 61}, "at most 61 bytes"),
        ({"max_batch_bytes": 2**31}, "at most"),
    ],
)
def test_columns_that_make_no_records_are_refused(settings: dict, word: str) -> None:
    with pytest.raises(InputError, match=word):
        encode(**{"keys": None, "values": pa.array([b"v"]), **settings})


@pytest.mark.parametrize("offsets", [[0, 100, 4], [0, -5, 4]])
def test_an_array_that_lies_about_its_offsets_is_refused(offsets: list[int]) -> None:
    buffers = [None, pa.py_buffer(np.array(offsets, np.int64)), pa.py_buffer(b"abcd")]
    with pytest.raises(InputError, match="outside its data"):
        encode(None, pa.Array.from_buffers(pa.large_binary(), 2, buffers))


@repeatable
@given(rows=st.lists(new_records, min_size=1, max_size=8))
def test_what_was_encoded_is_decoded(rows: list[NewRecord]) -> None:
    columns = _columns(rows)
    (batch,) = encode(**columns)
    moved = stamped_prefix(9, len(batch) - 12, 1) + batch[16:]
    wanted = frozenset({"key", "value", "headers"})
    decoded = decode(moved, topic="t", partition=0, start_offset=0, columns=wanted).arrow_batch
    for column, given_column in (("key", "keys"), ("value", "values"), ("headers", "headers")):
        assert decoded.column(column).to_pylist() == columns[given_column].to_pylist()
