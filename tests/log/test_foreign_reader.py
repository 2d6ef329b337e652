"""Apache Kafka's own DumpLogSegments reads every file that the log writes, without a complaint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mainstem.clock import SystemClock
from mainstem.log.cleaning.compaction import compact
from mainstem.log.cleaning.compaction_job import CleanedSegment
from mainstem.log.files.disk import OsDisk
from mainstem.log.node.node_log import NodeLog
from mainstem.model import TopicPartition
from mainstem.record.constants import Compression
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch
from tests.log.support import in_transaction, swap_in
from tests.support.apache_kafka import run_tool

pytestmark = pytest.mark.maven

CONFIGS = {"segment.bytes": "9000", "index.interval.bytes": "400"}
DUMP = "org.apache.kafka.tools.DumpLogSegments"
# Kafka 4.3.1's tool says of every segment that does not begin at offset 0 that its first offset follows on -1.
_QUIRK = re.compile(r"Non-consecutive offsets in |  -1 is followed by |WARNING")
# And of any compacted log that records are missing.
_COMPACTED = re.compile(r"Non-consecutive offsets in |  -?\d+ is followed by |WARNING")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with several segments, all codecs, idempotent and transactional producers, and a clean end."""
    path = tmp_path_factory.mktemp("data")
    clock = SystemClock()
    node = NodeLog.open(OsDisk(), clock, path, {})
    node.create_topic("events", 1, CONFIGS)
    log = node.get(TopicPartition("events", 0))
    for number in range(120):
        records = [NewRecord(b"k%d" % at, b"v" * 60, (("h", b"x"),), clock.time_ms() + number) for at in range(4)]
        producer = ProducerStamp(number % 3, 0, number // 3 * 4)
        log.append(build_batch(records, compression=Compression(number % 5), producer=producer))
        if number % 7 == 0:
            log.flush()
    _write_transactions(node)
    _write_compacted(node)
    node.close()
    return path


def _write_transactions(node: NodeLog) -> None:
    """A topic with transactions across segments: every third is aborted, and two are left open."""
    node.create_topic("orders", 1, CONFIGS)
    log = node.get(TopicPartition("orders", 0))
    for number in range(60):
        producer_id, sequence = number % 2, number // 2 * 3
        for at in range(3):
            log.append(in_transaction(producer_id, sequence + at, b"v" * 80))
        commit = number % 3 != 0
        if number < 58:
            log.append_marker(producer_id, 0, commit=commit, coordinator_epoch=number, timestamp_ms=number)
    log.append_marker(9, 3, commit=True, coordinator_epoch=1, timestamp_ms=SystemClock().time_ms())
    log.flush()


def _write_compacted(node: NodeLog) -> None:
    """A compacted topic: gaps, batches without records, delete horizons, emptied markers."""
    node.create_topic("tables", 1, {**CONFIGS, "cleanup.policy": "compact", "delete.retention.ms": "0"})
    log = node.get(TopicPartition("tables", 0))
    now_ms, cleaned_offset = SystemClock().time_ms(), 0
    for life in range(2):
        for number in range(100):
            rows = [NewRecord(b"k%d" % (at * number % 30), b"v" * 60 if at else None, (), now_ms) for at in range(4)]
            producer = ProducerStamp(life * 2 + number % 2, 0, number // 2 * 4, number % 2 == 1)
            log.append(build_batch(rows, compression=Compression(number % 5), producer=producer))
            if number % 2:
                timestamp_ms = now_ms + number
                log.append_marker(
                    life * 2 + 1, 0, commit=number % 3 > 0, coordinator_epoch=0, timestamp_ms=timestamp_ms
                )
        log.flush()
        dirty = log.cleaning.dirty(now_ms + life, cleaned_offset)
        assert dirty is not None
        for answer in compact(OsDisk(), log.cleaning.compaction_job(dirty, now_ms + life, 1 << 20)):
            if isinstance(answer, CleanedSegment):
                assert swap_in(log, answer)
            else:
                cleaned_offset = answer.cleaned_offset
    log.flush()


def dump(data: Path, suffix: str, *options: str, partition: str = "events-0") -> str:
    """Dump all the partition's files of one kind; what the tool printed, its complaints included."""
    files = sorted(str(file) for file in (data / partition).glob(f"*{suffix}"))
    assert files
    done = run_tool(DUMP, *options, "--files", ",".join(files))
    assert done.returncode == 0, done.stderr
    quirk = _COMPACTED if partition == "tables-0" else _QUIRK
    assert [line for line in done.stderr.splitlines() if not quirk.match(line)] == []
    return done.stdout


def test_kafka_reads_every_record_of_every_segment(data: Path) -> None:
    printed = dump(data, ".log", "--deep-iteration", "--print-data-log")
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", printed, re.MULTILINE)]
    assert offsets == list(range(480))
    assert printed.count("isvalid: true") == 120
    assert "isvalid: false" not in printed


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_kafka_finds_the_indexes_sound(data: Path, suffix: str, option: str) -> None:
    dump(data, suffix, option)


def test_kafka_lists_the_offset_index(data: Path) -> None:
    assert len(re.findall(r"^offset: \d+ position: \d+", dump(data, ".index"), re.MULTILINE)) > 20


def test_kafka_lists_the_time_index(data: Path) -> None:
    assert len(re.findall(r"^timestamp: \d+ offset: \d+", dump(data, ".timeindex"), re.MULTILINE)) > 20


def test_kafka_reads_the_producer_snapshots(data: Path) -> None:
    printed = dump(data, ".snapshot")
    newest = printed.split("Dumping ")[-1]
    assert re.findall(r"producerId: (\d)", newest) == ["0", "1", "2"]
    assert newest.count("lastSequence: 159") == 3


def test_kafka_reads_transactions_and_their_markers(data: Path) -> None:
    printed = dump(data, ".log", "--deep-iteration", partition="orders-0")
    assert printed.count("isTransactional: true") == 60 * 3 + 59
    assert printed.count("endTxnMarker: ABORT") == 20
    assert printed.count("endTxnMarker: COMMIT") == 39
    assert "isvalid: false" not in printed


def test_kafka_lists_the_transaction_indexes(data: Path) -> None:
    printed = dump(data, ".txnindex", partition="orders-0")
    entries = re.findall(
        r"version: 0 producerId: (\d) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", printed
    )
    aborted = [tuple(map(int, entry)) for entry in entries]
    assert aborted == [(number % 2, number * 4, number * 4 + 3, number * 4 + 4) for number in range(0, 58, 3)]


def test_kafka_reads_the_open_transactions_in_the_producer_snapshots(data: Path) -> None:
    newest = dump(data, ".snapshot", partition="orders-0").split("Dumping ")[-1]
    found = re.findall(
        r"producerId: (\d) producerEpoch: (\d) coordinatorEpoch: (\d+) currentTxnFirstOffset: (\S+)", newest
    )
    assert found == [
        ("0", "0", "56", "OptionalLong[232]"),
        ("1", "0", "57", "OptionalLong[235]"),
        ("9", "3", "1", "OptionalLong.empty"),
    ]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_kafka_finds_the_indexes_of_transactions_sound(data: Path, suffix: str) -> None:
    dump(data, suffix, "--verify-index-only", partition="orders-0")


def test_kafka_reads_the_metadata(data: Path) -> None:
    done = run_tool(
        DUMP, "--deep-iteration", "--print-data-log", "--files",
        str(data / "__mainstem_metadata-0" / "00000000000000000000.log"),
    )  # fmt: skip
    assert done.returncode == 0
    assert '"topic": "events"' in done.stdout


def test_kafka_reads_what_compaction_left(data: Path) -> None:
    printed = dump(data, ".log", "--deep-iteration", "--print-data-log", partition="tables-0")
    assert "isvalid: false" not in printed
    assert "isvalid: true" in printed
    batches = [(int(first), int(last)) for first, last in re.findall(r"baseOffset: (\d+) lastOffset: (\d+)", printed)]
    assert [first for first, _ in batches[1:]] == [last + 1 for _, last in batches[:-1]]
    assert " count: 0 " in printed
    assert "deleteHorizonMs: OptionalLong[" in printed
    for suffix in (".index", ".timeindex"):
        for option in ("--index-sanity-check", "--verify-index-only"):
            for line in dump(data, suffix, option, partition="tables-0").splitlines():
                assert "Found timestamp mismatch" not in line
                assert "Mismatches" not in line
