"""Segments in the backup's store alone: readers, offsets, retention, restarts, backups and restores go on as before."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from mainstem.backup.manifest import ManifestReader
from mainstem.broker.storage.remote import remote_storage
from mainstem.broker.storage.remote.remote_pieces import RemotePieces
from mainstem.client.append.transaction import TransactionSession
from mainstem.client.log import Log
from mainstem.client.records import NewRecord as TopicRecord
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.clock import SystemClock
from mainstem.errors import ConfigError, InputError, MainstemError
from mainstem.kafka_directory.graduation import graduate
from mainstem.log.files.disk import OsDisk
from mainstem.log.recovery.verify import verify_directory
from mainstem.log.segments.remote_segment import StoredPiece
from mainstem.model import TopicPartition as ModelPartition
from mainstem.object_stores.directory_store import DirectoryStore
from mainstem.object_stores.opening import open_store
from mainstem.object_stores.store import StoreError
from mainstem.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mainstem.record.arrow_columns import COLUMNS
from mainstem.record.writer import NewRecord
from mainstem.spark.tasks import local_segments
from mainstem.spark.tasks.ranges import OffsetRange
from mainstem.spark.tasks.scan import ScanOptions, read_range
from mainstem.spark.tasks.stored_segments import StoredRecords
from mainstem.testing.broker_process import BrokerProcess
from mainstem.testing.embedded import EmbeddedBroker
from tests.backup.support import BackupProcess, flip_bit, once, require_sound, restored, values, values_of
from tests.broker.harness import running
from tests.broker.share.member import ACCEPT, Member, begin_early
from tests.support.eventually import eventually
from tests.support.ports import free_port

KILLS = int(os.environ.get("MAINSTEM_BACKUP_KILLS", "3"))
TOPIC = "old"
TIERED = {
    "remote.storage.enable": "true",
    "local.retention.bytes": "0",
    "internal.segment.bytes": "20000",
    "retention.ms": "-1",
}


class World:
    """A log with a topic whose closed segments leave the disk, and its backup."""

    def __init__(self, directory: Path, url: str = "") -> None:
        self.data, self.store = directory / "data", directory / "store"
        self.url = url or f"file://{self.store}"
        self.settings = {"mainstem.remote.storage.url": self.url, "remote.log.manager.task.interval.ms": "50"}

    @contextmanager
    def running(self, **settings: str) -> Iterator[tuple[EmbeddedBroker, Log]]:
        wanted = self.settings | {name.replace("_", "."): value for name, value in settings.items()}
        with EmbeddedBroker(self.data, settings=wanted) as broker, Log(broker.bootstrap) as log:
            yield broker, log

    def files(self, suffix: str) -> list[int]:
        return sorted(int(path.stem) for path in (self.data / f"{TOPIC}-0").glob(f"*{suffix}"))

    def move(self) -> None:
        """Back up until all closed segments have left the disk."""

        def left() -> bool:
            once(self.data, self.url)
            return len(self.files(".log")) == 1 and len(self.files(".remote")) > 0

        eventually(left, "the closed segments have left the disk")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def value(n: int) -> str:
    return f"value {n} " + "x" * 900


def write(log: Log, first: int, count: int) -> None:
    for start in range(first, first + count, 10):
        log.append_many(TOPIC, [value(n) for n in range(start, min(start + 10, first + count))])


def expected(count: int) -> list[str]:
    return sorted(map(value, range(count)))


def old_topic(log: Log, count: int = 300, **configs: str) -> None:
    log.create_topic(TOPIC, partitions=1, configs=TIERED | configs)
    write(log, 0, count)


def abort(bootstrap: str, transactional_id: str, aborted: list[str]) -> None:
    """Append records in a transaction, durably, and abort it."""
    session = TransactionSession(WireClient(bootstrap), SystemClock(), transactional_id, 60.0)
    session.begin()
    session.produce(ModelPartition(TOPIC, 0), [NewRecord(None, each.encode(), (), 0) for each in aborted])
    session.producer.end(commit=False)
    session.close()


def offset_at(broker: EmbeddedBroker, timestamp: int) -> int:
    topics = [ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])]
    with WireClient(broker.bootstrap) as client:
        answer = client.request(ListOffsetsRequest(replica_id=-1, topics=topics)).topics[0].partitions[0]
    assert answer.error_code == 0
    return int(answer.offset)


def test_old_records_are_read_from_the_store_and_new_ones_from_the_disk(world: World) -> None:
    with world.running() as (broker, log):
        old_topic(log)
        world.move()
        assert len(world.files(".remote")) > 5
        write(log, 300, 10)
        assert values_of(log, TOPIC) == expected(310)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        read: list[str] = []

        def all_read() -> bool:
            read.extend(message.value().decode() for message in consumer.consume(500, 0.1))
            return len(read) >= 310

        eventually(all_read, "librdkafka has read all")
        consumer.close()
        assert sorted(read) == expected(310)
        [middle] = list(log.read(TOPIC, start=150, limit=1))
        assert middle.value == value(150).encode()
    with world.running() as (_, log):  # nothing of it is in memory any more
        assert values_of(log, TOPIC) == expected(310)
        write(log, 310, 50)
        world.move()
        assert values_of(log, TOPIC) == expected(360)


def test_old_records_are_read_from_a_server_of_objects(tmp_path: Path, store_url: str) -> None:
    world = World(tmp_path, store_url)
    with world.running() as (_, log):
        old_topic(log)
        world.move()
        assert values_of(log, TOPIC) == expected(300)
    with world.running() as (_, log):
        assert values_of(log, TOPIC) == expected(300)


def test_offsets_by_time_and_of_both_parts(world: World) -> None:
    with world.running() as (broker, log):
        old_topic(log)
        times = [record.timestamp_ms for record in log.read(TOPIC)]
        assert (offset_at(broker, -4), offset_at(broker, -5), offset_at(broker, -6)) == (0, -1, 0)
        world.move()
        (local,) = world.files(".log")
        assert offset_at(broker, -2) == 0
        assert (offset_at(broker, -4), offset_at(broker, -5), offset_at(broker, -6)) == (local, local - 1, local)
    with world.running() as (broker, _):
        for wanted in (0, 120, local - 1, local, 299):
            assert offset_at(broker, times[wanted]) == times.index(times[wanted])
        assert offset_at(broker, -3) == times.index(max(times))


def test_partitions_are_searched_by_time_beside_each_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = [ModelPartition(TOPIC, number) for number in range(6)]
    with world.running() as (_, log):
        log.create_topic(TOPIC, partitions=len(partitions), configs=TIERED)
        for partition in partitions:
            for first in range(0, 40, 10):
                records = [TopicRecord(value(n), partition=partition.partition) for n in range(first, first + 10)]
                log.append_many(TOPIC, records)

        def left() -> bool:
            once(world.data, world.url)
            return len(list(world.data.glob(f"{TOPIC}-*/*.log"))) == len(partitions)

        eventually(left, "the closed segments of each partition have left the disk")
    fetch = RemotePieces.fetch
    begun: list[Any] = []
    another = threading.Condition()

    def fetch_together(pieces: RemotePieces, url: str, piece: StoredPiece, step: Callable[[], None]) -> bytes:
        with another:
            begun.append(piece)
            another.notify_all()
            assert another.wait_for(lambda: len(begun) > 1, 20), "the pieces are loaded one after the other"
        return fetch(pieces, url, piece, step)

    with world.running() as (broker, _), WireClient(broker.bootstrap) as client:
        monkeypatch.setattr(RemotePieces, "fetch", fetch_together)
        found = client.list_offsets(partitions, 1)
    assert found == dict.fromkeys(partitions, 0)


def test_retention_and_deletion_take_segments_of_the_store(world: World) -> None:
    with world.running(log_retention_check_interval_ms="50") as (_, log):
        old_topic(log)
        world.move()
        log.cluster_admin.delete_records(TOPIC, 150)
        eventually(lambda: min(world.files(".remote")) > 100, "the files of deleted records are gone")
        assert values_of(log, TOPIC) == sorted(map(value, range(150, 300)))
        log.cluster_admin.set_topic_configs(TOPIC, {"retention.bytes": "60000"})
        eventually(lambda: min(world.files(".remote")) > 200, "retention.bytes counts what is in the store")
        first = log.beginning(TOPIC)
        assert values_of(log, TOPIC) == sorted(map(value, range(next(iter(first.values())), 300)))
        once(world.data, world.url)
        log.delete_topic(TOPIC)
        old_topic(log, 20)
        assert values_of(log, TOPIC) == expected(20)
    with world.running() as (_, log):
        assert values_of(log, TOPIC) == expected(20)


def test_a_restored_log_has_all_of_it(world: World, tmp_path: Path) -> None:
    with world.running() as (_, log):
        old_topic(log)
        world.move()
        write(log, 300, 100)
        world.move()
    once(world.data, world.url)  # the log has stopped: its last checkpoint covers all
    require_sound(world.url)
    restored(world.url, tmp_path / "copy")
    assert values(tmp_path / "copy", TOPIC) == expected(400)


def test_a_reader_of_committed_records_sees_no_aborted_ones(world: World) -> None:
    with world.running() as (broker, log):
        old_topic(log, 0)
        for n in range(0, 120, 2):
            with log.transaction(f"till-{n % 6}") as transaction:
                transaction.append(TOPIC, value(n))
            abort(broker.bootstrap, f"till-{n % 6}", [value(n + 1)])
        assert log.end(TOPIC)[ModelPartition(TOPIC, 0)] == 240  # each with a marker
        world.move()
    with world.running() as (_, log):
        assert values_of(log, TOPIC) == sorted(value(n) for n in range(0, 120, 2))


def test_a_store_that_fails_is_an_error_of_the_old_records_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_storage, "_PAUSES_S", (0.01, 0.01, 0.01))
    monkeypatch.setattr(remote_storage, "_FAILURE_S", 0.3)
    with world.running() as (_, log):
        old_topic(log)
        world.move()
    moved = world.store.rename(world.store.with_name("away"))
    with world.running() as (_, log):
        newest = log.append(TOPIC, "new")
        assert [record.value for record in log.read(TOPIC, start=max(world.files(".log")))][-1] == b"new"
        with pytest.raises(MainstemError, match="or the store of old records did"):
            list(Log(log.bootstrap, timeout_s=5).read(TOPIC))
        moved.rename(world.store)

        def is_read() -> bool:
            with suppress(MainstemError):  # the failure stands for a moment
                return len(values_of(log, TOPIC)) == 301
            return False

        eventually(is_read, "the old records are read again")
    for path in (world.store / "data").iterdir():
        flip_bit(path, path.stat().st_size // 2)
    with world.running() as (_, log), pytest.raises(MainstemError, match="or the store of old records did"):
        list(Log(log.bootstrap, timeout_s=5).read(TOPIC))
    assert newest


def test_a_log_without_a_backup_refuses_such_topics(world: World, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "other") as broker, Log(broker.bootstrap) as log:
        with pytest.raises(ConfigError, match="start it with --backup URL"):
            log.create_topic(TOPIC, partitions=1, configs=TIERED)
    with world.running() as (_, log):
        old_topic(log)
        world.move()
    with EmbeddedBroker(world.data) as broker, Log(broker.bootstrap, timeout_s=5) as log:
        with pytest.raises(MainstemError):
            list(log.read(TOPIC))


@pytest.mark.parametrize(
    ("configs", "refused"),
    [
        ({"cleanup.policy": "compact"}, "cleanup.policy other than delete"),
        ({"mainstem.key.index": "true"}, "mainstem.key.index"),
        ({"mainstem.verifiable": "true"}, "mainstem.verifiable"),
        ({"retention.ms": "1000", "local.retention.ms": "2000"}, "at most retention.ms"),
        ({"retention.bytes": "1000", "local.retention.bytes": "-1"}, "at most retention.bytes"),
    ],
)
def test_what_does_not_go_together_is_refused(world: World, configs: dict[str, str], refused: str) -> None:
    with world.running() as (_, log), pytest.raises(ConfigError, match=refused):
        log.create_topic(TOPIC, partitions=1, configs=TIERED | configs)


def test_a_topic_of_the_log_itself_is_refused(world: World) -> None:
    with world.running() as (_, log), pytest.raises(ConfigError, match="the log itself reads this topic"):
        log.cluster_admin.set_topic_configs("__share_group_state", {"remote.storage.enable": "true"})


def test_it_is_not_turned_off_but_further_segments_stay(world: World) -> None:
    with world.running() as (_, log):
        old_topic(log)
        world.move()
        with pytest.raises(ConfigError, match="it cannot be turned off"):
            log.cluster_admin.set_topic_configs(TOPIC, {"remote.storage.enable": "false"})
        log.cluster_admin.set_topic_configs(TOPIC, {"remote.log.copy.disable": "true"})
        write(log, 300, 100)
        once(world.data, world.url)
        assert values_of(log, TOPIC) == expected(400)
        assert len(world.files(".log")) > 2


@pytest.mark.parametrize("store", ["another", "none", "emptied"])
def test_a_segment_stays_where_the_store_has_changed(
    world: World, store: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with world.running() as (_, log):
        old_topic(log, 100, **{"local.retention.bytes": "-1", "local.retention.ms": "-1"})
        eventually(
            lambda: once(world.data, world.url) and len(world.files(".remote")) > 3, "the closed ones are stored"
        )
    before = world.files(".log")
    if store == "emptied":
        shutil.rmtree(world.store)
    url = {"another": f"file://{tmp_path / 'new'}", "none": "", "emptied": world.url}[store]
    with world.running(mainstem_remote_storage_url=url) as (_, log):
        log.cluster_admin.set_topic_configs(TOPIC, TIERED)
        if store != "none":
            eventually(lambda: "segments stay on the disk for now" in caplog.text, "a round has said why")
        write(log, 100, 20)
        assert values_of(log, TOPIC) == expected(120)
    assert set(before) <= set(world.files(".log"))


def test_a_log_that_has_lost_its_checkpoint_keeps_its_backup(world: World) -> None:
    with world.running() as (_, log):
        old_topic(log)
        world.move()
    for path in world.data.glob("*checkpoint*"):
        path.unlink()
    with world.running() as (_, log):
        log.create_topic("other", partitions=1)
        log.append("other", "x")
        eventually(lambda: (world.data / "mainstem-checkpoint").exists() and once(world.data, world.url), "a point")
        files = [file for _, file in ManifestReader(open_store(world.url)).newest().all_files()]
        assert not [file for file in files if file.removed is not None and file.suffix == ".log"]
        assert values_of(log, TOPIC) == expected(300)
        write(log, 300, 50)
        world.move()
        assert values_of(log, TOPIC) == expected(350)


def test_a_store_that_fails_half_of_its_requests_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, whole = random.Random(5), DirectoryStore.get_range

    def unsteady(store: DirectoryStore, name: str, start: int, length: int) -> bytes:
        if chance.random() < 0.5:
            raise StoreError("503")
        return whole(store, name, start, length)

    monkeypatch.setattr(DirectoryStore, "get_range", unsteady)
    monkeypatch.setattr(remote_storage, "_PAUSES_S", (0.01, 0.01, 0.01))
    monkeypatch.setattr(remote_storage, "_FAILURE_S", 0.1)
    with world.running() as (_, log):
        old_topic(log)
        world.move()
        read: list[str] = []
        assert eventually(lambda: _read_on(log, read), "all is read") == expected(300)


def _read_on(log: Log, read: list[str]) -> list[str] | None:
    """Read on where an error has ended the last read; all of it, once it is there."""
    with suppress(MainstemError):
        for record in log.read(TOPIC, start=len(read)):
            read.append((record.value or b"").decode())
        return sorted(read)
    return None


def test_damaged_indexes_are_built_again_from_the_store(world: World) -> None:
    with world.running() as (_, log):
        old_topic(log)
        world.move()
    for path in (world.data / f"{TOPIC}-0").iterdir():
        if path.suffix in (".seal", ".index", ".snapshot") and int(path.stem) < max(world.files(".log")):
            path.unlink()
    with world.running() as (_, log):
        assert values_of(log, TOPIC) == expected(300)


def test_it_is_verified_and_graduates_from_a_restored_directory(world: World, tmp_path: Path) -> None:
    with world.running() as (_, log):
        old_topic(log)
        world.move()
        once(world.data, world.url)
    report = verify_directory(OsDisk(), world.data)
    assert (report.damages, report.remote_segments) == ([], len(world.files(".remote")))
    with pytest.raises(InputError, match="mainstem restore URL --to DIR"):
        graduate(world.data, tmp_path / "kafka")
    for path in (world.data / f"{TOPIC}-0").glob("*.remote"):
        path.rename(path.with_suffix(".lost"))
    with pytest.raises(InputError, match="mainstem restore URL --to DIR"):
        graduate(world.data, tmp_path / "kafka")
    for path in (world.data / f"{TOPIC}-0").glob("*.lost"):
        path.rename(path.with_suffix(".remote"))
    restored(world.url, tmp_path / "copy")
    plan = graduate(tmp_path / "copy", tmp_path / "kafka")
    assert "remote.storage.enable" not in plan.cluster.topics[TOPIC].configs
    flip_bit(world.data / f"{TOPIC}-0" / f"{world.files('.remote')[0]:020d}.remote", 30)
    assert [each.loses_records for each in verify_directory(OsDisk(), world.data).damages] == [False]
    with world.running() as (_, log):
        once(world.data, world.url)  # a backup that starts writes the file again
        assert values_of(log, TOPIC) == expected(300)


def test_a_share_group_reads_old_records(world: World) -> None:
    with world.running() as (_, log):
        old_topic(log)
        world.move()

    async def consume() -> list[str]:
        read: list[str] = []
        async with running(world.data, world.settings) as client:
            await begin_early(client)
            member = Member(client)
            await member.join(TOPIC)
            while len(read) < 300:
                acquired = await member.acquire(max_wait_ms=5_000)
                read += [(each or b"").decode() for each in member.values]
                for first, last, _ in acquired:
                    await member.acknowledge(first, last, ACCEPT)
        return read

    assert sorted(asyncio.run(consume())) == expected(300)


def test_kills_of_the_log_and_of_its_backup_lose_nothing(world: World) -> None:
    chance = random.Random(11)
    broker = BrokerProcess(world.data, settings=world.settings, port=free_port()).start()
    backup = BackupProcess(world.data, world.url)
    written: list[str] = []
    try:
        with Log(broker.bootstrap) as log:
            log.create_topic(TOPIC, partitions=1, configs=TIERED)
        for _ in range(KILLS):
            with Log(broker.bootstrap) as log:
                for _ in range(chance.randrange(1, 8)):
                    batch = [value(len(written) + n) for n in range(30)]
                    log.append_many(TOPIC, batch)
                    written += batch
                if chance.random() < 0.5:
                    assert values_of(log, TOPIC) == sorted(written)
            if chance.random() < 0.6:
                broker.kill()
                broker.start()
            else:
                backup.kill()
                backup = BackupProcess(world.data, world.url)
        eventually(lambda: len(world.files(".log")) == 1, "the closed segments have left the disk")
        with Log(broker.bootstrap) as log:
            assert values_of(log, TOPIC) == sorted(written)
    finally:
        backup.stop()
        broker.stop()
    assert world.files(".remote")
    require_sound(world.url)


@pytest.mark.parametrize("reads_files", [True, False])
def test_tasks_of_spark_read_both_parts(world: World, reads_files: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_segments, "OFFSETS_MIN", 1)
    asked: list[int] = []
    chunk = StoredRecords.chunk
    monkeypatch.setattr(StoredRecords, "chunk", lambda *of: (asked.append(of[1]), chunk(*of))[1])
    with world.running() as (_, log):
        old_topic(log)
        world.move()
        write(log, 300, 50)
    partition = ModelPartition(TOPIC, 0)
    with world.running() as (broker, _), WireClient(broker.bootstrap, reuse_buffers=True) as client:
        end = client.list_offsets([partition])[partition]
        batches = list(
            read_range(client, OffsetRange(partition, 0, end), ScanOptions(COLUMNS, reads_files=reads_files))
        )
        found = sorted((each or b"").decode() for batch in batches for each in batch["value"].to_pylist())
    local_segments._DIRECTORIES.clear()
    assert found == expected(350)
    assert bool(asked) == reads_files


def test_tasks_of_spark_take_no_aborted_records_where_a_remote_file_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's segment has the marker: the transaction index that follows does not know the transaction."""
    monkeypatch.setattr(local_segments, "OFFSETS_MIN", 1)
    with world.running() as (broker, log):
        old_topic(log, 0)
        session = TransactionSession(WireClient(broker.bootstrap), SystemClock(), "aborted", 60.0)
        session.begin()
        session.produce(ModelPartition(TOPIC, 0), [NewRecord(None, value(n).encode(), (), 0) for n in range(10)])
        write(log, 10, 10)
        session.producer.end(commit=False)
        session.close()
        write(log, 20, 60)
        world.move()
        _, second, third = world.files(".remote")[:3]
        assert 10 <= second <= 20 < third  # the marker is at 20
        (world.data / f"{TOPIC}-0" / f"{second:020d}.remote").unlink()
        with WireClient(broker.bootstrap, reuse_buffers=True) as client:
            wanted = OffsetRange(ModelPartition(TOPIC, 0), 0, second)
            batches = list(read_range(client, wanted, ScanOptions(COLUMNS, reads_files=True)))
    local_segments._DIRECTORIES.clear()
    found = sorted((each or b"").decode() for batch in batches for each in batch["value"].to_pylist())
    assert found == sorted(value(n) for n in range(10, second))
