"""One suite over both disks: what the port promises, the real one and the faulty one keep alike."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

import pytest

from mainstem.errors import DirectoryLockedError, StorageError
from mainstem.log.files.disk import Disk, OsDisk
from mainstem.testing.disk import FaultyDisk


@pytest.fixture(params=["os", "faulty"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return OsDisk() if request.param == "os" else FaultyDisk()


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> PurePath:
    path = PurePath(tmp_path) / "data"
    disk.make_directory(path)
    return path


def test_buffers_are_written_behind_one_another(disk: Disk, root: PurePath) -> None:
    file = disk.create(root / "f")
    file.write(0, [b"ab", memoryview(b"cd"), bytearray(b"e")])
    assert file.read(0, 10) == b"abcde"
    file.close()


def test_more_buffers_than_one_system_call_takes(disk: Disk, root: PurePath) -> None:
    file = disk.create(root / "f")
    file.write(3, [b"%04d" % number for number in range(3000)])
    assert file.read(3, 12_000) == b"".join(b"%04d" % number for number in range(3000))
    file.close()


def test_reading_past_the_end_gives_what_is_there(disk: Disk, root: PurePath) -> None:
    file = disk.create(root / "f")
    file.write(0, [b"abc"])
    assert (file.read(1, 10), file.read(3, 10), file.size_bytes()) == (b"bc", b"", 3)
    file.close()


@pytest.mark.parametrize("length", [10, 300_000, 9_000_000])
def test_a_view_shows_the_bytes_and_outlives_the_file(disk: Disk, root: PurePath, length: int) -> None:
    content = os.urandom(1000) * (length // 1000 + 2)
    file = disk.create(root / "f")
    file.write(0, [content])
    views = [file.view(start, length) for start in (0, 777)]
    file.close()
    disk.remove(root / "f")
    assert [bytes(view) for view in views] == [content[start : start + length] for start in (0, 777)]


def test_views_of_many_files_stay_apart(disk: Disk, root: PurePath) -> None:
    views = []
    for number in range(12):
        file = disk.create(root / f"f{number}")
        file.write(0, [bytes([number]) * 300_000])
        views.append(file.view(0, 300_000))
        file.close()
    assert [set(view) for view in views] == [{number} for number in range(12)]


def test_a_view_grows_with_the_file(disk: Disk, root: PurePath) -> None:
    file = disk.create(root / "f")
    file.write(0, [b"a" * 300_000])
    file.view(0, 300_000)
    file.write(300_000, [b"b" * 300_000])
    assert bytes(file.view(200_000, 300_000)) == b"a" * 100_000 + b"b" * 200_000
    file.close()


def test_truncating_cuts_the_end_off(disk: Disk, root: PurePath) -> None:
    file = disk.create(root / "f")
    file.write(0, [b"abcdef"])
    file.truncate(2)
    assert file.read(0, 10) == b"ab"
    file.sync()
    file.close()


def test_creating_empties_a_file_that_was_there(disk: Disk, root: PurePath) -> None:
    disk.create(root / "f").write(0, [b"old"])
    assert disk.create(root / "f").size_bytes() == 0


def test_opening_a_missing_file_says_which(disk: Disk, root: PurePath) -> None:
    with pytest.raises(StorageError, match="missing"):
        disk.open(root / "missing")


def test_a_rename_replaces_its_target(disk: Disk, root: PurePath) -> None:
    disk.create(root / "a").write(0, [b"new"])
    disk.create(root / "b").write(0, [b"old"])
    disk.rename(root / "a", root / "b")
    disk.sync_directory(root)
    assert disk.list(root) == ["b"]
    assert disk.open(root / "b").read(0, 3) == b"new"


def test_removing_what_is_not_there_does_nothing(disk: Disk, root: PurePath) -> None:
    disk.remove(root / "missing")
    assert disk.list(root) == []


def test_a_directory_is_removed_with_its_files(disk: Disk, root: PurePath) -> None:
    disk.make_directory(root / "p" / "q")
    disk.create(root / "p" / "f").close()
    disk.remove_directory(root / "p")
    assert not disk.exists(root / "p")


def test_making_a_directory_twice_does_nothing(disk: Disk, root: PurePath) -> None:
    disk.make_directory(root)
    assert disk.exists(root)


def test_a_lock_has_one_holder(disk: Disk, root: PurePath) -> None:
    lock = disk.lock(root / ".lock")
    with pytest.raises(DirectoryLockedError, match="in use"):
        disk.lock(root / ".lock")
    lock.release()
    disk.lock(root / ".lock").release()


def test_listing_a_missing_directory_is_a_storage_error(disk: Disk, root: PurePath) -> None:
    with pytest.raises(StorageError):
        disk.list(root / "missing")
