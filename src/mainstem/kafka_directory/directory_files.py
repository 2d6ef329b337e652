"""Files between two log directories: linked where neither side writes, copied where one may.

A closed segment's ``.log`` is never written again by Mainstem or by Kafka: both replace or remove whole files, so two
names of one file do not disturb each other. Everything else is copied: the active segment is appended to, and indexes
are cut and grown in place.

Stateless functions over the local file system. Failures are StorageError.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mainstem.errors import InputError, StorageError
from mainstem.log.files.names import (
    LOG,
    OFFSET_INDEX,
    REMOTE,
    SEAL,
    SNAPSHOT,
    TIME_INDEX,
    TRANSACTION_INDEX,
    parse_offset_file,
)

_COPY_BYTES = 1 << 30
_COPIED = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT)


class FileTransfer(NamedTuple):
    """One file of a partition, by name, and whether it may be linked."""

    name: str
    size_bytes: int
    is_linked: bool


class PartitionTransfer(NamedTuple):
    """The files that go along, of the directory of one partition."""

    directory: str
    files: tuple[FileTransfer, ...]


class TransferSizes(NamedTuple):
    """How many files and bytes are linked, and how many are copied."""

    linked_files: int = 0
    linked_bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0


def partition_transfer(path: Path) -> PartitionTransfer:
    """The files of a partition that go along. A closed segment without its offset index is copied: who opens it
    rebuilds the index, and may cut the ``.log`` then.
    """
    with reading(path):
        sizes = {entry.name: entry.stat().st_size for entry in os.scandir(path) if entry.is_file()}
    parsed = {name: file for name in sizes if (file := parse_offset_file(name)) is not None}
    remote = {offset for offset, suffix in parsed.values() if suffix in (REMOTE, SEAL)}  # a .remote may be lost
    if away := remote - {offset for offset, suffix in parsed.values() if suffix == LOG}:
        raise InputError(
            f"{path} has {len(away)} segments that are in the store of its backup alone: restore the backup into "
            "another directory (mainstem restore URL --to DIR), and take that"
        )
    active = max((offset for offset, suffix in parsed.values() if suffix == LOG), default=-1)
    files = []
    for name, (offset, suffix) in sorted(parsed.items()):
        if suffix == LOG:
            has_index = name.removesuffix(LOG) + OFFSET_INDEX in sizes
            files.append(FileTransfer(name, sizes[name], offset < active and has_index))
        elif suffix in _COPIED:
            files.append(FileTransfer(name, sizes[name], is_linked=False))
    return PartitionTransfer(path.name, tuple(files))


def sizes_of(transfers: Iterable[PartitionTransfer], *, links: bool) -> TransferSizes:
    """Add up transfers. Without ``links``, on two file systems, everything is copied."""
    counts = [0, 0, 0, 0]
    for transfer in transfers:
        for file in transfer.files:
            at = 0 if file.is_linked and links else 2
            counts[at] += 1
            counts[at + 1] += file.size_bytes
    return TransferSizes(*counts)


def shares_file_system(source: Path, target: Path) -> bool:
    """Whether files of one directory can be linked into the other, which need not exist yet."""
    place = target.absolute()
    while not place.exists():
        place = place.parent
    with reading(source):
        return source.stat().st_dev == place.stat().st_dev


def transfer_files(source: Path, target: Path, files: Iterable[FileTransfer]) -> None:
    """Link or copy files from one directory into another, which is there. Durable with ``durable_files.sync_tree``."""
    for file in files:
        if file.is_linked and _link(source / file.name, target / file.name):
            continue
        copy_file(source / file.name, target / file.name)


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            return False  # another file system, or one without links
        raise StorageError(f"cannot link {source} to {target}: {error.strerror or error}") from error
    return True


def copy_file(source: Path, target: Path) -> None:
    """Copy a file; on file systems that can, both share their blocks until one is written. Raises StorageError."""
    with writing(target), source.open("rb") as old, target.open("wb") as new:
        left = source.stat().st_size
        try:
            while left:
                copied = os.copy_file_range(old.fileno(), new.fileno(), min(left, _COPY_BYTES))
                if not copied:
                    break  # the file ends before it should
                left -= copied
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            shutil.copyfile(source, target)


def write_file(path: Path, data: bytes) -> None:
    """Write a new file. Raises StorageError."""
    with writing(path):
        path.write_bytes(data)


def read_small_file(path: Path) -> bytes | None:
    """All bytes of a file, opened for reading alone; None when it is missing. Raises StorageError."""
    with reading(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Translate the operating system's errors while a directory is read."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Translate the operating system's errors while a file is written."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def file_names(path: Path) -> list[str]:
    """The names in a directory, sorted. Raises StorageError."""
    with reading(path):
        return sorted(os.listdir(path))  # noqa: PTH208 names are wanted, not paths


def remove_tree(path: Path) -> None:
    """Remove what an earlier run left; nothing happens when it is not there."""
    with suppress(FileNotFoundError):
        with writing(path):
            if path.exists():
                shutil.rmtree(path)
