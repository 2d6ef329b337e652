from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import CorruptBatchError, InputError
from mainstem.record import arrow_decode
from mainstem.record.arrow_columns import COLUMNS, SCHEMA
from mainstem.record.arrow_decode import DecodeOptions, decode
from mainstem.record.constants import Compression, ControlType
from mainstem.record.header import iter_headers, read_header
from mainstem.record.native import native_decode
from mainstem.record.reader import DecodedRecord, iter_records
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch, build_control_batch
from tests.record.batches import CODECS, captured, logs, repeatable, resealed, sample, split, with_field, with_payload


def _decode(log, start=0, end=None, **settings):
    settings.setdefault("columns", COLUMNS)
    return decode(log, topic="topic", partition=3, start_offset=start, end_offset=end, **settings)


def _rows(arrow_batch: pa.RecordBatch | pa.Table) -> list[DecodedRecord]:
    columns = {name: arrow_batch.column(name).to_pylist() for name in ("key", "value", "offset", "headers")}
    times = [time // 1000 for time in arrow_batch.column("timestamp").cast(pa.int64()).to_pylist()]
    headers = [tuple((h["key"], h["value"]) for h in entry or ()) for entry in columns["headers"]]
    fields = zip(columns["offset"], times, columns["key"], columns["value"], headers, strict=True)
    return [DecodedRecord(*row) for row in fields]


def _next_offset(log: bytes) -> int:
    return max((header.next_offset for _, header in iter_headers(log)), default=0)


@repeatable
@given(log=logs())
def test_it_decodes_what_the_plain_reader_reads(log: bytes) -> None:
    decoded = _decode(log)
    decoded.arrow_batch.validate(full=True)
    assert _rows(decoded.arrow_batch) == list(iter_records(log))
    assert (decoded.next_offset, decoded.consumed_bytes) == (_next_offset(log), len(log))


@repeatable
@given(log=logs(), data=st.data())
def test_a_range_of_offsets_is_cut_out_exactly(log: bytes, data: st.DataObject) -> None:
    records = list(iter_records(log))
    low = min((header.base_offset for _, header in iter_headers(log)), default=0)
    start, end = sorted(data.draw(st.integers(low, _next_offset(log) + 2)) for _ in range(2))
    decoded = _decode(log, start, end)
    assert _rows(decoded.arrow_batch) == [record for record in records if start <= record.offset < end]
    assert decoded.next_offset == max(start, min(end, _next_offset(log)))


@repeatable
@given(log=logs(), columns=st.sets(st.sampled_from(sorted(COLUMNS))))
def test_only_the_columns_that_are_asked_for_come_back(log: bytes, columns: set[str]) -> None:
    whole, part = _decode(log).arrow_batch, _decode(log, columns=frozenset(columns)).arrow_batch
    assert part.schema.names == [name for name in SCHEMA.names if name in columns]
    for name in columns:
        assert part.column(name).equals(whole.column(name))


@repeatable
@given(log=logs(), cut=st.integers(1, 80), budget=st.integers(1, 2000))
def test_calling_on_from_where_it_stopped_gets_everything(log: bytes, cut: int, budget: int) -> None:
    log = log[:-cut]
    rows, start, at = [], 0, 0
    while True:
        decoded = _decode(log[at:], start, options=DecodeOptions(total_bytes_max=budget))
        rows += _rows(decoded.arrow_batch)
        if decoded.next_offset == start:
            break
        assert decoded.next_offset > start
        start, at = decoded.next_offset, at + decoded.consumed_bytes
    assert rows == list(iter_records(log))


def test_topic_partition_and_timestamp_type_are_filled_in() -> None:
    log = sample(2) + sample(1, base_offset=2, log_append_time_ms=9)
    rows = _decode(log).arrow_batch.to_pydict()
    assert (rows["topic"], rows["partition"], rows["timestamp_type"]) == (["topic"] * 3, [3] * 3, [0, 0, 1])
    assert rows["timestamp"][2].timestamp() == 0.009


def test_a_record_without_headers_has_null_for_them() -> None:
    log = build_batch([NewRecord(b"k", b"v"), NewRecord(None, None, (("", None),))])
    assert _decode(log).arrow_batch.to_pydict()["headers"] == [None, [{"key": "", "value": None}]]


def test_an_empty_buffer_decodes_to_no_records() -> None:
    decoded = _decode(b"", 7)
    assert (decoded.arrow_batch.num_rows, decoded.next_offset, decoded.consumed_bytes) == (0, 7, 0)
    assert decoded.arrow_batch.schema.equals(SCHEMA)


def test_control_batches_are_passed_over() -> None:
    log = captured("transactions")
    decoded = _decode(log)
    assert _rows(decoded.arrow_batch) == list(iter_records(log))
    assert decoded.next_offset == 28, "the last batch is a marker"


def test_aborted_transactions_are_left_out() -> None:
    log = captured("transactions")
    decoded = _decode(log, aborted=[(0, 7), (0, 21)])
    values = decoded.arrow_batch.to_pydict()["value"]
    assert set(values) == {b"commit", b"outside"}
    assert (len(values), decoded.next_offset) == (14, 28)


def test_an_abort_ends_at_its_marker_and_touches_no_other_producer() -> None:
    def data(base_offset: int, producer_id: int, *, transactional: bool = True) -> bytes:
        return sample(1, base_offset=base_offset, producer=ProducerStamp(producer_id, 0, 0, transactional))

    def marker(base_offset: int, kind: ControlType) -> bytes:
        return build_control_batch(kind, producer_id=1, producer_epoch=0, timestamp_ms=0, base_offset=base_offset)

    log = data(0, 1) + data(1, 2) + data(2, 1, transactional=False) + marker(3, ControlType.ABORT) + data(4, 1)
    log += marker(5, ControlType.COMMIT) + data(6, 1) + marker(7, ControlType.ABORT) + data(8, 1)
    kept = _decode(log, aborted=[(1, 6), (1, 0)]).arrow_batch.column("offset").to_pylist()
    assert kept == [1, 2, 4, 8]


def _interleaved_transactions() -> tuple[bytes, list[tuple[int, int]]]:
    """Producers 1 and 2 take turns and abort every other transaction; (log, its aborted transactions)."""
    parts, aborted, offset, open_since = [], [], 0, {}
    for step in range(24):
        producer = 1 + step % 2
        stamp = ProducerStamp(producer, 0, 0, is_transactional=True)
        open_since.setdefault(producer, offset)
        parts.append(sample(2, base_offset=offset, producer=stamp, compression=CODECS[step % 5]))
        offset += 2
        if step % 3 == 2:
            kind = ControlType(len(parts) // 3 % 2)
            marker = {"producer_id": producer, "producer_epoch": 0, "timestamp_ms": 0, "base_offset": offset}
            parts.append(build_control_batch(kind, **marker))
            first = open_since.pop(producer)
            offset += 1
            if kind is ControlType.ABORT:
                aborted.append((producer, first))
    return b"".join(parts), aborted


@pytest.mark.parametrize("sliced", [False, True])
def test_aborted_transactions_stay_out_when_the_buffer_is_decoded_in_parts(sliced: bool) -> None:
    log, aborted = _interleaved_transactions()
    whole = _decode(log, aborted=aborted)
    assert 0 < whole.arrow_batch.num_rows < 48
    assert whole.aborted == ()
    rows, rest, start, left = [], log, 0, aborted
    while start < whole.next_offset:
        decoded = _decode(rest, start, aborted=left, options=DecodeOptions(total_bytes_max=1))
        rows, start = rows + _rows(decoded.arrow_batch), decoded.next_offset
        if sliced:
            rest, left = rest[decoded.consumed_bytes :], decoded.aborted
    assert rows == _rows(whole.arrow_batch)


@pytest.mark.parametrize("name", ["java", "librdkafka"])
def test_what_real_clients_wrote_is_decoded(name: str) -> None:
    log = captured(name)
    assert _rows(_decode(log).arrow_batch) == list(iter_records(log))


def test_codecs_may_change_from_batch_to_batch() -> None:
    log = b"".join(sample(5, base_offset=n * 5, compression=codec) for n, codec in enumerate(CODECS * 2))
    assert _rows(_decode(log).arrow_batch) == list(iter_records(log))


def test_good_batches_before_a_bad_one_are_decoded_first() -> None:
    bad = bytearray(sample(base_offset=3))
    bad[-1] ^= 1
    log = sample() + bytes(bad)
    decoded = _decode(log)
    assert (decoded.arrow_batch.num_rows, decoded.next_offset, decoded.consumed_bytes) == (3, 3, len(sample()))
    with pytest.raises(CorruptBatchError, match="checksum"):
        _decode(log, 3)


def test_the_checksum_is_verified_unless_told_otherwise() -> None:
    damaged = bytearray(sample())
    damaged[17] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum"):
        _decode(damaged)
    assert _decode(damaged, options=DecodeOptions(verify_crc=False)).arrow_batch.num_rows == 3


def test_offsets_that_go_back_are_refused() -> None:
    log = sample(base_offset=10) + sample(base_offset=12)
    assert _decode(log).next_offset == 13
    with pytest.raises(CorruptBatchError, match="goes back"):
        _decode(log, 13)


def test_a_damaged_transaction_marker_stops_before_it() -> None:
    marker = build_control_batch(ControlType.ABORT, producer_id=1, producer_epoch=0, timestamp_ms=0, base_offset=3)
    log = sample(base_offset=0) + with_payload(marker, b"\x02\x00")
    with pytest.raises(CorruptBatchError):
        _decode(log, 3, aborted=[(1, 0)])
    assert _decode(log, 0, aborted=[(1, 0)]).next_offset == 3


def test_the_decompression_limit_stops_before_the_batch() -> None:
    bomb = build_batch([NewRecord(None, bytes(10**6))], compression=Compression.ZSTD, base_offset=3)
    options = DecodeOptions(batch_bytes_max=10**5)
    assert _decode(sample() + bomb, options=options).next_offset == 3
    with pytest.raises(CorruptBatchError, match="offset 3: zstd data would exceed the limit"):
        _decode(bomb, 3, options=options)


def test_a_batch_of_more_records_than_one_call_takes_is_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_decode, "_RECORDS_MAX", 4)
    log = sample(3, log_append_time_ms=1) + sample(7, base_offset=3, compression=Compression.ZSTD)
    parts, start = [], 0
    while start < 10:
        decoded = _decode(log, start)
        assert decoded.next_offset == start + decoded.arrow_batch.num_rows
        parts, start = [*parts, decoded.arrow_batch], decoded.next_offset
    assert [part.num_rows for part in parts] == [4, 4, 2]
    table = pa.Table.from_batches(parts)
    assert _rows(table) == list(iter_records(log))
    assert table.column("timestamp_type").to_pylist() == [1] * 3 + [0] * 7


def test_a_buffer_that_changes_while_it_is_decoded_is_refused() -> None:
    notes = np.full((native_decode.NOTE_ROWS, 1), 0, np.int64)
    notes[native_decode.HEADERS_END], notes[native_decode.HEADER_COUNT] = 2, 1
    source = np.frombuffer(b"\x7e\x7e", np.uint8)
    room = np.empty((native_decode.HEADER_NOTE_ROWS, 1), np.int64)
    assert not native_decode.note_headers(source, notes, 1, room)


def test_timestamps_beyond_microseconds_are_saturated() -> None:
    rows = [NewRecord(None, b"", (), 2**63 - 1), NewRecord(None, b"", (), -1)]
    for times, expected in ((rows, [2**63 - 1, -1000]), ([NewRecord(None, b"", (), -(2**62))], [-(2**63 - 1)])):
        batch = _decode(build_batch(times), columns=frozenset({"timestamp"})).arrow_batch
        assert batch.column("timestamp").cast(pa.int64()).to_pylist() == expected


def test_a_header_name_that_is_not_utf8_is_decoded_with_replacements() -> None:
    batch = build_batch([NewRecord(None, None, (("aé", b"1"), ("b", b"2")))])
    damaged = resealed(batch.replace("aé".encode(), b"a\xff\xfe"))
    assert _rows(_decode(damaged).arrow_batch) == list(iter_records(damaged))


def test_a_column_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="colour"):
        _decode(b"", columns=frozenset({"colour"}))


@pytest.mark.parametrize("limit", [0, 2**31])
def test_limits_beyond_arrows_offsets_are_refused(limit: int) -> None:
    with pytest.raises(InputError):
        DecodeOptions(total_bytes_max=limit)
    with pytest.raises(InputError):
        DecodeOptions(batch_bytes_max=limit)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_any_buffer_will_do(kind: type, codec: Compression) -> None:
    log = sample(compression=codec)
    assert _rows(_decode(kind(log)).arrow_batch) == list(iter_records(log))


def test_a_mapped_file_will_do_and_can_be_closed_after(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(captured("java"))
    with (tmp_path / "log").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        decoded = _decode(mapped)
    assert decoded.arrow_batch.num_rows == 200


def test_the_result_does_not_change_with_the_buffer() -> None:
    buffer = bytearray(sample())
    decoded = _decode(buffer)
    buffer[:] = bytes(len(buffer))
    assert _rows(decoded.arrow_batch) == list(iter_records(sample()))


def test_a_batch_that_compaction_emptied_moves_the_offset_on() -> None:
    header, batch = split(sample(4, base_offset=5))[0]
    empty = with_payload(with_field(batch, 21, ">h", Compression.GZIP), b"", 0)
    assert read_header(empty).next_offset == header.next_offset
    decoded = _decode(empty, 5)
    assert (decoded.arrow_batch.num_rows, decoded.next_offset) == (0, 9)
