"""Replacing files durably: the one function, each place that uses it, and the lock."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pytest

from mainstem.durable_files import (
    LOCAL_FILES,
    DirectoryLock,
    FileSystem,
    private_directory,
    put_in_place,
    remove_directory,
    remove_file,
    replace_file,
    unfinished_directory,
)
from mainstem.errors import DirectoryLockedError, StorageError
from mainstem.gateway.access.tokens import Grants, new_token, write_tokens
from mainstem.log.files.small_files import make_directory, read_file
from mainstem.model import Position
from mainstem.pipelines.kinds import KeyValue
from mainstem.spark.changes import fingerprint, rebuilding
from mainstem.spark.checkpoints.checkpoint import remove_checkpoint
from mainstem.spark.startup import class_archive
from mainstem.spark.startup.java import Java
from mainstem.testing.disk import FaultyDisk, PowerCutError
from mainstem.views.status import BuiltFrom
from mainstem.views.stores import close_digest
from mainstem.views.stores.metrics import metrics
from mainstem.views.stores.store import StoreDefinition
from mainstem.views.stores.store_snapshots import KEPT_MAX, StoreSnapshots
from mainstem.views.versions import versions
from tests.views.support import KINDS, apply, flight

OF_KIND = {kind.name: kind for kind in KINDS}
SOURCE = Path(__file__).parents[1] / "src" / "mainstem"
ROOT = PurePath("/a/b")
FILE = ROOT / "file"


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk()
    make_directory(disk, ROOT)
    return disk


def test_a_replaced_file_is_read_back(disk: FaultyDisk) -> None:
    for data in (b"old and long", b"new"):
        replace_file(disk, FILE, data, sync=False)
        assert read_file(disk, FILE) == data
    assert disk.list(ROOT) == ["file"]


def test_a_synced_replacement_is_durable(disk: FaultyDisk) -> None:
    replace_file(disk, FILE, b"new", sync=True)
    disk.power_cut()
    assert read_file(disk, FILE) == b"new"


@pytest.mark.parametrize("seed", range(10))
def test_a_power_cut_leaves_the_old_content_or_the_new(seed: int) -> None:
    for cut_at in range(1, 8):
        disk = FaultyDisk(seed)
        make_directory(disk, ROOT)
        replace_file(disk, FILE, b"old", sync=True)
        disk.cut_power_at_call = cut_at
        try:
            replace_file(disk, FILE, b"new" * 1000, sync=True)
        except PowerCutError:
            disk.power_cut()
        disk.cut_power_at_call = None
        assert read_file(disk, FILE) in (b"old", b"new" * 1000)


def test_a_full_disk_leaves_the_old_content(disk: FaultyDisk) -> None:
    replace_file(disk, FILE, b"old", sync=True)
    disk.capacity_bytes = disk.used_bytes() + 1
    with pytest.raises(StorageError):
        replace_file(disk, FILE, b"new", sync=True)
    assert read_file(disk, FILE) == b"old"


# Each place that replaces state: (what it writes into the directory, twice over; the file's name)


def _write_tokens(directory: Path, name: str, files: FileSystem) -> None:
    token, _ = new_token(name, Grants(read=("*",)))
    write_tokens(directory / "state", [token], files)


def _write_fingerprint(directory: Path, name: str, files: FileSystem) -> None:
    fingerprint.write(str(directory), fingerprint.Fingerprint(name, (), (), (), "append", "4", "3"), files)


def _make_current(directory: Path, name: str, files: FileSystem) -> None:
    kept = versions.Versions(directory, files)
    kept.make_current(kept.create(name, StoreDefinition("v", KeyValue())))


def _note_origin(directory: Path, name: str, files: FileSystem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "LOCAL_FILES", files)
        versions.note_origin(directory, BuiltFrom(name, Position({})))


def _close_digest(directory: Path, name: str, files: FileSystem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(close_digest, "LOCAL_FILES", files)
        close_digest.CloseDigest(directory, lambda: (name, 1), is_new=True).close()


def _close_metrics(directory: Path, name: str, files: FileSystem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "LOCAL_FILES", files)
        store = OF_KIND["metrics"].open(directory)
        apply(store, [flight(name, "A", "B", len(name))], 0)
        store.close()


def _mark_swap(directory: Path, name: str, files: FileSystem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rebuilding, "LOCAL_FILES", files)
        rebuilding._write_marker(directory, {"pipeline": name})


USES: dict[str, tuple[Callable[[Path, str, FileSystem], None], str]] = {
    "tokens": (_write_tokens, "state"),
    "fingerprint": (_write_fingerprint, fingerprint.FILE),
    "current": (_make_current, "current"),
    "origin": (_note_origin, versions._ORIGIN),
    "close digest": (_close_digest, close_digest._SEAL),
    "metrics": (_close_metrics, metrics._FILE),
    "swap of a rebuild": (_mark_swap, rebuilding._MARKER),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("seed", range(8))
def test_state_that_was_replaced_stays_so_after_a_power_cut(use: str, seed: int, tmp_path: Path) -> None:
    write, name = USES[use]
    disk = FaultyDisk(seed)
    make_directory(disk, tmp_path)
    write(tmp_path, "old", disk)
    write(tmp_path, "new", disk)
    shown = disk.content(tmp_path / name)
    disk.power_cut()
    assert disk.exists(tmp_path / name)
    assert disk.content(tmp_path / name) == shown


@pytest.mark.parametrize("use", USES)
def test_a_power_cut_at_each_step_leaves_the_old_state_or_the_new(use: str, tmp_path: Path) -> None:
    write, name = USES[use]
    for cut_at in range(1, 8):
        disk = FaultyDisk(cut_at)
        make_directory(disk, tmp_path)
        write(tmp_path, "old", disk)
        old = disk.content(tmp_path / name)
        disk.cut_power_at_call = cut_at
        is_done = True
        try:
            write(tmp_path, "new", disk)
        except PowerCutError:
            is_done = False
        seen = disk.content(tmp_path / name)
        disk.power_cut()
        found = read_file(disk, tmp_path / name)
        assert found in ((seen,) if is_done else (seen, old))


# What Mainstem makes under another name, and removes under another name, on the machine's own file system


class Steps(list[str]):
    """The syncs, renames and removals in a directory, in order; of a path the last two names."""

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> Steps:
        fsync, replace, rename, rmtree = os.fsync, Path.replace, Path.rename, shutil.rmtree

        def watched_fsync(descriptor: int) -> None:
            self.append("sync " + _short(Path(f"/proc/self/fd/{descriptor}").readlink()))
            fsync(descriptor)

        def watched_replace(path: Path, target: Path) -> Path:
            self.append(f"rename {_short(path)}")
            return replace(path, target)

        def watched_rename(path: Path, target: Path) -> Path:
            self.append(f"rename {_short(path)}")
            return rename(path, target)

        def watched_rmtree(path: Path, *arguments: Any, **options: Any) -> None:
            if Path(path).exists():
                self.append(f"remove {_short(Path(path))}")
            rmtree(path, *arguments, **options)

        monkeypatch.setattr(os, "fsync", watched_fsync)
        monkeypatch.setattr(Path, "replace", watched_replace)
        monkeypatch.setattr(Path, "rename", watched_rename)
        monkeypatch.setattr(shutil, "rmtree", watched_rmtree)
        return self


def _short(path: Path) -> str:
    return "/".join(path.parts[-2:])


def _tree(path: Path) -> Path:
    (path / "in").mkdir(parents=True)
    (path / "in" / "file").write_bytes(b"made")
    return path


def test_a_file_is_synced_before_the_rename_and_its_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    steps = Steps().watch(monkeypatch)
    parent = f"sync {_short(here)}"
    replace_file(LOCAL_FILES, here / "state", b"new")
    assert steps == ["sync here/state.tmp", "rename here/state.tmp", parent]
    steps.clear()
    remove_file(here / "state")
    assert steps == [parent]
    steps.clear()
    (here / "made").write_bytes(b"by another program")
    put_in_place(here / "made", here / "state")
    assert steps == ["sync here/made", "rename here/made", parent]


def test_a_directory_gets_its_name_when_all_that_is_in_it_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _tree(tmp_path / "here" / "made")
    steps = Steps().watch(monkeypatch)
    put_in_place(made, made.with_name("state"))
    renamed = steps.index("rename here/made")
    assert {"sync in/file", "sync made/in", "sync here/made"} <= set(steps[:renamed])
    assert steps[renamed + 1 :] == [f"sync {_short(tmp_path / 'here')}"]
    assert (tmp_path / "here" / "state" / "in" / "file").read_bytes() == b"made"


def _remove_checkpoint(directory: Path) -> None:
    remove_checkpoint(str(_tree(directory / "checkpoint")))


def _remove_any(directory: Path) -> None:
    remove_directory(_tree(directory / "old"), directory / "old.removing")


def _thin_snapshots(directory: Path) -> None:
    _make_snapshots(directory, KEPT_MAX + 1)


@pytest.mark.parametrize("use", [_remove_any, _remove_checkpoint, _thin_snapshots])
def test_a_directory_that_goes_durably_has_another_name_before_its_first_file_goes(
    use: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    steps = Steps().watch(monkeypatch)
    use(here)
    removed = max(number for number, step in enumerate(steps) if step.startswith("remove "))
    assert steps[removed - 2].startswith("rename ")
    assert steps[removed - 1].startswith("sync ")
    assert not any("removing" in path.name for path in here.iterdir())


def test_what_a_crash_left_of_a_removed_directory_goes_with_the_next_removal(tmp_path: Path) -> None:
    left = _tree(tmp_path / "old.removing")
    remove_directory(tmp_path / "old", left)
    assert list(tmp_path.iterdir()) == []


def _make_store(directory: Path) -> None:
    OF_KIND["key-value"].open(directory / "store").close()


def _make_snapshots(directory: Path, count: int = 1) -> None:
    store = OF_KIND["key-value"].open(directory / "store")
    snapshots = StoreSnapshots(directory / "snapshots", every_records=1)
    for number in range(count):
        apply(store, [flight(f"{number}", "A", "B", number)], number)
        snapshots.applied(store, 1, 1 << 40)
    store.close()


def _make_lake(directory: Path) -> None:
    OF_KIND["lake"].open(directory / "store").close()


@pytest.mark.parametrize("use", [_make_store, _make_snapshots, _make_lake])
def test_what_is_made_under_another_name_durably_has_its_own_before_it_is_used(
    use: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps().watch(monkeypatch)
    use(tmp_path)
    renamed = [number for number, step in enumerate(steps) if re.match(r"rename .*\.making$", step)]
    assert renamed
    for number in renamed:
        made = Path(steps[number].removeprefix("rename "))
        assert f"sync {made}" in steps[:number]
        assert steps[number + 1].startswith("sync ")
        assert steps[number + 1].endswith(f"/{made.parent}")


def test_the_class_archive_gets_its_name_when_its_bytes_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    fsync = os.fsync

    def watched_fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.suffix == ".jsa":
            synced.append(path.read_bytes())
        fsync(descriptor)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(class_archive, "_train", lambda _, made: made.write_bytes(b"an archive"))
    monkeypatch.setattr(class_archive, "find_java", lambda: Java(Path("/java"), "17.0.1"))
    assert class_archive.build().read_bytes() == b"an archive"
    assert synced == [b"an archive"]


def test_a_replaced_file_is_for_its_owner_only_whatever_lay_beside_it(tmp_path: Path) -> None:
    (tmp_path / "state.tmp").write_bytes(b"left over")
    (tmp_path / "state.tmp").chmod(0o666)
    replace_file(LOCAL_FILES, tmp_path / "state", b"new")
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state").read_bytes() == b"new"


def test_a_directory_that_does_not_take_the_file_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=re.escape(str(tmp_path / "missing"))):
        replace_file(LOCAL_FILES, tmp_path / "missing" / "state", b"new")


def test_only_this_module_the_disk_port_and_the_lake_sync_and_lock() -> None:
    allowed = {"durable_files.py", "log/files/disk.py", "lake/files.py", "cli/operation/checks.py"}
    pattern = re.compile(
        r"os\.(replace|rename|fsync|fdatasync)\(|(?<!disk)\.rename\(|fcntl\.(flock|lockf)\(|open\([^)]*O_DIRECTORY"
    )
    own = {
        "kafka_directory/stopped_kafka.py",  # the lock is Kafka's
        "spark/tasks/local_segments.py",  # reads a directory of the log by its descriptor
    }
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if pattern.search(path.read_text())}
    assert found - own <= allowed


def test_who_replaces_a_file_of_the_machine_always_waits_until_it_is_durable() -> None:
    users = {path: text for path in SOURCE.rglob("*.py") if "LOCAL_FILES" in (text := path.read_text())}
    assert len(users) > 5
    counted_anew = {  # since the start
        "backup/status.py",
        "mirror/metrics.py",
        "node/supervisor.py",
        "spark/checkpoints/nulled_values.py",
    }
    synced_as_a_whole = {"backup/restore.py"}  # by put_in_place
    unsynced = {str(path.relative_to(SOURCE)) for path, text in users.items() if "sync=False" in text}
    assert unsynced == counted_anew | synced_as_a_whole


def test_a_lock_says_which_process_holds_it_and_ends_with_that_process(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from mainstem.durable_files import DirectoryLock\n"
        f"DirectoryLock.take(Path({str(tmp_path / 'lock')!r}), 'in use'); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DirectoryLockedError, match=f"held by {holder.pid}"):
            DirectoryLock.take(tmp_path / "lock", "held by {holder}")
        holder.kill()
        holder.wait(10)
    DirectoryLock.take(tmp_path / "lock", "held by {holder}").release()


# Directories that only their owner can enter


def test_a_private_directory_is_made_for_its_owner_only(tmp_path: Path) -> None:
    private_directory(tmp_path / "a" / "data", marker="mine")
    assert (tmp_path / "a" / "data").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("content", [None, "mine"])
def test_a_directory_of_ours_that_others_can_enter_is_closed_with_a_line_in_the_log(
    tmp_path: Path, content: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    if content is not None:
        (data / content).touch()
    private_directory(data, marker="mine")
    assert data.stat().st_mode & 0o777 == 0o700
    assert "could be entered by other users (mode 0755)" in caplog.text


def test_a_directory_with_other_things_that_others_can_enter_is_refused_and_left(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    (data / "holiday.jpg").touch()
    with pytest.raises(StorageError, match="chmod 700"):
        private_directory(data, marker="mine")
    assert data.stat().st_mode & 0o777 == 0o755


def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if os.geteuid() == 0:
        os.chown(data, 12_345, -1)
    else:
        data = Path("/")
    with pytest.raises(StorageError, match="belongs to user"):
        private_directory(data, marker="mine")


def test_an_unfinished_directory_is_new_and_goes_when_its_making_fails(tmp_path: Path) -> None:
    path = tmp_path / "making"
    (path / "left").mkdir(parents=True)
    (path / "left" / "file").write_bytes(b"half")
    (path / "link").symlink_to(tmp_path)
    with pytest.raises(FileNotFoundError), unfinished_directory(path):
        (path / "left" / "file").read_bytes()
    assert list(tmp_path.iterdir()) == []
    with unfinished_directory(path):
        (path / "file").write_bytes(b"whole")
        put_in_place(path, tmp_path / "made")
    assert [each.name for each in tmp_path.rglob("*")] == ["made", "file"]


def test_an_unfinished_directory_is_of_one_process(tmp_path: Path) -> None:
    path = tmp_path / "making"
    with unfinished_directory(path):
        (path / "file").write_bytes(b"of the first")
        with pytest.raises(DirectoryLockedError, match="being written by another process"), unfinished_directory(path):
            raise AssertionError
        assert (path / "file").read_bytes() == b"of the first"
        put_in_place(path, tmp_path / "made")
        with pytest.raises(StorageError, match="cannot rename"), unfinished_directory(path):
            put_in_place(path, tmp_path / "made")
    assert (tmp_path / "made" / "file").read_bytes() == b"of the first"
