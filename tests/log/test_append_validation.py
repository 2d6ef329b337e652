from __future__ import annotations

import random

import pytest

from mainstem.errors import InvalidRecordError, InvalidTimestampError, RecordTooLargeError
from mainstem.log.partition.append_validation import AppendCheck
from mainstem.log.partition.config import LogConfig
from mainstem.record.constants import Compression
from mainstem.record.header import iter_headers, read_header, verify
from mainstem.record.reader import iter_records
from mainstem.record.writer import NewRecord, ProducerStamp, assemble_batch, build_batch
from tests.log.support import NOW_MS, Node, values

CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def prepare(data: bytes, **configs: str) -> memoryview:
    config = LogConfig.of({name.replace("_", "."): value for name, value in configs.items()})
    checked = AppendCheck(data, config, NOW_MS).run()
    for at, header in checked.batches:
        assert header == read_header(checked.view, at)
        verify(checked.view, at, header)
    return checked.view


def keys(*keys: bytes | None, compression: Compression = Compression.NONE) -> bytes:
    return build_batch([NewRecord(key, b"v" * 50, (("h", b"x"),), NOW_MS) for key in keys], compression=compression)


# Keys


@pytest.mark.parametrize("codec", list(Compression))
def test_a_compacted_topic_names_the_records_that_have_no_key(codec: Compression) -> None:
    data = keys(b"a", None) + keys(b"b", compression=codec) + keys(None, b"c", None, compression=codec)
    with pytest.raises(InvalidRecordError, match=r"record 1: .*key") as refused:
        prepare(keys(b"a", None) + keys(b"b"), cleanup_policy="compact")
    assert list(refused.value.records) == [1]
    with pytest.raises(InvalidRecordError) as refused:
        prepare(data.replace(keys(b"a", None), keys(b"a", b"x")), cleanup_policy="compact,delete")
    assert list(refused.value.records) == [3, 5]
    assert prepare(data) == data


def test_an_empty_key_is_a_key() -> None:
    data = keys(b"")
    assert prepare(data, cleanup_policy="compact") == data


def test_offsets_that_do_not_follow_on_are_refused() -> None:
    good = keys(b"a")
    at = good.index(b"\x02a") - 1
    data = assemble_batch(read_header(good), good[61:at] + b"\x02" + good[at + 1 :])
    with pytest.raises(InvalidRecordError, match=r"record 0: .*offset"):
        prepare(data)


# Timestamps


def test_each_timestamp_before_the_bound_is_named() -> None:
    times = [NOW_MS, NOW_MS - 10, NOW_MS - 11, -1, NOW_MS - 5000]
    data = build_batch([NewRecord(b"k", b"v", (), timestamp_ms) for timestamp_ms in times])
    with pytest.raises(InvalidTimestampError, match=r"before\.max\.ms=10") as refused:
        prepare(data, message_timestamp_before_max_ms="10")
    assert list(refused.value.records) == [2, 4]
    assert prepare(data) == data
    late = {"message_timestamp_before_max_ms": "10", "message_timestamp_type": "LogAppendTime"}
    assert prepare(data, **late) == data


# Compression


@pytest.mark.parametrize("to", list(CODECS))
@pytest.mark.parametrize("sent", list(Compression))
def test_a_batch_in_another_codec_is_compressed_anew(sent: Compression, to: str) -> None:
    producer = ProducerStamp(5, 1, 7, True)
    rows = [NewRecord(b"%d" % at, b"v" * 100, (("h", b"x"),), NOW_MS + at) for at in range(20)]
    data = build_batch(rows, compression=sent, producer=producer) + build_batch(rows, compression=sent)
    prepared = prepare(data, compression_type=to)
    headers = [header for _, header in iter_headers(prepared)]
    assert {header.compression for header in headers} == {CODECS[to]}
    assert list(iter_records(prepared)) == list(iter_records(data))
    assert (headers[0].producer_id, headers[0].producer_epoch, headers[0].base_sequence) == (5, 1, 7)
    assert headers[0].is_transactional
    if sent is CODECS[to]:
        assert prepared == data


@pytest.mark.parametrize(("codec", "levels"), [("gzip", "1 9"), ("zstd", "-5 19")])
def test_the_level_is_the_topics(codec: str, levels: str) -> None:
    chance = random.Random(1)
    words = [chance.randbytes(6) for _ in range(50)]
    rows = [NewRecord(b"k", b" ".join(chance.choices(words, k=60)), (), NOW_MS) for _ in range(40)]
    data = build_batch(rows)
    low, high = (
        prepare(data, compression_type=codec, **{f"compression_{codec}_level": level}) for level in levels.split()
    )
    assert list(iter_records(low)) == list(iter_records(high)) == list(iter_records(data))
    assert len(high) < len(low)


def test_max_message_bytes_holds_for_what_is_stored() -> None:
    data = keys(*[b"k"] * 100, compression=Compression.ZSTD)
    assert len(data) < 1000
    with pytest.raises(RecordTooLargeError, match=r"compression\.type=uncompressed"):
        prepare(data, compression_type="uncompressed", max_message_bytes="1000")


# In the log


def test_a_refused_append_leaves_nothing_and_a_compressed_one_is_read_back() -> None:
    node = Node(cleanup_policy="compact", compression_type="zstd")
    with pytest.raises(InvalidRecordError):
        node.log.append(keys(b"a", None))
    assert node.log.log_end_offset == 0
    result = node.log.append(keys(b"a", b"b") + keys(b"c"))
    assert (result.base_offset, result.last_offset) == (0, 2)
    node.log.flush()
    assert values(node.log) == [b"v" * 50] * 3
    (buffer,) = node.log.read(0, 1 << 20).buffers
    assert {header.compression for _, header in iter_headers(buffer)} == {Compression.ZSTD}
    node.cut_power_and_start()
    assert values(node.log) == [b"v" * 50] * 3


def test_a_repeat_of_a_batch_that_was_compressed_anew_is_known() -> None:
    node = Node(compression_type="lz4")
    data = build_batch([NewRecord(b"a", b"v" * 200, (), NOW_MS)], producer=ProducerStamp(5, 0, 0))
    assert not node.log.append(data).duplicate
    assert node.log.append(data).duplicate
