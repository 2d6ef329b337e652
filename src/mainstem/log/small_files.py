"""Reading and replacing small files whole: a reader sees the old content or the new, never a mixture. And directories.

Stateless functions over the disk port; safe from any thread, one writer a path.
"""

from __future__ import annotations

from pathlib import PurePath

from mainstem.log.disk import Disk
from mainstem.log.names import TEMPORARY


def read_file(disk: Disk, path: PurePath) -> bytes | None:
    """All bytes of a file; None when there is none."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        return file.read(0, file.size_bytes())
    finally:
        file.close()


def replace_file(disk: Disk, path: PurePath, data: bytes, *, sync: bool) -> None:
    """Put ``data`` in the file's place, by a temporary file and a rename.

    With ``sync`` it is durable on return. Without, a power cut may leave the old content, the new, or an empty file:
    for files that can be told to be wrong and built anew.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    file = disk.create(temporary)
    try:
        file.write(0, [data])
        if sync:
            file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    if sync:
        disk.sync_directory(path.parent)


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
