"""Readers of the product's own, while the log loads old records: an answer without records is no hole to them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.client.read import time_search
from mainstem.client.wire.cluster.cluster import LATEST, WireClient
from mainstem.client.wire.produce.transaction_requests import ProducerInstance
from mainstem.errors import LogUnavailableError
from mainstem.mirror.lineage import batch_at
from mainstem.mirror.mirror import Mirror
from mainstem.model import TopicPartition
from mainstem.object_stores.directory_store import DirectoryStore
from mainstem.record.arrow_columns import COLUMNS
from mainstem.spark.sink.sink_commits import DecidedTransaction
from mainstem.spark.sink.transaction_outcome import is_aborted
from mainstem.spark.tasks import scan
from mainstem.spark.tasks.ranges import OffsetRange
from mainstem.testing.embedded import EmbeddedBroker
from tests.backup.support import values_of
from tests.backup.test_remote_segments import TOPIC, World, abort, expected, old_topic, value
from tests.mirror.pairs import QUICK, assert_same, linked
from tests.support.eventually import eventually

PARTITION = TopicPartition(TOPIC, 0)


class Gate:
    """Lets the store answer the log, or not yet. ``asked``: the log waits for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open, self.asked = threading.Event(), threading.Event()
        self._open.set()
        whole = DirectoryStore.get_range

        def held(store: DirectoryStore, name: str, start: int, length: int) -> bytes:
            if threading.current_thread().name == "remote segments":
                self.asked.set()
                self._open.wait(20)
            return whole(store, name, start, length)

        monkeypatch.setattr(DirectoryStore, "get_range", held)

    @contextmanager
    def closed(self) -> Iterator[None]:
        self._open.clear()
        self.asked.clear()
        try:
            yield
        finally:
            self._open.set()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A log of which all but the newest records are in the store, and none of them is loaded."""
    world = World(tmp_path)
    with world.running() as (_, log):
        old_topic(log, 100)
        world.move()
    return world


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def test_a_mirror_copies_records_that_the_source_has_to_load(world: World, gate: Gate) -> None:
    with world.running() as (source, _), EmbeddedBroker(settings=world.settings) as target:
        with linked(source.bootstrap, target.bootstrap, TOPIC) as link:
            mirror = Mirror(link, QUICK, lambda _: None)
            try:
                mirror.begin()
                with gate.closed():
                    mirror.round()
                    mirror.round()
                    assert gate.asked.is_set()
                    assert link.target.list_offsets([PARTITION], LATEST) == {PARTITION: 0}

                def is_level() -> bool:
                    mirror.round()
                    return link.target.list_offsets([PARTITION], LATEST)[PARTITION] == 100

                eventually(is_level, "the copy has all of it")
            finally:
                mirror.close()
        assert_same(source.bootstrap, target.bootstrap, TOPIC)
        with Log(target.bootstrap) as log:
            assert values_of(log, TOPIC) == expected(100)


def test_the_batch_at_an_offset_is_waited_for(world: World, gate: Gate) -> None:
    with world.running() as (broker, _), WireClient(broker.bootstrap, timeout_s=1) as client:
        with gate.closed(), pytest.raises(LogUnavailableError, match="has not loaded them"):
            batch_at(client, PARTITION, 5)
        client.timeout_s = 30
        header = eventually(lambda: batch_at(client, PARTITION, 5), "it is loaded")
        assert header.base_offset <= 5 <= header.last_offset


def test_a_fetch_that_would_not_wait_waits_for_old_records_as_in_kafka(world: World) -> None:
    with world.running() as (broker, _), WireClient(broker.bootstrap) as client:
        assert len(client.fetch({PARTITION: 5}, max_wait_ms=0)[PARTITION].records)


def test_an_aborted_transaction_is_not_taken_for_a_committed_one(tmp_path: Path, gate: Gate) -> None:
    world = World(tmp_path)
    with world.running() as (broker, log):
        old_topic(log, 0)
        abort(broker.bootstrap, "sink", [value(0)])
        with WireClient(broker.bootstrap) as client:
            header = batch_at(client, PARTITION, 0)
        assert header is not None
        for n in range(1, 60, 10):
            log.append_many(TOPIC, [value(each) for each in range(n, n + 10)])
        world.move()
    instance = ProducerInstance("sink", header.producer_id, header.producer_epoch)
    decided = DecidedTransaction(instance, PARTITION, 0)
    with world.running() as (broker, _), WireClient(broker.bootstrap, timeout_s=1) as client:
        with gate.closed(), pytest.raises(LogUnavailableError, match="has not loaded them"):
            is_aborted(client, decided)
        client.timeout_s = 30
        assert is_aborted(client, decided)


@pytest.mark.parametrize("reader", ["task", "time"])
def test_a_slow_load_is_no_loss(world: World, gate: Gate, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_EMPTY_FETCHES_MAX", 1)
    monkeypatch.setattr(time_search, "_EMPTY_FETCHES_MAX", 1)

    def read(client: WireClient) -> int:
        if reader == "time":
            return time_search.first_records(client, {PARTITION: 10}, {PARTITION: 100})[PARTITION]
        options = scan.ScanOptions(COLUMNS, reads_files=False)
        return sum(batch.num_rows for batch in scan.read_range(client, OffsetRange(PARTITION, 0, 100), options))

    with world.running() as (broker, _), WireClient(broker.bootstrap) as client, ThreadPoolExecutor(1) as thread:
        with gate.closed():
            found = thread.submit(read, client)
            gate.asked.wait(20)
            with pytest.raises(TimeoutError):
                found.result(timeout=1.5)
        assert found.result(timeout=20) == (10 if reader == "time" else 100)
