"""Small files and directories over the disk port: read whole, synced, made. ``durable_files`` replaces files.

Stateless functions over the disk port; safe from any thread, one writer a path.
"""

from __future__ import annotations

from pathlib import PurePath

from mainstem.log.files.disk import Disk
from mainstem.log.files.names import parse_offset_file


def read_file(disk: Disk, path: PurePath) -> bytes | None:
    """All bytes of a file; None when there is none."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        return file.read(0, file.size_bytes())
    finally:
        file.close()


def list_offsets(disk: Disk, directory: PurePath, suffix: str) -> list[int]:
    """The offsets of a partition's files with this suffix, rising."""
    parsed = (parse_offset_file(name) for name in disk.list(directory))
    return [file[0] for file in parsed if file is not None and file[1] == suffix]


def sync_file(disk: Disk, path: PurePath) -> None:
    """Make a file's content durable that was written without; its name is with its directory. Raises StorageError."""
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()


def make_directory(disk: Disk, path: PurePath) -> None:
    """Make a directory and its parents, where they are missing, durably; also if another made it and did not say so."""
    missing = [each for each in (path, *path.parents) if not disk.exists(each)]
    disk.make_directory(path)
    for each in missing or [path]:
        disk.sync_directory(each.parent)
