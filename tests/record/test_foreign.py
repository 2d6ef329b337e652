"""Apache Kafka's own dump tool reads what is written here; what real clients wrote is in the tests of the readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.log.partition.batch_validation import with_log_append_time
from mainstem.record.constants import Compression, ControlType
from mainstem.record.header import HEADER, read_header
from mainstem.record.writer import (
    NewRecord,
    ProducerStamp,
    build_batch,
    build_control_batch,
    rebuild_batch,
)
from tests.record.batches import CODECS
from tests.support.apache_kafka import run_tool

pytestmark = pytest.mark.maven


def _dump(directory: Path, batches: list[bytes]) -> list[str]:
    segment = directory / "topic-0" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.write_bytes(b"".join(batches))
    arguments = ("--deep-iteration", "--print-data-log", "--files", str(segment))
    done = run_tool("org.apache.kafka.tools.DumpLogSegments", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    headers = [line for line in lines if line.startswith("baseOffset")]
    assert len(headers) == len(batches)
    assert all(line.endswith("isvalid: true") for line in headers)
    return lines


def _rows(codec: Compression, count: int) -> list[NewRecord]:
    headers = (("codec", codec.name.encode()), ("none", None))
    return [NewRecord(b"%s-%d" % (codec.name.encode(), n), b"v%d " % n * n, headers, 10**12 + n) for n in range(count)]


def test_the_dump_tool_reads_batches_of_every_codec(tmp_path: Path) -> None:
    batches: list[bytes] = []
    for codec in CODECS:
        for count in (1, 600):  # 600 records of up to 3 kB: several blocks of snappy and lz4
            base = read_header(batches[-1]).next_offset if batches else 0
            producer = ProducerStamp(7, 0, base)
            batches.append(build_batch(_rows(codec, count), base_offset=base, compression=codec, producer=producer))
    lines = _dump(tmp_path, batches)
    assert sum(line.startswith("| offset") for line in lines) == 601 * len(CODECS)
    for codec in CODECS:
        assert any(f"headerKeys: [codec,none] key: {codec.name}-2 payload: v2 v2 " in line for line in lines)


def test_the_dump_tool_reads_markers_tombstones_and_stamped_times(tmp_path: Path) -> None:
    batch = build_batch([NewRecord(b"k", b"v")], base_offset=1)
    records = memoryview(batch)[HEADER.size :]
    _, header = with_log_append_time(read_header(batch), records, 1_700_000_000_999)
    tombstone = NewRecord(b"gone", None, (), 5)
    one = read_header(build_batch([tombstone], base_offset=2))
    batches = [
        build_control_batch(ControlType.ABORT, producer_id=7, producer_epoch=0, timestamp_ms=9, coordinator_epoch=5),
        header + records,
        rebuild_batch(one, [(2, tombstone)], delete_horizon_ms=1234567, compression=Compression.ZSTD),
        rebuild_batch(one._replace(base_offset=3), []),
    ]
    text = "\n".join(_dump(tmp_path, batches))
    assert "endTxnMarker: ABORT coordinatorEpoch: 5" in text
    assert "LogAppendTime: 1700000000999" in text
    assert "deleteHorizonMs: OptionalLong[1234567]" in text
    assert "key: gone" in text
