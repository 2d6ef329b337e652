"""Old segments in the store alone, where the backup and the log disagree: none of the log's own bytes is given up."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mainstem.backup.manifest import ManifestReader
from mainstem.backup.remote_files import RemoteFiles
from mainstem.backup.source import DataDirectory
from mainstem.backup.status import BackupStatus
from mainstem.clock import SystemClock
from mainstem.log.segments.remote_segment import RemoteSegment, StoredPiece
from mainstem.model import TopicPartition
from mainstem.object_stores.opening import open_store
from mainstem.record.checksum import crc32c
from tests.backup.support import backup_of, once, require_sound, restored, values, values_of
from tests.backup.test_remote_segments import TIERED, TOPIC, World, expected, old_topic, value, write
from tests.support.eventually import eventually


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def remote(world: World, base: int) -> Path:
    return world.data / f"{TOPIC}-0" / f"{base:020d}.remote"


def pieces_of(world: World, base: int) -> tuple[StoredPiece, ...]:
    path = remote(world, base)
    return RemoteSegment.decode(path.read_bytes(), path).pieces


@pytest.mark.parametrize("size", [1, 1.4])
def test_the_log_keeps_its_own_segments_after_a_copy_has_written(world: World, tmp_path: Path, size: float) -> None:
    """The copy has other records, in segments of the same size or of others. Then the log takes its backup back."""
    with world.running() as (_, log):
        old_topic(log, 110)
        eventually(lambda: once(world.data, world.url) and len(world.files(".remote")) > 3, "closed ones are stored")
    copy = World(tmp_path / "copy", world.url)
    shutil.copytree(world.data, copy.data)
    with world.running() as (_, log):
        write(log, 110, 80)
        world.move()
    own = {base: pieces_of(world, base) for base in world.files(".remote")}
    with copy.running(remote_log_manager_task_interval_ms="3600000") as (_, log):
        for start in range(110, 200, 10):
            others = [value(n).replace("x" * 900, "y" * int(900 * size)) for n in range(start, start + 10)]
            log.append_many(TOPIC, others)
        eventually(
            lambda: once(copy.data, copy.url, take_over=True) and _ends(copy) == 200, "the copy's records are stored"
        )
    with world.running() as (_, log):
        once(world.data, world.url, take_over=True)
        assert {base: pieces_of(world, base) for base in world.files(".remote")} == own
    with world.running() as (_, log):
        assert values_of(log, TOPIC) == expected(190)
    require_sound(world.url)
    restored(world.url, tmp_path / "restored")
    assert values(tmp_path / "restored", TOPIC) == expected(190)


def _ends(world: World) -> int:
    ends = ManifestReader(open_store(world.url)).newest().ends
    return next(end.end_offset for name, end in ends.items() if name.topic == TOPIC)


def test_an_older_manifest_takes_no_object_that_the_log_reads(world: World, tmp_path: Path) -> None:
    with world.running() as (_, log):
        old_topic(log, 110)
        once(world.data, world.url)
        before = (world.store / "backup.json").read_bytes()
        write(log, 110, 20)
        world.move()
        needed = {piece.object_name for base in world.files(".remote") for piece in pieces_of(world, base)}
        (world.store / "backup.json").write_bytes(before)
        with backup_of(world.data, world.url, take_over=True) as backup:
            backup._keeper._remove_after_s = 0.0
            eventually(lambda: backup.round() and _ends(world) == 130, "all is in the backup again")
            log.append(TOPIC, value(130))
            eventually(lambda: backup.round() and _ends(world) == 131, "another point is stored")
        assert all((world.store / name).exists() for name in needed)
    with world.running() as (_, log):
        assert values_of(log, TOPIC) == expected(131)
    require_sound(world.url)
    restored(world.url, tmp_path / "restored")
    assert values(tmp_path / "restored", TOPIC) == expected(131)


def test_an_object_that_the_log_alone_names_is_not_removed(world: World) -> None:
    with world.running() as (_, log):
        old_topic(log, 60)
        world.move()
    stray, kept = world.store / "data" / "stray", world.store / "data" / "kept"
    for path in (stray, kept):
        path.write_bytes(b"12345")
    base = max(world.files(".remote"))
    path = remote(world, base)
    known = RemoteSegment.decode(path.read_bytes(), path)
    path.write_bytes(
        RemoteSegment(world.url, known.topic_id, (StoredPiece("data/kept", 0, 0, 6, crc32c(b"12345")),)).encode()
    )
    with backup_of(world.data, world.url) as backup:
        backup._keeper._remove_after_s = 0.0
        eventually(lambda: backup.round() and not stray.exists(), "what nobody names is gone")
        assert kept.exists()
        assert backup._status.left_out


def test_merged_pieces_of_the_same_bytes_are_the_segment(world: World) -> None:
    with world.running() as (_, log):
        old_topic(log, 60)
        world.move()
    base = world.files(".remote")[0]
    path = remote(world, base)
    whole = RemoteSegment.decode(path.read_bytes(), path)
    (piece,) = whole.pieces
    data = open_store(world.url).get_range(piece.object_name, piece.object_offset, piece.size_bytes)
    name, at = piece.object_name, piece.object_offset
    halves = (
        StoredPiece(name, at, 0, 1000, crc32c(data[:1000])),
        StoredPiece(name, at + 1000, 1000, piece.end, crc32c(data[1000:])),
    )
    path.write_bytes(RemoteSegment(world.url, whole.topic_id, halves).encode())
    once(world.data, world.url)
    assert pieces_of(world, base) == whole.pieces


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_partition_of_unknown_segments_is_left_out_and_others_go_on(
    world: World, tmp_path: Path, elsewhere: bool
) -> None:
    with world.running() as (_, log):
        old_topic(log, 60)
        world.move()
        log.create_topic("other", partitions=1)
        log.append_many("other", ["v"] * 10)
        url, away = world.url, tmp_path / "away"
        if elsewhere:
            url = f"file://{tmp_path / 'elsewhere'}"
        else:
            world.store.rename(away)
        lines: list[str] = []
        backup = backup_of(world.data, url)
        backup._status, backup._tell = BackupStatus(None, SystemClock()), lines.append
        with backup:
            eventually(lambda: backup.round() and _end_of(url, "other") == 10, "the other topic is stored")
            assert TOPIC not in _topics(url)
            assert "mainstem_backup_partitions_left_out 1" in backup._status.text()
            assert backup._status.held_until_ms is None
            assert len(lines) == 1
            assert f"{TOPIC}/0 is left out" in lines[0]
            assert ("back up into the URL that" if elsewhere else "lacks objects that") in lines[0]
            if not elsewhere:
                shutil.copytree(away / "data", world.store / "data", dirs_exist_ok=True)
                backup.round()
                assert TOPIC in _topics(url)
                assert "mainstem_backup_partitions_left_out 0" in backup._status.text()
        assert values_of(log, "other") == ["v"] * 10
    require_sound(url)
    restored(url, tmp_path / "restored")
    assert values(tmp_path / "restored", "other") == ["v"] * 10


def _end_of(url: str, topic: str) -> int:
    end = ManifestReader(open_store(url)).newest().ends.get(TopicPartition(topic, 0))
    return 0 if end is None else end.end_offset


def _topics(url: str) -> set[str]:
    return {name.topic for name in ManifestReader(open_store(url)).newest().ends}


@pytest.mark.parametrize("lost", [0, 1, -1])
def test_a_lost_remote_is_written_again(world: World, lost: int) -> None:
    with world.running() as (_, log):
        old_topic(log, 100)
        world.move()
    path = remote(world, world.files(".remote")[lost])
    before = path.read_bytes()
    path.unlink()
    once(world.data, world.url)
    assert path.read_bytes() == before
    with world.running() as (_, log):
        assert values_of(log, TOPIC) == expected(100)


def test_segments_that_retention_took_are_not_written_again(world: World) -> None:
    with world.running(log_retention_check_interval_ms="50") as (_, log):
        log.create_topic(TOPIC, partitions=1, configs=TIERED)
        write(log, 0, 100)
        world.move()
        first = world.files(".remote")[0]
        log.cluster_admin.delete_records(TOPIC, 50)
        eventually(lambda: first not in world.files(".remote"), "the first segment is gone")
        once(world.data, world.url)
        assert not [base for base in world.files(".remote") if base <= first]
        files = ManifestReader(open_store(world.url)).newest().all_files()
        assert [file.removed for _, file in files if file.suffix == ".log" and file.offset == first] != [None]


def test_names_of_objects_are_read_again_when_a_directory_changes(world: World) -> None:
    with world.running() as (_, log):
        old_topic(log, 60)
        world.move()
    with backup_of(world.data, world.url) as backup:
        backup.round()
        assert backup._rounds is not None
        files = RemoteFiles(DataDirectory(world.data), backup._rounds._manifest)
        named = {piece.object_name for base in world.files(".remote") for piece in pieces_of(world, base)}
        assert files.named_objects() == named
        path = remote(world, world.files(".remote")[0])
        path.write_bytes(b"damaged")
        os.utime(path.parent)
        assert files.named_objects() is None
