"""Closed segments read from the log's files: row for row what the socket gives, whatever lies in them."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from mainstem.client.log import Log
from mainstem.client.security import Security
from mainstem.client.wire.cluster.cluster import Isolation, WireClient
from mainstem.model import TopicPartition
from mainstem.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from mainstem.record.arrow_columns import COLUMNS
from mainstem.record.constants import Compression
from mainstem.record.writer import NewRecord, build_batch
from mainstem.spark.tasks import local_segments
from mainstem.spark.tasks.local_segments import may_be_read, read_local
from mainstem.spark.tasks.ranges import OffsetRange
from mainstem.spark.tasks.scan import ScanOptions, read_range
from mainstem.testing import EmbeddedBroker

SEGMENT_BYTES = 16 * 1024
SMALL_SEGMENTS = {"internal.segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedBroker]:
    monkeypatch.setattr(local_segments, "OFFSETS_MIN", 1)
    with EmbeddedBroker(tmp_path) as broker:
        yield broker
    local_segments._DIRECTORIES.clear()


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap, reuse_buffers=True) as client:
        yield client


def make(broker: EmbeddedBroker, topic: str, **configs: str) -> TopicPartition:
    with Log(broker.bootstrap) as log:
        log.create_topic(topic, configs={**SMALL_SEGMENTS, **configs})
    return TopicPartition(topic, 0)


def fill(client: WireClient, tp: TopicPartition, batches: int, seed: int = 1) -> None:
    """Batches of up to 30 records, of all codecs, some larger than the rest."""
    rng = random.Random(seed)
    for number in range(batches):
        size, count = (5_000, 2) if number % 50 == 49 else (rng.randrange(200), rng.randrange(1, 30))
        records = [
            NewRecord(rng.choice([None, b"a", b"b"]), rng.choice([None, rng.randbytes(size)]), (("h", b"v"),), number)
            for _ in range(count)
        ]
        client.produce(tp, build_batch(records, compression=rng.choice(list(Compression))))


def both(
    client: WireClient, wanted: OffsetRange, isolation: Isolation = Isolation.READ_COMMITTED
) -> tuple[pa.Table, pa.Table]:
    """The range's rows by file and socket, and by the socket alone."""
    tables = []
    for is_local in (True, False):
        options = ScanOptions(COLUMNS, isolation=isolation, reads_files=is_local)
        batches = list(read_range(client, wanted, options))
        tables.append(pa.Table.from_batches(batches).combine_chunks() if batches else pa.table({}))
    return tables[0], tables[1]


def reached(client: WireClient, wanted: OffsetRange, *, committed: bool = True) -> int:
    """How far the files are read."""
    offset = wanted.start
    for decoded in read_local(client, wanted, COLUMNS, committed=committed):
        offset = decoded.next_offset
    return offset


def end_of(client: WireClient, tp: TopicPartition) -> int:
    return client.list_offsets([tp], isolation=Isolation.READ_COMMITTED)[tp]


def closed_end(broker: EmbeddedBroker, tp: TopicPartition) -> int:
    """Where the last closed segment ends."""
    return max(int(path.stem) for path in directory_of(broker, tp).glob("*.log"))


def directory_of(broker: EmbeddedBroker, tp: TopicPartition) -> Path:
    return Path(broker.directory) / f"{tp.topic}-{tp.partition}"


def test_any_range_has_the_same_rows_by_file_and_by_socket(broker: EmbeddedBroker, client: WireClient) -> None:
    tp = make(broker, "mixed")
    fill(client, tp, 400)
    end, rng = end_of(client, tp), random.Random(5)
    assert end > closed_end(broker, tp) > end // 2
    assert reached(client, OffsetRange(tp, 0, end)) == end
    for _ in range(30):
        start = rng.randrange(end)
        ours, theirs = both(client, OffsetRange(tp, start, rng.randrange(start, end) + 1))
        assert ours.equals(theirs)


def test_a_batch_larger_than_a_chunk_is_read(
    broker: EmbeddedBroker, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_segments, "_CHUNK_BYTES", 700)
    tp = make(broker, "chunks")
    fill(client, tp, 100)
    wanted = OffsetRange(tp, 3, end_of(client, tp))
    assert reached(client, wanted) == wanted.end
    ours, theirs = both(client, wanted)
    assert ours.equals(theirs)


def transact(broker: EmbeddedBroker, topic: str, seed: int) -> list[Producer]:
    """Committed and aborted transactions of several producers, across segments; the last ones stay open."""
    rng = random.Random(seed)
    producers = [
        Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic}-{n}", "linger.ms": 0})
        for n in range(3)
    ]
    for producer in producers:
        producer.init_transactions(30)
        producer.begin_transaction()
    for _ in range(120):
        producer = rng.choice(producers)
        for _ in range(rng.randrange(1, 20)):
            producer.produce(topic, rng.randbytes(rng.randrange(300)), partition=0)
        producer.flush(30)
        if rng.random() < 0.4:
            (producer.commit_transaction if rng.random() < 0.5 else producer.abort_transaction)(30)
            producer.begin_transaction()
    return producers


@pytest.mark.parametrize("seed", [1, 2])
def test_transactions_read_the_same_by_file_and_by_socket(
    broker: EmbeddedBroker, client: WireClient, seed: int
) -> None:
    tp = make(broker, f"transactions-{seed}")
    producers = transact(broker, tp.topic, seed)
    rng = random.Random(seed)
    for isolation in Isolation:
        end = client.list_offsets([tp], isolation=isolation)[tp]
        committed = isolation is Isolation.READ_COMMITTED
        assert reached(client, OffsetRange(tp, 0, end), committed=committed) > 0
        for start in [0, *(rng.randrange(end) for _ in range(12))]:
            ours, theirs = both(client, OffsetRange(tp, start, end), isolation)
            assert ours.equals(theirs)
    for producer in producers:
        producer.abort_transaction(30)


def test_a_segment_with_a_transaction_that_ended_later_is_read_from_its_file(
    broker: EmbeddedBroker, client: WireClient
) -> None:
    tp = make(broker, "spanning")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "spanning", "linger.ms": 0})
    producer.init_transactions(30)
    for ends in (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for _ in range(100):
            producer.produce(tp.topic, bytes(500), partition=0)
            producer.flush(30)
        ends(30)
    fill(client, tp, 100)
    wanted = OffsetRange(tp, 0, end_of(client, tp))
    assert reached(client, wanted) == wanted.end
    ours, theirs = both(client, wanted)
    assert ours.equals(theirs)


def test_segments_removed_while_they_are_read_stay_readable(
    broker: EmbeddedBroker, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_segments, "_CHUNK_BYTES", 2_000)
    tp = make(broker, "removed")
    fill(client, tp, 300)
    wanted = OffsetRange(tp, 0, end_of(client, tp))
    _, expected = both(client, wanted)
    reading = read_range(client, wanted, ScanOptions(COLUMNS, reads_files=True))
    batches: list[Any] = [next(reading)]
    start = sorted(int(path.stem) for path in directory_of(broker, tp).glob("*.log"))[1]
    asked = DeleteRecordsTopic(
        name=tp.topic, partitions=[DeleteRecordsPartition(partition_index=tp.partition, offset=start)]
    )
    with WireClient(broker.bootstrap) as other:
        other.request(DeleteRecordsRequest(topics=[asked], timeout_ms=10_000))
    batches += list(reading)
    assert pa.Table.from_batches(batches).combine_chunks().equals(expected)


def test_a_compacted_topic_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_segments, "OFFSETS_MIN", 1)
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    settings = {"log.cleaner.backoff.ms": "100"}
    with EmbeddedBroker(tmp_path, settings=settings) as broker, WireClient(broker.bootstrap) as client:
        tp = make(broker, "compacted", **configs)
        records = [NewRecord(b"key-%d" % (n % 7), b"x" * 100, (), 1) for n in range(20)]
        for _ in range(100):
            client.produce(tp, build_batch(records))
        wanted = OffsetRange(tp, 0, end_of(client, tp))
        deadline_s = time.monotonic() + 100
        while time.monotonic() < deadline_s:  # one may be read before a compaction, another after it or in the midst
            ours, theirs = both(client, wanted)
            end = reached(client, wanted)
            if theirs.num_rows < 2000 and ours.equals(theirs) and end == wanted.end:
                break
        assert theirs.num_rows < 2000
        assert ours.equals(theirs)
        assert end == wanted.end


@pytest.mark.parametrize("suffix", [".seal", ".log", ".txnindex"])
def test_files_that_do_not_fit_are_left_to_the_socket(broker: EmbeddedBroker, client: WireClient, suffix: str) -> None:
    tp = make(broker, "damaged")
    transact(broker, tp.topic, 3)
    fill(client, tp, 100)
    broker.restart()
    wanted = OffsetRange(tp, 0, client.list_offsets([tp])[tp])
    directory = directory_of(broker, tp)
    damaged = sorted(directory.glob(f"*{suffix}"))[1]
    os.truncate(shutil.copy(damaged, damaged.with_suffix(".copy")), damaged.stat().st_size - 1)
    damaged.with_suffix(".copy").replace(damaged)
    assert reached(client, wanted, committed=suffix == ".txnindex") < closed_end(broker, tp)


def test_another_topics_directory_is_not_read(broker: EmbeddedBroker, client: WireClient) -> None:
    tp, other = make(broker, "one"), make(broker, "other")
    for each in (tp, other):
        fill(client, each, 100, seed=7)
    metadata = directory_of(broker, other) / "partition.metadata"
    shutil.copy(metadata, directory_of(broker, tp) / "partition.metadata")
    assert reached(client, OffsetRange(tp, 0, end_of(client, tp))) == 0


def test_the_active_segment_is_read_up_to_its_first_transaction(broker: EmbeddedBroker, client: WireClient) -> None:
    tp = make(broker, "active", **{"internal.segment.bytes": "100000000"})
    fill(client, tp, 50)
    before = end_of(client, tp)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "active"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(tp.topic, b"aborted", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)
    fill(client, tp, 50)
    wanted = OffsetRange(tp, 1, end_of(client, tp))
    assert reached(client, replace(wanted, end=before)) == before
    ours, theirs = both(client, wanted)
    assert ours.equals(theirs)


def test_few_offsets_are_left_to_the_socket(
    broker: EmbeddedBroker, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tp = make(broker, "few")
    fill(client, tp, 5)
    monkeypatch.setattr(local_segments, "OFFSETS_MIN", 1_000)
    assert reached(client, OffsetRange(tp, 0, end_of(client, tp))) == 0


def test_other_bytes_than_the_logs_are_not_read(broker: EmbeddedBroker, client: WireClient, tmp_path: Path) -> None:
    tp = make(broker, "bytes")
    fill(client, tp, 100)
    client.fetch({tp: 0}, max_bytes=1)  # the log has its file open
    target = directory_of(broker, tp) / f"{0:020d}.log"
    changed = bytearray(target.read_bytes())
    changed[70] ^= 1
    (tmp_path / "changed").write_bytes(changed)
    (tmp_path / "changed").replace(target)
    assert reached(client, OffsetRange(tp, 0, end_of(client, tp))) == 0


def test_only_a_log_without_a_login_is_read_from_its_files() -> None:
    assert may_be_read(Security())
    assert not may_be_read(Security("SSL"))
    assert not may_be_read(Security("SASL_PLAINTEXT", "PLAIN", "alice", "secret"))
