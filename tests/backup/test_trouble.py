"""What can go wrong: the store fails, another process writes, the clock jumps, directories are not what they seem."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest

from mainstem.backup.catalog import VERSION
from mainstem.backup.continuous import Backup, BackupOptions
from mainstem.backup.manifest import ROOT, BackupTakenError, ManifestReader
from mainstem.backup.retention import Keeper
from mainstem.backup.status import BackupStatus
from mainstem.backup.verification import verify_backup
from mainstem.client.log import Log
from mainstem.clock import SystemClock
from mainstem.durable_files import unfinished_directory
from mainstem.errors import ConfigError, DirectoryLockedError, InputError, MainstemError, StorageError
from mainstem.log.files.names import NODE_CHECKPOINT
from mainstem.object_stores.opening import open_store
from mainstem.testing import ManualClock
from mainstem.testing.embedded import EmbeddedBroker
from tests.backup.support import FailingStore, backed_up, backup_of, flip_bit, once, require_sound, restored, values
from tests.support.eventually import eventually


def test_a_store_that_fails_half_of_its_requests_loses_nothing(
    broker: EmbeddedBroker, log: Log, tmp_path: Path
) -> None:
    url = str(tmp_path / "copies")
    store, status = FailingStore(open_store(url), 0.2), BackupStatus(None, SystemClock())
    options = BackupOptions(every_s=0.01, pauses_s=(0.01, 0.01))
    backup = Backup(broker.directory, store, options, status, lambda _: None)
    backup.__enter__()
    thread = threading.Thread(target=backup.run)
    thread.start()
    log.create_topic("orders", partitions=1)
    for n in range(4):
        log.append_many("orders", [("k", f"{n}-{m}") for m in range(10)])
        eventually(lambda before=status.point: status.point > before, "another point is stored")
    store.rate = 1.0
    log.append("orders", "4-0")  # the log does not notice
    eventually(lambda: "the store failed" in status.last_error or "was lost" in status.last_error, "the error is shown")
    assert "mainstem_backup_last_error_seconds{error=" in status.text()
    store.rate = 0.0
    eventually(lambda: not status.last_error, "the backup is well again")
    backup.stop()
    thread.join(30)
    backup.__exit__()
    assert status.failures
    backed_up(broker.directory, url, log.end("orders"))
    require_sound(url)
    restored(url, tmp_path / "restored")
    assert len(values(tmp_path / "restored", "orders")) == 41


def test_another_log_is_refused_by_name(broker: EmbeddedBroker, tmp_path: Path) -> None:
    url = str(tmp_path / "copies")
    once(broker.directory, url)
    with EmbeddedBroker(tmp_path / "other") as other:
        with pytest.raises(BackupTakenError, match="the backup of another log") as caught:
            once(other.directory, url)
    assert str(broker.directory) in str(caught.value)
    require_sound(url)


def test_of_two_copies_of_a_directory_one_goes_on(broker: EmbeddedBroker, log: Log, tmp_path: Path) -> None:
    url = str(tmp_path / "copies")
    log.create_topic("orders", partitions=1)
    backed_up(broker.directory, url, log.append_many("orders", ["one"]))
    shutil.copytree(broker.directory, tmp_path / "clone", ignore=shutil.ignore_patterns("*.sock", "*.tmp"))
    once(tmp_path / "clone", url)
    with pytest.raises(BackupTakenError, match="another copy of this directory"):
        once(broker.directory, url)
    once(broker.directory, url, take_over=True)
    require_sound(url)


def test_a_writer_that_was_overtaken_writes_no_more(broker: EmbeddedBroker, log: Log, tmp_path: Path) -> None:
    url = str(tmp_path / "copies")
    log.create_topic("orders", partitions=1)
    first = backup_of(broker.directory, url)
    first.__enter__()
    first.round()
    shutil.copytree(broker.directory, tmp_path / "clone", ignore=shutil.ignore_patterns("*.sock", "*.tmp"))
    once(tmp_path / "clone", url)
    newest = ManifestReader(open_store(url)).root
    log.append("orders", "more")

    def refused() -> bool:
        try:
            first.round()
        except BackupTakenError as error:
            return str(newest.pid) in str(error)
        return False

    eventually(refused, "the first writer is refused")
    assert ManifestReader(open_store(url)).root == newest
    first.__exit__()


def test_one_process_backs_up_a_directory(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with (
        backup_of(broker.directory, str(tmp_path / "copies")),
        pytest.raises(DirectoryLockedError, match="is being backed up by another process"),
    ):
        once(broker.directory, str(tmp_path / "others"))


def test_a_restore_takes_an_empty_target_alone(broker: EmbeddedBroker, tmp_path: Path) -> None:
    url = str(tmp_path / "copies")
    once(broker.directory, url)
    with pytest.raises(InputError, match="exists and is not empty"):
        restored(url, broker.directory)
    (tmp_path / "empty").mkdir()
    restored(url, tmp_path / "empty")
    assert not (tmp_path / "empty.restoring").exists()


def test_two_restores_into_one_place_do_not_mix(broker: EmbeddedBroker, log: Log, tmp_path: Path) -> None:
    url = str(tmp_path / "copies")
    log.create_topic("orders", partitions=1)
    backed_up(broker.directory, url, log.append_many("orders", ["one"]))
    with unfinished_directory(tmp_path / "restored.restoring"):  # as the first one has it
        (tmp_path / "restored.restoring" / "file").write_bytes(b"of the first")
        with pytest.raises(DirectoryLockedError, match="being written by another process"):
            restored(url, tmp_path / "restored")
        assert (tmp_path / "restored.restoring" / "file").exists()


def test_a_backup_that_runs_refuses_another_log_in_its_directory(tmp_path: Path) -> None:
    """As after a restore into the place of a lost directory, or an adoption, while the process went on."""
    data, url = tmp_path / "data", str(tmp_path / "copies")
    with EmbeddedBroker(data) as running, Log(running.bootstrap) as client:
        client.create_topic("orders", partitions=1)
        backed_up(data, url, client.append_many("orders", ["one"]))
    with backup_of(data, url) as backup:
        point = backup.round()
        restored(url, tmp_path / "restored")
        for each in (tmp_path / "restored").iterdir():
            if each.is_file():
                each.replace(data / each.name)
        with pytest.raises(MainstemError, match="holds the backup of another log"):
            backup.round()
    assert ManifestReader(open_store(url)).newest().number == point


def test_a_log_that_was_killed_between_two_steps_is_started_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstem.backup.continuous._CHANGED_TRIES", 3)
    data, url = tmp_path / "data", str(tmp_path / "copies")
    with EmbeddedBroker(data) as broker, Log(broker.bootstrap) as log:
        log.create_topic("orders", partitions=1, configs={"internal.segment.bytes": "20000"})
        log.append("orders", "x")
    before = (data / NODE_CHECKPOINT).read_bytes()
    with EmbeddedBroker(data) as broker, Log(broker.bootstrap) as log:
        for _ in range(9):
            log.append("orders", "x" * 9000)
    (data / NODE_CHECKPOINT).write_bytes(before)  # as if it was killed before it wrote the next one
    with pytest.raises(StorageError, match=r"newer than the checkpoint.*start the log"):
        once(data, url)
    monkeypatch.undo()
    with EmbeddedBroker(data) as broker, Log(broker.bootstrap) as log:
        backed_up(data, url, log.end("orders"))
    require_sound(url)


def test_an_interrupted_restore_leaves_nothing_under_the_name(broker: EmbeddedBroker, log: Log, tmp_path: Path) -> None:
    url = str(tmp_path / "copies")
    log.create_topic("orders", partitions=1)
    backed_up(broker.directory, url, log.append_many("orders", ["one"]))
    (data,) = list((tmp_path / "copies" / "data").glob("*"))[-1:]
    kept = data.read_bytes()
    flip_bit(data, len(kept) // 2)
    with pytest.raises(StorageError, match="do not match their checksum"):
        restored(url, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    assert not (tmp_path / "restored.restoring").exists()


def test_verification_names_a_flipped_bit_and_a_missing_object(
    broker: EmbeddedBroker, log: Log, tmp_path: Path
) -> None:
    url = str(tmp_path / "copies")
    log.create_topic("orders", partitions=1)
    backed_up(broker.directory, url, log.append_many("orders", ["one"]))
    for data in (tmp_path / "copies" / "data").iterdir():
        flip_bit(data, data.stat().st_size - 20)
    damages = verify_backup(open_store(url), lambda _: None).damages
    assert any("do not match their checksum" in damage for damage in damages)
    for data in (tmp_path / "copies" / "data").iterdir():
        data.unlink()
    damages = verify_backup(open_store(url), lambda _: None).damages
    assert any("orders-0/00000000000000000000.log" in damage and "does not exist" in damage for damage in damages)


def test_another_version_is_refused(broker: EmbeddedBroker, tmp_path: Path) -> None:
    url = str(tmp_path / "copies")
    once(broker.directory, url)
    root = tmp_path / "copies" / ROOT
    document = json.loads(root.read_text())
    root.write_text(json.dumps({**document, "version": VERSION + 1}))
    for use in (lambda: once(broker.directory, url), lambda: restored(url, tmp_path / "r")):
        with pytest.raises(ConfigError, match=f"version {VERSION + 1}"):
            use()
    root.write_text("{}")
    with pytest.raises(ConfigError, match="is not the root of a backup"):
        restored(url, tmp_path / "r")


def test_points_go_after_their_time_and_no_faster_when_the_clock_jumps(
    broker: EmbeddedBroker, log: Log, tmp_path: Path
) -> None:
    url = str(tmp_path / "copies")
    log.create_topic("orders", partitions=1)
    clock = ManualClock(SystemClock().time_ms())
    backup = backup_of(broker.directory, url, clock, keep_s=86_400.0)
    backup._keeper = Keeper(clock, 86_400.0, remove_after_s=0.0)

    def next_point() -> int:
        log.append("orders", "x")
        before = ManifestReader(open_store(url)).root.newest

        def stored() -> bool:
            backup.round()
            return ManifestReader(open_store(url)).root.newest > before

        eventually(stored, "a point is stored")
        return ManifestReader(open_store(url)).root.horizon_ms

    backup.__enter__()
    backup.round()
    begun_ms = next_point()
    clock.set_time_ms(clock.time_ms() + 400 * 86_400_000)
    assert next_point() - begun_ms == 0
    clock.advance(10)
    assert next_point() - begun_ms == 10_000 * 60
    clock.set_time_ms(clock.time_ms() - 800 * 86_400_000)
    assert next_point() - begun_ms == 10_000 * 60
    backup.__exit__()
    require_sound(url)


@pytest.mark.parametrize("at", ["yesterday", "2020-01-01T00:00:00Z", "orders"])
def test_a_moment_that_is_none_is_refused(broker: EmbeddedBroker, tmp_path: Path, at: str) -> None:
    url = str(tmp_path / "copies")
    once(broker.directory, url)
    with pytest.raises(InputError):
        restored(url, tmp_path / "restored", at)
