from __future__ import annotations

from pathlib import PurePath

import pytest

from mainstem.errors import StorageError
from mainstem.log.small_files import make_directory, read_file, replace_file, sync_file
from mainstem.testing.disk import FaultyDisk, PowerCutError

ROOT = PurePath("/a/b")
FILE = ROOT / "file"


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk()
    make_directory(disk, ROOT)
    return disk


def test_a_directory_and_its_parents_are_durable(disk: FaultyDisk) -> None:
    disk.power_cut()
    assert disk.exists(ROOT)


def test_a_missing_file_is_none(disk: FaultyDisk) -> None:
    assert read_file(disk, FILE) is None


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


def test_syncing_a_file_makes_its_content_durable(disk: FaultyDisk) -> None:
    replace_file(disk, FILE, b"content", sync=False)
    sync_file(disk, FILE)
    disk.sync_directory(ROOT)
    disk.power_cut()
    assert read_file(disk, FILE) == b"content"
