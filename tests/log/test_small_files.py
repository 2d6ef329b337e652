from __future__ import annotations

from pathlib import PurePath

import pytest

from mainstem.durable_files import replace_file
from mainstem.log.files.small_files import make_directory, read_file, sync_file
from mainstem.testing.disk import FaultyDisk

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


def test_syncing_a_file_makes_its_content_durable(disk: FaultyDisk) -> None:
    replace_file(disk, FILE, b"content", sync=False)
    sync_file(disk, FILE)
    disk.sync_directory(ROOT)
    disk.power_cut()
    assert read_file(disk, FILE) == b"content"
