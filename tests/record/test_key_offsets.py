from __future__ import annotations

import random
from typing import TypeAlias

import numpy as np
import pytest

from mainstem.errors import CorruptBatchError
from mainstem.record.constants import Compression
from mainstem.record.header import read_header, verify
from mainstem.record.key_offsets.batches import Batch
from mainstem.record.key_offsets.native_map import NativeKeyOffsets
from mainstem.record.key_offsets.plain_map import PlainKeyOffsets
from mainstem.record.native.native_compact import hash_key
from mainstem.record.reader import DecodedRecord, read_records
from mainstem.record.writer import NewRecord, assemble_batch, build_batch

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
MAP_BYTES = 1 << 20
KeyOffsets: TypeAlias = NativeKeyOffsets | PlainKeyOffsets
KeyOffsetsClass: TypeAlias = type[NativeKeyOffsets] | type[PlainKeyOffsets]


@pytest.fixture(params=[NativeKeyOffsets, PlainKeyOffsets])
def made_map(request: pytest.FixtureRequest) -> KeyOffsetsClass:
    chosen: KeyOffsetsClass = request.param
    return chosen


def made(records: list[NewRecord], base_offset: int = 0, compression: Compression = Compression.NONE) -> Batch:
    data = build_batch(records, base_offset=base_offset, compression=compression)
    return Batch(read_header(data), memoryview(data))


def rebuilt(data: bytes | memoryview | None) -> Batch:
    assert data is not None
    header = read_header(data)
    verify(data, 0, header)
    return Batch(header, memoryview(data))


def compacted(batches: list[Batch], made_map: KeyOffsetsClass, now_ms: int = NOW_MS) -> list[Batch]:
    keys = made_map(MAP_BYTES, 10_000)
    keys.add(batches, 0)
    return [rebuilt(each) for each in keys.filtered(batches, now_ms, DAY_MS) if each is not None]


def records_of(batches: list[Batch]) -> list[DecodedRecord]:
    return [record for batch in batches for record in read_records(batch.data)]


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", "a3817f04ba25a8e66df67214c7550293"),
        (bytes(range(1)), "da87c1d86b99af44347659119b22fc45"),
        (bytes(range(15)), "5493e99933b0a8117e08ec0f97cfc3d9"),
        (bytes(range(63)), "5150d1772f50834a503e069a973fbd7c"),
    ],
)
def test_keys_are_hashed_by_siphash_as_its_authors_published_it(data: bytes, digest: str) -> None:
    found = np.zeros(2, np.uint64)
    hash_key(np.frombuffer(data, np.uint8), np.frombuffer(bytes(range(16)), np.uint64).copy(), found)
    assert found.tobytes().hex() == digest


@pytest.mark.parametrize("codec", list(Compression))
def test_the_latest_record_of_each_key_stays_where_it_was(codec: Compression, made_map: KeyOffsetsClass) -> None:
    chance = random.Random(7)
    batches, latest, offset = [], {}, 0
    for _ in range(30):
        rows = []
        for _ in range(chance.randint(1, 9)):
            key = b"%d" % chance.randint(0, 25)
            row = NewRecord(
                key,
                chance.randbytes(chance.randint(0, 40)),
                (("h", b"x"),) * chance.randint(0, 2),
                NOW_MS + chance.randint(-9, 9),
            )
            latest[key] = DecodedRecord(offset + len(rows), row.timestamp_ms, key, row.value, row.headers)
            rows.append(row)
        batches.append(made(rows, offset, codec))
        offset += len(rows)
    found = compacted(batches, made_map)
    assert records_of(found) == sorted(latest.values())
    for batch in found:
        rows = records_of([batch])
        assert batch.header.compression is codec
        assert batch.header.max_timestamp == max(row.timestamp_ms for row in rows)


def test_a_batch_of_which_all_stays_is_the_same_bytes(made_map: KeyOffsetsClass) -> None:
    batch = made([NewRecord(b"a", b"1", (), NOW_MS), NewRecord(b"b", b"2", (), NOW_MS)])
    assert compacted([batch], made_map)[0].data == batch.data


def test_records_without_a_key_go_and_those_behind_what_is_covered_stay(made_map: KeyOffsetsClass) -> None:
    batches = [made([NewRecord(None, b"1", (), NOW_MS)]), made([NewRecord(b"a", b"2", (), NOW_MS)], 1)]
    keys = made_map(MAP_BYTES, 10)
    keys.add(batches, 0)
    later = made([NewRecord(None, b"3", (), NOW_MS), NewRecord(b"a", b"4", (), NOW_MS)], 2)
    found = [each for each in keys.filtered([*batches, later], NOW_MS, DAY_MS) if each is not None]
    assert [record.value for record in records_of([rebuilt(each) for each in found])] == [b"2", b"3", b"4"]


def test_a_tombstone_gets_a_horizon_stays_until_then_and_goes(made_map: KeyOffsetsClass) -> None:
    batch = made(
        [
            NewRecord(b"a", b"1", (), NOW_MS - 5),
            NewRecord(b"a", None, (("h", None),), NOW_MS),
            NewRecord(b"b", b"2", (), NOW_MS - 7),
        ]
    )
    first = compacted([batch], made_map)
    assert first[0].header.has_delete_horizon
    assert first[0].header.base_timestamp == NOW_MS + DAY_MS
    expected = [DecodedRecord(1, NOW_MS, b"a", None, (("h", None),)), DecodedRecord(2, NOW_MS - 7, b"b", b"2", ())]
    assert records_of(first) == expected
    again = compacted(first, made_map, now_ms=NOW_MS + DAY_MS - 1)
    assert again[0].data == first[0].data
    assert records_of(compacted(again, made_map, now_ms=NOW_MS + DAY_MS)) == expected[1:]


def test_a_full_map_says_how_far_it_came_and_takes_nothing_more(made_map: KeyOffsetsClass) -> None:
    batches = [
        made([NewRecord(b"%d" % (offset + at), b"v", (), NOW_MS) for at in range(100)], offset)
        for offset in range(0, 3000, 100)
    ]
    keys = made_map(24 * 1024, 10_000)
    keys.add(batches, 0)
    assert keys.is_full
    assert keys.covered == int(1024 * 0.9) - 1


def test_records_before_the_start_are_not_mapped(made_map: KeyOffsetsClass) -> None:
    batches = [made([NewRecord(b"a", b"1", (), NOW_MS), NewRecord(b"b", b"2", (), NOW_MS)])]
    keys = made_map(MAP_BYTES, 10)
    keys.add(batches, 1)
    assert keys.covered == 1
    assert next(keys.filtered(batches, NOW_MS, DAY_MS)) == batches[0].data


def test_records_that_do_not_add_up_are_refused(made_map: KeyOffsetsClass) -> None:
    good = made([NewRecord(b"a", b"1", (), NOW_MS)])
    chance = random.Random(1)
    refused = 0
    for _ in range(400):
        payload = bytearray(good.data[61:])
        payload[chance.randrange(len(payload))] = chance.randrange(256)
        data = assemble_batch(good.header, bytes(payload))
        batch = Batch(read_header(data), memoryview(data))
        try:
            read_records(data)
        except CorruptBatchError:
            refused += 1
            with pytest.raises(CorruptBatchError):
                made_map(MAP_BYTES, 10).add([batch], 0)
            with pytest.raises(CorruptBatchError):
                list(made_map(MAP_BYTES, 10).filtered([batch], NOW_MS, DAY_MS))
        else:
            made_map(MAP_BYTES, 10).add([batch], 0)
    assert refused > 50


def _results(made_map: KeyOffsetsClass, batches: list[Batch]) -> list[bytes | None] | str:
    """What is stored of each batch, or the error."""
    keys = made_map(MAP_BYTES, 10_000)
    try:
        keys.add(batches, 3)
        return [None if each is None else bytes(each) for each in keys.filtered(batches, NOW_MS, DAY_MS)]
    except CorruptBatchError as error:
        return str(error)


def test_plain_and_native_code_store_the_same_bytes_and_refuse_the_same_records() -> None:
    chance = random.Random(5)
    refused = kept = 0
    for _ in range(300):
        rows = [
            NewRecord(
                chance.choice([None, b"a", b"b", b"c" * 70, b""]),
                chance.choice([None, b"", b"v", b"w" * 200]),
                chance.choice([(), (("h", None),), (("h", b"1"), ("", b"x" * 130))]),
                NOW_MS + chance.randint(-1000, 1000),
            )
            for _ in range(chance.randint(1, 6))
        ]
        batch, after = made(rows), made([NewRecord(b"a", b"1", (), NOW_MS)], len(rows))
        payload = bytearray(batch.data[61:])
        if chance.random() < 0.8:
            payload[chance.randrange(min(len(payload), 10))] = chance.randrange(256)
        data = assemble_batch(batch.header, bytes(payload))
        batches = [Batch(read_header(data), memoryview(data)), after]
        found = _results(PlainKeyOffsets, batches)
        assert found == _results(NativeKeyOffsets, batches)
        refused += isinstance(found, str)
        kept += not isinstance(found, str)
    assert min(refused, kept) > 50
