"""A segment leaves the disk only for a store that has it now, and a log without its file starts as it was."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from mainstem.broker.share.dead_letters.letter_writer import copied_letters
from mainstem.broker.share.in_flight import RecordState, Run
from mainstem.broker.storage.remote.remote_pieces import RemotePieces
from mainstem.broker.storage.remote.remote_storage import RemoteStorage
from mainstem.broker.storage.remote.segment_release import ProducersUnknownError, SegmentRelease
from mainstem.broker.storage.remote.segment_return import SegmentReturn
from mainstem.durable_files import replace_file
from mainstem.errors import MainstemError, StorageError
from mainstem.log.cleaning.compaction import compact
from mainstem.log.cleaning.compaction_job import CleanedSegment
from mainstem.log.files.names import (
    CUT,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    META_PROPERTIES,
    NODE_CHECKPOINT,
    OFFSET_INDEX,
    PARTITION_METADATA,
    REMOTE,
    REMOTE_PARTITIONS,
    SEAL,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    offset_file,
)
from mainstem.log.files.small_files import read_file
from mainstem.log.node.directory import LogDirectory
from mainstem.log.node.retention import Retention
from mainstem.log.partition.checkpoints import (
    decode_leader_epochs,
    decode_properties,
    encode_partition_metadata,
    encode_uuid,
)
from mainstem.log.partition.config import LogConfig
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.recovery.verify import verify_directory
from mainstem.log.segments.batch_scan import Start
from mainstem.log.segments.index_checksums import NOT_KNOWN_DURABLE
from mainstem.log.segments.remote_segment import (
    BACKUP_ROOT,
    BACKUP_WRITERS,
    PiecesMissingError,
    RemoteSegment,
    StoredPiece,
    read_remote,
)
from mainstem.log.segments.segment import BatchPlace, Segment
from mainstem.log.segments.segment_indexes import read_seal
from mainstem.object_stores.store import ObjectMissingError, StoredObject
from mainstem.record.checksum import crc32c
from mainstem.record.reader import DecodedRecord, iter_records
from mainstem.record.writer import NewRecord, build_batch
from mainstem.testing.disk import FaultyDisk
from tests.log.support import (
    DATA,
    DIRECTORY,
    NOW_MS,
    TOPIC_ID,
    Node,
    batch,
    committed_records,
    end_transaction,
    in_transaction,
    read_all,
    read_committed,
    sent_by,
    swap_in,
)

HOUR_MS = 3_600_000


class Store:
    """A backup's store in memory, of which pieces are loaded on demand, and counted."""

    url = "memory://store"

    def __init__(self, node: Node) -> None:
        self.objects: dict[str, bytes] = {}
        self.loaded: dict[StoredPiece, memoryview] = {}
        self.loads = 0
        own = decode_properties(read_file(node.disk, DATA / META_PROPERTIES) or b"")
        self.claim(own["cluster.id"], own["directory.id"], "me")
        node.disk.make_directory((DATA / BACKUP_WRITERS).parent)
        node.disk.sync_directory(DATA)
        replace_file(node.disk, DATA / BACKUP_WRITERS, b"before\nme")

    def claim(self, cluster_id: str, directory_id: str, writer: str) -> None:
        source = {"cluster_id": cluster_id, "directory_id": directory_id}
        self.objects[BACKUP_ROOT] = json.dumps({"source": source, "writer": writer}).encode()

    def get(self, name: str) -> StoredObject:
        if name not in self.objects:
            raise ObjectMissingError(name)
        return StoredObject(self.objects[name], "1")

    def get_range(self, name: str, start: int, length: int) -> bytes:
        return self.get(name).data[start : start + length]

    def back_up(self, node: Node, segment: Segment) -> None:
        """Take a segment in two pieces, and write its ``.remote``."""
        file = node.disk.open(segment.path(LOG))
        data = file.read(0, file.size_bytes())
        file.close()
        half = len(data) // 2
        pieces = []
        for start, end in ((0, half), (half, len(data))):
            name = f"data/{segment.base_offset}-{start}"
            self.objects[name] = data[start:end]
            pieces.append(StoredPiece(name, 0, start, end, crc32c(data[start:end])))
        stored = RemoteSegment(self.url, encode_uuid(TOPIC_ID), tuple(pieces))
        replace_file(node.disk, segment.path(REMOTE), stored.encode())

    def find(self, piece: StoredPiece) -> memoryview | None:
        return self.loaded.get(piece)

    def load(self, missing: PiecesMissingError) -> None:
        assert not missing.whole
        for piece in missing.pieces:
            self.loads += 1
            self.loaded[piece] = memoryview(self.objects[piece.object_name])


def append_hour(node: Node, hour: int) -> None:
    node.clock.set_time_ms(NOW_MS + hour * HOUR_MS)
    node.log.append(batch(b"%d" % (hour % 10) * 60, timestamp_ms=NOW_MS + hour * HOUR_MS))
    node.log.flush()


def hourly(seed: int = 0, **configs: str) -> tuple[Node, Store]:
    """A partition with a segment for each of six hours, all of which may leave the disk but the newest."""
    settings = {"segment_bytes": "150", "remote_storage_enable": "true", "retention_ms": "-1"}
    node = Node(seed=seed, **{**settings, "local_retention_bytes": "0", **configs})
    for hour in range(6):
        append_hour(node, hour)
    node.directory.write_checkpoints()
    store = Store(node)
    node.directory._context.remote = store
    return node, store


def releasable(node: Node) -> list[Segment]:
    return list(node.log.cleaning.releasable(node.clock.time_ms()))


def checkpointed_offset(node: Node) -> int:
    return node.directory.checkpoints.recovery_point_of(node.log.topic_partition, node.log.topic_id)


def release(node: Node, store: Store, segment: Segment) -> None:
    """As the node does it. Raises what keeps the file on the disk."""
    log = node.log
    end_offset = log.cleaning.end_of(segment)
    assert end_offset is not None
    durable = min(checkpointed_offset(node), log.recovery_point)
    places = (segment.base_offset, end_offset, log.topic_id, 0, log.local_start_after(segment), durable)
    known = (*places, log.config.index_interval_bytes, segment.previous is None)
    SegmentRelease(node.disk, DATA, DIRECTORY, *known).run(store)  # type: ignore[arg-type]
    file = log.cleaning.release(segment)
    assert file is not None
    node.disk.remove(file)


def release_all(node: Node, store: Store) -> None:
    for segment in releasable(node):
        store.back_up(node, segment)
        release(node, store, segment)


def start(node: Node, store: Store, end: Callable[[], None]) -> None:
    """Start again after an end; opening it has loaded nothing."""
    before = store.loads
    end()
    node.directory = LogDirectory.start(node.disk, node.clock, DATA, store)
    node.directory.open_partitions(lambda _: node.log.config)
    node.log = node.directory.get(node.log.topic_partition)
    assert store.loads == before


def loading(store: Store, read: Callable[[], list[object]]) -> list[object]:
    """The result of a read, made as often as pieces have to be loaded."""
    while True:
        try:
            return read()
        except PiecesMissingError as missing:
            store.load(missing)


def offsets(node: Node, store: Store) -> list[object]:
    return loading(store, lambda: [record.offset for record in read_all(node.log)])


def local(node: Node) -> list[int]:
    return [int(path.name[:20]) for path in node.files(LOG)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("more", [0, 1, 3, 4])
def test_a_power_cut_after_the_release_leaves_all_records_and_loads_nothing(seed: int, more: int) -> None:
    node, store = hourly(seed)
    release_all(node, store)
    assert (node.log.local_start_offset, node.log.stored_end_offset, local(node)) == (5, 5, [5])
    for hour in range(6, 6 + more):  # without a checkpoint in between
        append_hour(node, hour)
    start(node, store, node.faulty.power_cut)
    assert offsets(node, store) == list(range(6 + more))
    with suppress(MainstemError):  # what the checkpoint or a snapshot has not reached stays
        release_all(node, store)
    start(node, store, node.faulty.power_cut)
    assert offsets(node, store) == list(range(6 + more))
    node.log.delete_records(3)
    node.directory.write_checkpoints()
    node.directory.write_checkpoints()
    assert min(int(path.name[:20]) for path in node.files(REMOTE) or node.files(LOG)) >= 3


@pytest.mark.parametrize("seed", range(20))
def test_producers_and_transactions_outlast_a_power_cut(seed: int) -> None:
    node = Node(
        seed=seed, segment_bytes="250", remote_storage_enable="true", retention_ms="-1", local_retention_bytes="0"
    )
    node.log.append(in_transaction(9, 0, b"to be aborted"))
    node.log.append(in_transaction(8, 0, b"open"))
    for n in range(4):
        node.commit(b"%d" % n * 60)
        node.log.append(sent_by(3, n, b"%d" % n * 40))
    end_transaction(node.log, 9, commit=False)
    for n in range(4, 8):
        node.commit(b"%d" % n * 60)
        node.log.append(sent_by(3, n, b"%d" % n * 40))
    node.log.flush()
    node.directory.write_checkpoints()
    store = Store(node)
    node.directory._context.remote = store
    release_all(node, store)
    for n in range(8, 11):
        node.commit(b"%d" % n * 60)
    before = node.log.producers()
    assert len(local(node)) < 6
    start(node, store, node.faulty.power_cut)
    assert {each.producer_id for each in node.log.producers()} == {each.producer_id for each in before} == {3, 8, 9}
    again = node.log.append(sent_by(3, 7, b"7" * 40))
    assert again.duplicate
    assert node.log.last_stable_offset == 1
    end_transaction(node.log, 8, commit=True)
    node.log.flush()
    found = loading(store, lambda: list(read_committed(node.log)))
    assert b"open" in found
    assert b"to be aborted" not in found


SMALL = {"segment_bytes": "400", "retention_ms": "-1", "local_retention_bytes": "0"}
ENDS: dict[str, Callable[[Node], None]] = {
    "clean": lambda node: node.directory.close(),
    "kill": lambda node: node.faulty.kill(),
    "power cut": lambda node: node.faulty.power_cut(),
}


def old_producers(*, tiered: bool = True) -> tuple[Node, Store]:
    """A producer, and a transaction that stays open, whose records are in the first of several segments.

    What follows was checkpointed more often than snapshots are kept, as in idle seconds.
    """
    node = Node(remote_storage_enable=str(tiered).lower(), **SMALL)
    node.log.append(sent_by(3, 0, b"p" * 40))
    node.log.append(in_transaction(8, 0, b"uncommitted"))
    for n in range(4):
        node.commit(b"%d" % n * 90)
    node.directory.write_checkpoints()
    store = Store(node)
    node.directory._context.remote = store
    for n in range(3):
        node.commit(b"small %d" % n)
        node.log.write_recovery_checkpoint()
        node.directory.write_checkpoints()
    return node, store


def require_old_producers(node: Node, store: Store) -> None:
    """A repeat is recognised, and readers of committed records wait for the open transaction."""
    assert {each.producer_id for each in node.log.producers()} == {3, 8}
    assert node.log.append(sent_by(3, 0, b"p" * 40)).duplicate
    assert node.log.last_stable_offset == 1
    assert loading(store, lambda: list(read_committed(node.log))) == [b"p" * 40]


@pytest.mark.parametrize("end", ENDS)
def test_producers_of_released_segments_outlast_each_start(end: str) -> None:
    node, store = old_producers()
    release_all(node, store)
    assert local(node) == [5]
    for n in range(3):
        start(node, store, lambda: ENDS[end](node))
        require_old_producers(node, store)
        node.commit(b"%d" % n * 300)
    end_transaction(node.log, 8, commit=False)
    node.log.flush()
    assert b"uncommitted" not in loading(store, lambda: list(read_committed(node.log)))


@pytest.mark.parametrize("end", ENDS)
def test_producers_are_kept_where_a_topic_becomes_tiered_later(end: str) -> None:
    node, store = old_producers(tiered=False)
    start(node, store, node.directory.close)
    node.configs["remote.storage.enable"] = "true"
    node.log.update_config(LogConfig.of(node.configs))
    assert not any(offset_file(base, SNAPSHOT) in {path.name for path in node.files(SNAPSHOT)} for base in local(node))
    release_all(node, store)
    assert local(node) == [5]
    for _ in range(2):
        start(node, store, lambda: ENDS[end](node))
        require_old_producers(node, store)


@pytest.mark.parametrize("end", ENDS)
def test_a_transaction_stays_open_where_no_snapshot_is_left(end: str, caplog: pytest.LogCaptureFixture) -> None:
    node, store = old_producers()
    release_all(node, store)
    node.directory.close()
    for path in node.files(SNAPSHOT):
        node.disk.remove(path)
    start(node, store, lambda: None)
    assert "is lost or damaged: it has the producers of the records before" in caplog.text
    for _ in range(2):
        assert loading(store, lambda: list(read_committed(node.log))) == [b"p" * 40]
        start(node, store, lambda: ENDS[end](node))
    end_transaction(node.log, 8, commit=False)
    node.log.flush()
    assert b"uncommitted" not in loading(store, lambda: list(read_committed(node.log)))


def test_a_transaction_stays_open_where_its_seal_is_lost_too(caplog: pytest.LogCaptureFixture) -> None:
    node, store = old_producers()
    release_all(node, store)
    node.directory.close()
    for path in (*node.files(SNAPSHOT), DIRECTORY / offset_file(3, SEAL)):
        node.disk.remove(path)
    start(node, store, lambda: None)
    assert "those that were open before hold the last stable offset" in caplog.text
    assert node.log.last_stable_offset == 1


@pytest.mark.parametrize("tiered", [True, False])
def test_a_crash_at_any_step_of_a_release_loses_nothing(*, tiered: bool) -> None:
    """Each call of the disk is such a step: power is cut there, or the process is killed."""
    node, store = old_producers(tiered=tiered)
    node.configs["remote.storage.enable"] = "true"
    node.log.update_config(LogConfig.of(node.configs))
    disks: list[FaultyDisk] = []
    node.faulty.on_call = lambda cut: disks.extend((cut.copy(len(disks)), cut.copy(0)))
    release_all(node, store)
    node.log.write_recovery_checkpoint()
    node.directory.write_checkpoints()
    node.faulty.on_call = None
    ends = ("power cut", "kill")
    starts = set()
    for slot, disk in enumerate(disks):
        twin = copy.copy(node)
        twin.faulty = twin.disk = disk
        store.loaded.clear()
        for end in (ends[slot % 2], "clean"):
            start(twin, store, partial(ENDS[end], twin))
            require_old_producers(twin, store)
            assert offsets(twin, store) == list(range(9))
        starts.add(twin.log.local_start_offset)
    assert starts == {0, 3, 5}


def test_a_segment_without_a_snapshot_waits_for_a_later_one() -> None:
    node, store = hourly()
    first, second, third, *_ = releasable(node)
    for segment in (first, second, third):
        store.back_up(node, segment)
    release(node, store, first)
    for base in (1, 2):
        node.disk.remove(DIRECTORY / offset_file(base, SNAPSHOT))
    with pytest.raises(ProducersUnknownError, match="no snapshot of the producers at offset 2"):
        release(node, store, second)
    release(node, store, third)
    release(node, store, second)
    assert local(node) == [3, 4, 5]
    start(node, store, node.faulty.power_cut)
    assert offsets(node, store) == list(range(6))


@pytest.mark.parametrize("lost", [SNAPSHOT, NODE_CHECKPOINT, LEADER_EPOCH_CHECKPOINT, OFFSET_INDEX])
def test_a_start_without_one_kind_of_its_small_files_loads_nothing(lost: str) -> None:
    node, store = hourly()
    node.log.append(in_transaction(9, 0, b"x" * 60))
    for hour in range(6, 9):
        append_hour(node, hour)
    node.directory.write_checkpoints()
    release_all(node, store)
    node.log.append(batch(b"new"))
    node.log.flush()
    end_offset = node.log.log_end_offset
    node.directory.close()
    for path in (DATA / NODE_CHECKPOINT, DIRECTORY / LEADER_EPOCH_CHECKPOINT, *node.files(SNAPSHOT)):
        if path.name.endswith(lost):
            node.disk.remove(path)
    if lost == OFFSET_INDEX:
        for path in node.files(OFFSET_INDEX):
            if int(path.name[:20]) >= node.log.local_start_offset:
                node.disk.remove(path)
    start(node, store, lambda: None)
    assert (node.log.log_start_offset, node.log.log_end_offset, node.log.last_stable_offset) == (0, end_offset, 6)
    assert offsets(node, store) == list(range(end_offset))
    assert not node.files(CUT)


def refused(node: Node, store: Store, match: str) -> None:
    before = local(node)
    with pytest.raises(MainstemError, match=match):
        release(node, store, releasable(node)[0])
    assert local(node) == before


def test_a_file_stays_where_the_store_does_not_have_it_now() -> None:
    node, store = hourly()
    for segment in releasable(node):
        store.back_up(node, segment)
    kept = dict(store.objects)
    own = json.loads(kept[BACKUP_ROOT])["source"]
    store.objects.clear()
    refused(node, store, BACKUP_ROOT)
    store.objects = {name: data for name, data in kept.items() if name == BACKUP_ROOT}
    refused(node, store, "data/0-0")
    store.objects = {name: data[:-1] if name != BACKUP_ROOT else data for name, data in kept.items()}
    refused(node, store, "does not hold all of its bytes")
    store.objects = dict(kept)
    store.claim(own["cluster_id"], "another", "me")
    refused(node, store, "another log")
    store.claim(own["cluster_id"], own["directory_id"], "a clone")
    refused(node, store, "another copy of this one")
    store.objects[BACKUP_ROOT] = b"<html>"
    refused(node, store, "not the root of a backup")
    store.objects = dict(kept)
    store.url = "memory://another"
    refused(node, store, "the backup of this log is memory://another")


def test_a_file_stays_where_its_bytes_or_its_topic_are_others() -> None:
    node, store = hourly()
    first, second = releasable(node)[:2]
    store.back_up(node, second)
    replace_file(node.disk, first.path(REMOTE), read_file(node.disk, second.path(REMOTE)) or b"")
    refused(node, store, "has other bytes")
    stored = RemoteSegment(store.url, "another", ())
    replace_file(node.disk, first.path(REMOTE), stored.encode())
    refused(node, store, "is of topic another")


def test_a_damaged_file_stays() -> None:
    node, store = hourly()
    first = releasable(node)[0]
    file = node.disk.open(first.path(LOG))
    file.write(80, [b"\xff"])
    file.close()
    store.back_up(node, first)
    refused(node, store, "is damaged")


def test_a_file_stays_until_the_checkpoint_and_a_snapshot_have_reached_its_end() -> None:
    node, store = hourly()
    checkpointed = checkpointed_offset(node)
    assert checkpointed == 6
    for hour in range(6, 12):
        append_hour(node, hour)
    for segment in releasable(node):
        store.back_up(node, segment)
        with suppress(MainstemError):
            release(node, store, segment)
    assert min(local(node)) <= checkpointed  # later ones wait for the next checkpoint
    node.directory.write_checkpoints()
    release_all(node, store)
    start(node, store, node.faulty.power_cut)
    assert offsets(node, store) == list(range(12))


def test_without_the_config_a_remote_file_counts_for_nothing() -> None:
    node, store = hourly()
    release_all(node, store)
    node.directory.close()
    node.configs["remote.storage.enable"] = "false"
    node.start()
    assert node.log.log_start_offset == 5
    assert len(node.files(REMOTE)) == 5  # they may be all that leads to the records


def test_a_remote_file_of_an_earlier_topic_of_that_name_counts_for_nothing() -> None:
    node, store = hourly()
    stray = RemoteSegment(store.url, "another", (StoredPiece("x", 0, 0, 9, 1),))
    for base in (3, 2):
        replace_file(node.disk, DIRECTORY / offset_file(base * 1000, REMOTE), stray.encode())
    start(node, store, node.directory.close)
    assert offsets(node, store) == list(range(6))


def test_a_segment_whose_index_is_lost_comes_back_as_a_whole() -> None:
    node, store = hourly(retention_ms=str(5 * HOUR_MS // 2), local_retention_ms="0")
    release_all(node, store)
    start(node, store, node.directory.close)
    node.disk.remove(node.files(SEAL)[2])
    asked: list[PiecesMissingError] = []

    def load(missing: PiecesMissingError, _: object) -> None:
        asked.append(missing)

    list(Retention(node.directory, node.clock, lambda _: node.log.config, load).round())
    assert [(each.whole, each.path.name) for each in asked] == [(True, offset_file(2, LOG))]
    bring_back(node, store, 2)
    assert not node.log.cleaning.come_back(asked[0].path, asked[0].path)
    assert offsets(node, store) == list(range(6))
    assert node.log.local_start_offset == 5  # what is local follows the last one that is not
    start(node, store, node.faulty.power_cut)
    assert offsets(node, store) == list(range(6))
    store.loaded.clear()
    for segment in releasable(node):
        release(node, store, segment)
    assert local(node) == [5]
    assert offsets(node, store) == list(range(6))


@pytest.mark.parametrize("lost", [(REMOTE,), (REMOTE, SEAL)])
def test_a_lost_remote_file_is_an_error_of_reads_and_not_a_hole(lost: tuple[str, ...]) -> None:
    node, store = hourly()
    release_all(node, store)
    replace_file(node.disk, DATA / REMOTE_PARTITIONS, DIRECTORY.name.encode())
    node.directory.close()
    assert verify_directory(node.disk, DATA).damages == []
    kept = {suffix: read_file(node.disk, DIRECTORY / offset_file(2, suffix)) or b"" for suffix in lost}
    for suffix in lost:
        node.disk.remove(DIRECTORY / offset_file(2, suffix))
    for _ in range(2):
        (damage,) = verify_directory(node.disk, DATA).damages
        assert (damage.file, damage.loses_records) == (f"{DIRECTORY.name}/{offset_file(2, REMOTE)}", True)
        start(node, store, node.directory.close)
        assert (node.log.log_start_offset, node.log.local_start_offset, node.log.statistics().segments) == (0, 5, 6)
        with pytest.raises(StorageError, match="which says where the store has it, is lost"):
            offsets(node, store)
        before = loading(store, lambda: [each.offset for each in read_all_until_error(node.log)])
        assert before == [0, 1]
        assert loading(store, lambda: [each.offset for each in read_all(node.log, 3)]) == [3, 4, 5]
    for suffix, data in kept.items():
        replace_file(node.disk, DIRECTORY / offset_file(2, suffix), data)
    assert offsets(node, store) == list(range(6))
    node.disk.remove(DIRECTORY / offset_file(2, REMOTE))
    node.log.delete_records(3)
    for _ in range(2):
        node.directory.write_checkpoints()
    assert not [path for path in node.files("") if path.name.startswith(f"{2:020d}.") and path.suffix != SNAPSHOT]
    start(node, store, node.directory.close)
    assert (node.log.log_start_offset, node.log.statistics().segments) == (3, 3)


def read_all_until_error(log: PartitionLog) -> list[DecodedRecord]:
    """What a reader gets before its first error."""
    found: list[DecodedRecord] = []
    with suppress(StorageError):
        while True:
            records = read_next(log, found[-1].offset + 1 if found else 0)
            found += records
    return found


def read_next(log: PartitionLog, offset: int) -> list[DecodedRecord]:
    return [record for buffer in log.read(offset, 1 << 20).buffers for record in iter_records(buffer)]


def test_index_files_past_the_recovery_point_are_strays() -> None:
    node, store = hourly()
    for _ in range(6, 10):
        node.log.append(batch(b"x" * 60))
    node.faulty.kill()
    for suffix in (SEAL, OFFSET_INDEX):
        replace_file(node.disk, DIRECTORY / offset_file(7, suffix), b"of a segment that was cut off")
    node.disk.remove(DIRECTORY / offset_file(7, LOG))
    start(node, store, lambda: None)
    assert not node.disk.exists(DIRECTORY / offset_file(7, SEAL))
    assert node.log.local_start_offset == 0


def keyed_node(**configs: str) -> tuple[Node, Store]:
    """Twelve closed segments of two keys, and the active one."""
    node = Node(segment_bytes="150", retention_ms="-1", local_retention_bytes="0", **configs)
    for n in range(13):
        node.log.append(build_batch([NewRecord(b"k%d" % (n % 2), (b"%d" % n).ljust(60), (), NOW_MS)]))
    node.log.flush()
    node.directory.write_checkpoints()
    store = Store(node)
    node.directory._context.remote = store
    return node, store


def cleaned_segments(node: Node) -> list[CleanedSegment]:
    dirty = node.log.cleaning.dirty(NOW_MS, 0)
    assert dirty is not None
    job = node.log.cleaning.compaction_job(dirty, NOW_MS, 1 << 20)
    return [each for each in compact(node.disk, job) if isinstance(each, CleanedSegment)]


def make_tiered(node: Node) -> None:
    node.configs |= {"cleanup.policy": "delete", "remote.storage.enable": "true"}
    node.log.update_config(LogConfig.of(node.configs))


def test_the_default_of_the_node_lets_no_tiered_topic_be_compacted() -> None:
    node, _ = keyed_node(remote_storage_enable="true", min_cleanable_dirty_ratio="0")
    assert releasable(node)
    node.log.update_config(LogConfig.of(node.configs, {"cleanup.policy": "compact"}))
    assert node.log.cleaning.dirty(NOW_MS, 0) is None
    assert not releasable(node)


def test_a_compaction_that_was_under_way_does_not_replace_segments_of_a_tiered_topic() -> None:
    node, _ = keyed_node(cleanup_policy="compact")
    cleaned = cleaned_segments(node)
    make_tiered(node)
    assert cleaned
    assert not any(swap_in(node.log, each) for each in cleaned)
    assert len(read_all(node.log)) == 13


def test_a_swap_that_a_start_finishes_takes_the_place_of_released_segments() -> None:
    node, store = keyed_node(cleanup_policy="compact")
    node.configs["segment.bytes"] = "1000"
    node.log.update_config(LogConfig.of(node.configs))
    for cleaned in cleaned_segments(node):
        swap = node.log.cleaning.prepare_swap(cleaned)
        assert swap is not None
        swap.sync()
    make_tiered(node)
    release_all(node, store)
    assert local(node) == [12]
    start(node, store, node.faulty.kill)
    assert [each for each in offsets(node, store) if each < 10] == []  # type: ignore[operator]
    assert local(node) == [0, 7, 12]
    assert not node.files(REMOTE)


class Pieces:
    """Gives the pieces of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def fetch(self, url: str, piece: StoredPiece, step: Callable[[], None]) -> bytes:
        assert url == self._store.url
        step()
        return self._store.objects[piece.object_name]


def bring_back(node: Node, store: Store, base_offset: int) -> None:
    """As the node does it."""
    path = DIRECTORY / offset_file(base_offset, LOG)
    place = node.log.place_of_remote(path)
    stored = read_remote(node.disk, path.with_suffix(REMOTE))
    assert place is not None
    assert stored is not None
    source = SegmentReturn(node.disk, path, stored, *place, node.log.config.index_interval_bytes).run(Pieces(store))  # type: ignore[arg-type]
    assert node.log.cleaning.come_back(path, source)
    assert node.log.place_of_remote(path) is None


def test_the_indexes_of_a_segment_that_comes_back_are_built_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    node, store = old_producers()
    end_transaction(node.log, 8, commit=False)
    node.commit(b"x" * 300)
    node.directory.write_checkpoints()
    release_all(node, store)
    start(node, store, node.directory.close)
    before = loading(store, lambda: list(committed_records(node.log)))
    seal = read_seal(node.disk, DIRECTORY, 3)
    node.disk.remove(DIRECTORY / offset_file(3, SEAL))
    start(node, store, node.directory.close)
    with pytest.raises(PiecesMissingError) as missing:
        read_all(node.log, 3)
    assert missing.value.whole
    bring_back(node, store, 3)
    again = read_seal(node.disk, DIRECTORY, 3)
    assert seal is not None
    assert seal.open_transactions
    assert again == seal._replace(durable_offset=NOT_KNOWN_DURABLE)

    def walk(segment: Segment, begin: Start) -> Iterator[BatchPlace]:
        assert begin.file_position == segment.size_bytes, "the owner walks nothing that is indexed"
        return iter(())

    monkeypatch.setattr(Segment, "walk_proving", walk)
    assert loading(store, lambda: list(committed_records(node.log))) == before


@pytest.mark.parametrize("gone", ["segment", "topic"])
def test_a_segment_that_is_deleted_while_it_comes_back_leaves_no_index_files(gone: str) -> None:
    """Those of a topic that is created again under the name have the same names."""
    node, store = hourly()
    release_all(node, store)
    path = DIRECTORY / offset_file(0, LOG)
    stored = read_remote(node.disk, path.with_suffix(REMOTE))
    assert stored is not None
    last_piece = stored.pieces[-1]

    class Deleting(Pieces):
        def fetch(self, url: str, piece: StoredPiece, step: Callable[[], None]) -> bytes:
            if piece is last_piece and gone == "segment":
                for suffix in SEGMENT_SUFFIXES:
                    node.disk.remove(path.with_suffix(suffix))
            elif piece is last_piece:
                node.disk.remove(path.with_suffix(SEAL))
                replace_file(node.disk, DIRECTORY / PARTITION_METADATA, encode_partition_metadata(uuid4()))
            return super().fetch(url, piece, step)

    with pytest.raises(StorageError, match="any more"):
        SegmentReturn(node.disk, path, stored, 0, None, 4096).run(Deleting(store))  # type: ignore[arg-type]
    left = [each.name for each in node.files("")]
    assert f"{path.stem}.seal" not in left
    assert not [each for each in left if ".log." in each or each.endswith(".tmp")]


@pytest.mark.parametrize("seed", range(8))
def test_leader_epochs_are_durable_while_any_segment_is_in_the_store_alone(seed: int) -> None:
    node, store = hourly(seed)
    node.log.leader_epoch = 4
    append_hour(node, 6)
    node.directory.write_checkpoints()
    release_all(node, store)
    bring_back(node, store, 0)
    node.log.leader_epoch = 5
    append_hour(node, 7)
    epochs = node.log._leader_epochs.entries
    node.faulty.power_cut()
    assert decode_leader_epochs(read_file(node.disk, DIRECTORY / LEADER_EPOCH_CHECKPOINT)) == list(epochs)


def test_dead_letters_copy_old_records_from_the_store(tmp_path: Path) -> None:
    node, store = hourly()
    release_all(node, store)
    pieces = RemotePieces(lambda: store, tmp_path, 1 << 20)  # type: ignore[arg-type, return-value]
    start(node, store, node.directory.close)
    node.directory._context.remote = pieces

    async def copied() -> list[bytes | None]:
        config: Any = {"remote.log.manager.task.interval.ms": "1000"}
        storage = RemoteStorage(config, node.clock, SimpleNamespace(), pieces, lambda _: None)  # type: ignore[arg-type]
        letters = [
            each
            async for found in copied_letters(node.log, Run(1, 3, RecordState.REJECTED, 1), storage)
            for each in found
        ]
        await storage.stop()
        return [letter.value for letter in letters]

    assert asyncio.run(copied()) == [b"%d" % hour * 60 for hour in (1, 2, 3)]
