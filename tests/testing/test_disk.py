from __future__ import annotations

import sys
import threading
from pathlib import PurePath

import pytest

from mainstem.errors import DirectoryLockedError, StorageError
from mainstem.testing.disk import SECTOR_BYTES, FaultyDisk, PowerCutError

FILE = PurePath("/d/file")
DIRECTORY = PurePath("/d")


def disk_with_file(seed: int = 0, content: bytes = b"") -> FaultyDisk:
    """A disk with one file, durable."""
    disk = FaultyDisk(seed)
    disk.make_directory(DIRECTORY)
    disk.sync_directory(PurePath("/"))
    file = disk.create(FILE)
    file.write(0, [content])
    file.sync()
    disk.sync_directory(DIRECTORY)
    return disk


def after_cuts(content: bytes, written: bytes) -> set[bytes]:
    """What a file may hold after a power cut in between a write and its sync."""
    found = set()
    for seed in range(60):
        disk = disk_with_file(seed, content)
        disk.open(FILE).write(0, [written])
        disk.power_cut()
        found.add(disk.content(FILE))
    return found


def test_a_program_sees_what_it_wrote() -> None:
    disk = disk_with_file()
    disk.open(FILE).write(2, [b"ab", b"cd"])
    assert disk.open(FILE).read(0, 100) == b"\0\0abcd"
    assert disk.open(FILE).size_bytes() == 6


def test_a_power_cut_keeps_what_was_synced() -> None:
    disk = disk_with_file(content=b"synced")
    disk.power_cut()
    assert disk.content(FILE) == b"synced"


def test_a_power_cut_may_drop_or_keep_what_was_not_synced() -> None:
    assert after_cuts(b"old", b"new") == {b"old", b"new"}


def test_a_power_cut_may_tear_a_write_between_sectors() -> None:
    torn = after_cuts(b"", b"a" * SECTOR_BYTES + b"b" * SECTOR_BYTES)
    assert b"a" * SECTOR_BYTES in torn


def test_a_power_cut_may_keep_a_later_sector_and_drop_an_earlier_one() -> None:
    torn = after_cuts(b"", b"a" * SECTOR_BYTES + b"b" * SECTOR_BYTES)
    assert bytes(SECTOR_BYTES) + b"b" * SECTOR_BYTES in torn


def test_a_kill_keeps_what_was_not_synced() -> None:
    disk = disk_with_file(content=b"old")
    disk.open(FILE).write(0, [b"new"])
    disk.kill()
    assert disk.content(FILE) == b"new"


def test_a_new_name_is_lost_unless_its_directory_was_synced() -> None:
    names = set()
    for seed in range(20):
        disk = disk_with_file(seed)
        file = disk.create(DIRECTORY / "other")
        file.write(0, [b"content"])
        file.sync()
        disk.power_cut()
        names.add(tuple(disk.list(DIRECTORY)))
    assert names == {("file",), ("file", "other")}


def test_a_renamed_file_may_have_its_old_name_again() -> None:
    outcomes = set()
    for seed in range(20):
        disk = disk_with_file(seed)
        disk.rename(FILE, DIRECTORY / "new")
        disk.power_cut()
        outcomes.add(tuple(disk.list(DIRECTORY)))
    assert outcomes == {("file",), ("new",)}


def test_a_synced_rename_stays() -> None:
    disk = disk_with_file()
    disk.rename(FILE, DIRECTORY / "new")
    disk.sync_directory(DIRECTORY)
    disk.power_cut()
    assert disk.list(DIRECTORY) == ["new"]


def test_a_removed_file_may_come_back() -> None:
    outcomes = set()
    for seed in range(20):
        disk = disk_with_file(seed, b"x")
        disk.remove(FILE)
        disk.power_cut()
        outcomes.add(disk.exists(FILE))
    assert outcomes == {True, False}


def test_names_survive_in_the_order_they_were_made() -> None:
    for seed in range(20):
        disk = disk_with_file(seed)
        for name in "abc":
            disk.create(DIRECTORY / name)
        disk.power_cut()
        assert disk.list(DIRECTORY) in (["file"], ["a", "file"], ["a", "b", "file"], ["a", "b", "c", "file"])


def test_power_fails_at_the_call_it_is_told_to() -> None:
    disk = disk_with_file()
    disk.cut_power_at_call = 2
    disk.exists(FILE)
    with pytest.raises(PowerCutError):
        disk.exists(FILE)
    with pytest.raises(PowerCutError):
        disk.list(DIRECTORY)


def test_power_comes_back_after_the_cut() -> None:
    disk = disk_with_file(content=b"x")
    disk.cut_power_at_call = 1
    with pytest.raises(PowerCutError):
        disk.open(FILE)
    disk.power_cut()
    assert disk.open(FILE).read(0, 1) == b"x"


def test_a_failed_sync_is_told_once_and_never_made_good() -> None:
    survived = set()
    for seed in range(20):
        disk = disk_with_file(seed, b"old")
        disk.fail_syncs("*/file")
        file = disk.open(FILE)
        file.write(0, [b"new"])
        with pytest.raises(StorageError, match="Input/output error"):
            file.sync()
        file.sync()
        assert disk.content(FILE) == b"new"
        disk.power_cut()
        survived.add(disk.content(FILE))
    assert b"old" in survived


def test_writing_again_after_a_failed_sync_makes_it_good() -> None:
    disk = disk_with_file(content=b"old")
    disk.fail_syncs("*/file")
    file = disk.open(FILE)
    file.write(0, [b"new"])
    with pytest.raises(StorageError):
        file.sync()
    file.write(0, [b"new"])
    file.sync()
    disk.power_cut()
    assert disk.content(FILE) == b"new"


def test_a_full_disk_takes_a_part_of_the_write() -> None:
    disk = disk_with_file(content=b"1234")
    disk.capacity_bytes = 6
    with pytest.raises(StorageError, match="No space left"):
        disk.open(FILE).write(4, [b"5678"])
    assert disk.content(FILE) == b"123456"


def test_a_full_disk_lets_old_bytes_be_written_over() -> None:
    disk = disk_with_file(content=b"1234")
    disk.capacity_bytes = 4
    disk.open(FILE).write(0, [b"5678"])
    assert disk.content(FILE) == b"5678"


def test_a_flipped_bit_is_seen_and_durable() -> None:
    disk = disk_with_file(content=b"\0\0")
    disk.flip_bit(FILE, 1, bit=3)
    disk.power_cut()
    assert disk.content(FILE) == b"\0\x08"


def test_a_lock_is_held_until_its_holder_is_killed() -> None:
    disk = disk_with_file()
    disk.lock(DIRECTORY / ".lock")
    with pytest.raises(DirectoryLockedError):
        disk.lock(DIRECTORY / ".lock")
    disk.kill()
    disk.lock(DIRECTORY / ".lock").release()


def test_the_same_seed_gives_the_same_loss() -> None:
    def run() -> bytes:
        disk = disk_with_file(seed=5)
        disk.open(FILE).write(0, [bytes(range(256)) * 40])
        disk.power_cut()
        return disk.content(FILE)

    assert run() == run()


def test_threads_take_turns_with_the_copy_of_a_cut_disk() -> None:
    disk, copies, failures = disk_with_file(), [], []

    def work(number: int) -> None:
        try:
            for slot in range(60):
                file = disk.create(DIRECTORY / f"{number}-{slot}")
                file.write(0, [b"data"])
                file.sync()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            failures.append(error)

    disk.on_call = lambda cut: copies.append(cut.copy(1))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    pause_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(pause_s)
    assert failures == []
    assert len(copies) == 3 * 60 * 3
