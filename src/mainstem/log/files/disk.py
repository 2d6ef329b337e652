"""The disk port: every side effect of the log on storage goes through it, so that tests can cut its power.

``OsDisk`` is the real one; ``mainstem.testing.disk.FaultyDisk`` keeps what was synced apart from what was not.

The port gives single steps. ``durable_files`` makes sequences of them: its ``FileSystem`` is a part of this port, so
``replace_file`` runs over both disks. ``OsDisk`` takes ``sync_directory`` and ``DirectoryLock`` from there. Cleaning
and recovery rename segment files in sequences of their own, because several files change at once (``cleaning/swap``,
``recovery/truncated_tail``).

Contract, which the log relies on and both keep:

* What was written is durable only after ``DiskFile.sync``; that a name exists, was renamed or removed, only after
  ``Disk.sync_directory`` of its directory. Before that, a power cut may keep any part of it, in any order.
* A failed ``sync`` says nothing about what is on the disk, and a later one that succeeds does not either.
* A buffer that ``view`` or ``read`` returned stays valid and unchanged when the file is closed or removed, as long as
  the bytes it shows are not written over and the file is not cut below them.
* All failures are StorageError, with the operation and the path in their text.

Concurrency: a Disk may be used from any thread. A DiskFile has one writer; ``sync`` may run in another thread
meanwhile.
"""

from __future__ import annotations

import mmap
import os
import shutil
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Final, NamedTuple, Protocol

from mainstem import durable_files
from mainstem.errors import StorageError

Buffer = bytes | bytearray | memoryview

_BUFFERS_A_CALL: Final = 1024  # IOV_MAX on Linux
_MAPPED_VIEW_BYTES_MIN: Final = 256 * 1024
_MAPPING_BYTES: Final = 8 << 20
_MAPPINGS_MAX: Final = 8


class ReadableFile(Protocol):
    """The part of a file that a walk over record batches needs."""

    def read(self, file_position: int, length: int) -> bytes:
        """At most ``length`` bytes; fewer only where the file ends."""
        ...


class DiskFile(ReadableFile, Protocol):
    """An open file: read and write by file position, no cursor."""

    @property
    def path(self) -> PurePath: ...

    def size_bytes(self) -> int: ...

    def view(self, file_position: int, length: int) -> memoryview:
        """As ``read``, for large stretches that are handed on: may map the file instead of copying."""
        ...

    def write(self, file_position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers, one after the other. After StorageError any part of them may have been written."""
        ...

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None:
        """fdatasync: the file's bytes and size are durable when it returns. Never repeat it after StorageError."""
        ...

    def close(self) -> None: ...


class DiskLock(Protocol):
    """A lock on the data directory, held until released or until the process ends."""

    def release(self) -> None: ...


class Disk(Protocol):
    """Files and directories by path."""

    def open(self, path: PurePath) -> DiskFile:
        """Open a file that exists, for reading and writing."""
        ...

    def create(self, path: PurePath) -> DiskFile:
        """Open a file that is new, or emptied if it was there."""
        ...

    def exists(self, path: PurePath) -> bool: ...

    def list(self, path: PurePath) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def make_directory(self, path: PurePath) -> None:
        """Make a directory and its parents; nothing happens when it is there."""
        ...

    def rename(self, source: PurePath, target: PurePath) -> None:
        """Rename within one directory; replaces ``target`` atomically."""
        ...

    def remove(self, path: PurePath) -> None:
        """Remove a file; nothing happens when it is gone."""
        ...

    def remove_directory(self, path: PurePath) -> None:
        """Remove a directory with all that is in it."""
        ...

    def sync_directory(self, path: PurePath) -> None:
        """Make durable which names are in the directory."""
        ...

    def lock(self, path: PurePath) -> DiskLock:
        """Take the lock file at ``path``. Raises DirectoryLockedError when another holder lives."""
        ...


def _storage_error(action: str, path: PurePath, error: OSError) -> StorageError:
    return StorageError(f"cannot {action} {path}: {error.strerror or error}")


@contextmanager
def _as_storage_error(action: str, path: PurePath) -> Iterator[None]:
    """The one seam where the operating system's errors become the log's. Hot paths spell it out: it costs 1 µs."""
    try:
        yield
    except OSError as error:
        raise _storage_error(action, path, error) from error


class OsDisk:
    """The machine's own file system. Safe from any thread; views are asked for by the owner of the file only."""

    def __init__(self) -> None:
        self._mappings: OrderedDict[_OsFile, _Mapping] = OrderedDict()

    def open(self, path: PurePath) -> DiskFile:
        with _as_storage_error("open", path):
            return _OsFile(path, os.open(path, os.O_RDWR | os.O_CLOEXEC), self._mappings)

    def create(self, path: PurePath) -> DiskFile:
        with _as_storage_error("create", path):
            descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, durable_files.OWNER_ONLY_FILE
            )
            return _OsFile(path, descriptor, self._mappings)

    def exists(self, path: PurePath) -> bool:
        with _as_storage_error("look at", path):
            return Path(path).exists()

    def list(self, path: PurePath) -> list[str]:
        with _as_storage_error("list", path):
            return sorted(os.listdir(path))  # noqa: PTH208 names are wanted, not paths

    def make_directory(self, path: PurePath) -> None:
        with _as_storage_error("make the directory", path):
            Path(path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: PurePath, target: PurePath) -> None:
        with _as_storage_error(f"rename to {target.name}", source):
            Path(source).replace(target)

    def remove(self, path: PurePath) -> None:
        with _as_storage_error("remove", path):
            Path(path).unlink(missing_ok=True)

    def remove_directory(self, path: PurePath) -> None:
        with _as_storage_error("remove the directory", path):
            shutil.rmtree(path)

    def sync_directory(self, path: PurePath) -> None:
        durable_files.sync_directory(path)

    def lock(self, path: PurePath) -> DiskLock:
        return durable_files.DirectoryLock.take(
            path,
            f"{path.parent} is in use by another Mainstem process, {{holder}}: stop that one, or choose another --data",
        )


class _Mapping(NamedTuple):
    """The stretch of a file that was mapped last: where readers are that follow one another."""

    start: int
    end: int
    bytes: memoryview


class _OsFile:
    """A file by its descriptor.

    Small views are copies. A large one is cut out of a mapping of 8 MiB, so that it reaches the socket uncopied; few
    mappings are kept, for all files together, so that what was read once does not count as this process's memory.
    """

    __slots__ = ("_descriptor", "_mappings", "path")

    def __init__(self, path: PurePath, descriptor: int, mappings: OrderedDict[_OsFile, _Mapping]) -> None:
        self.path = path
        self._descriptor = descriptor
        self._mappings = mappings

    def size_bytes(self) -> int:
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise _storage_error("look at", self.path, error) from error

    def read(self, file_position: int, length: int) -> bytes:
        try:
            data = os.pread(self._descriptor, length, file_position)
            while 0 < len(data) < length:  # the end of the file, or 2 GiB, which is the most that one call reads
                more = os.pread(self._descriptor, length - len(data), file_position + len(data))
                if not more:
                    break
                data += more
            return data
        except OSError as error:
            raise _storage_error("read", self.path, error) from error

    def view(self, file_position: int, length: int) -> memoryview:
        if length < _MAPPED_VIEW_BYTES_MIN:
            return memoryview(self.read(file_position, length))
        mapping = self._mappings.get(self)
        if mapping is None or file_position < mapping.start or file_position + length > mapping.end:
            mapping = self._map(file_position, length)
        return mapping.bytes[file_position - mapping.start : file_position - mapping.start + length]

    def _map(self, file_position: int, length: int) -> _Mapping:
        start = file_position - file_position % mmap.ALLOCATIONGRANULARITY
        end = min(max(start + _MAPPING_BYTES, file_position + length), self.size_bytes())
        try:
            mapped = mmap.mmap(self._descriptor, end - start, access=mmap.ACCESS_READ, offset=start)
        except (OSError, ValueError) as error:  # ValueError: the file has become shorter
            raise StorageError(f"cannot map {self.path}: {error}") from error
        mapping = self._mappings[self] = _Mapping(start, end, memoryview(mapped))
        self._mappings.move_to_end(self)
        if len(self._mappings) > _MAPPINGS_MAX:
            self._mappings.popitem(last=False)
        return mapping

    def write(self, file_position: int, buffers: Sequence[Buffer]) -> None:
        try:
            expected = sum(map(len, buffers))
            if len(buffers) <= _BUFFERS_A_CALL and os.pwritev(self._descriptor, buffers, file_position) == expected:
                return
            self._write_slowly(file_position, buffers)
        except OSError as error:
            raise _storage_error("write", self.path, error) from error

    def _write_slowly(self, file_position: int, buffers: Sequence[Buffer]) -> None:
        """For what one system call did not take: too many buffers, or a short write (the next one says why)."""
        for first in range(0, len(buffers), _BUFFERS_A_CALL):
            remaining = memoryview(b"".join(buffers[first : first + _BUFFERS_A_CALL]))
            while remaining:
                written = os.pwrite(self._descriptor, remaining, file_position)
                file_position += written
                remaining = remaining[written:]

    def truncate(self, size_bytes: int) -> None:
        try:
            os.ftruncate(self._descriptor, size_bytes)
        except OSError as error:
            raise _storage_error("truncate", self.path, error) from error

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise _storage_error("sync", self.path, error) from error

    def close(self) -> None:
        self._mappings.pop(self, None)  # views of it stay: they hold the memory
        try:
            os.close(self._descriptor)
        except OSError as error:
            raise _storage_error("close", self.path, error) from error
