"""Durable files: the one way to replace a file, to name or remove what is made beside, and to lock a directory.

A power cut may undo every write that was not synced and every rename whose directory was not synced. State that decides
what a process does next (a revoked token, which version of a view serves) is therefore written in this order:

1. the bytes go into a temporary file beside the target, readable by its owner only,
2. the temporary file is synced,
3. it is renamed over the target,
4. the directory is synced.

A reader, and the next start after a crash at any step, sees the old content or the new content, never a mixture; after
``replace_file`` returns, only the new content.

The functions work over ``FileSystem``, a part of the log's ``Disk`` port, so that tests can cut the power at each step;
``LOCAL_FILES`` is the machine's own. All failures are StorageError with the operation and the path.

Concurrency: safe from any thread; one writer a path. A ``DirectoryLock`` is held by a process, not by a thread.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Final, Protocol

from mainstem.errors import DirectoryLockedError, StorageError

TEMPORARY: Final = ".tmp"
OWNER_ONLY_FILE: Final = 0o600
OWNER_ONLY_DIRECTORY: Final = 0o700
OTHERS: Final = 0o077
_LOG: Final = logging.getLogger("mainstem.durable_files")
_HOLDER_BYTES_MAX: Final = 32
_LOCK_TRY_S: Final = 0.01


class NewFile(Protocol):
    """A file that is being written."""

    def write(self, file_position: int, buffers: Sequence[bytes]) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class FileSystem(Protocol):
    """The disk operations that ``replace_file`` needs."""

    def create(self, path: PurePath) -> NewFile: ...

    def rename(self, source: PurePath, target: PurePath) -> None: ...

    def sync_directory(self, path: PurePath) -> None: ...


class _LocalFile:
    def __init__(self, path: PurePath, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def write(self, file_position: int, buffers: Sequence[bytes]) -> None:
        with _as_storage_error("write", self._path):
            remaining = memoryview(b"".join(buffers))
            while remaining:
                written = os.pwrite(self._descriptor, remaining, file_position)
                file_position += written
                remaining = remaining[written:]

    def sync(self) -> None:
        with _as_storage_error("sync", self._path):
            os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class _LocalFiles:
    """The machine's file system. New files are for their owner only."""

    def create(self, path: PurePath) -> NewFile:
        with _as_storage_error("create", path):
            Path(path).unlink(missing_ok=True)  # a left-over may have wider rights, or be a link
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return _LocalFile(path, os.open(path, flags, OWNER_ONLY_FILE))

    def rename(self, source: PurePath, target: PurePath) -> None:
        with _as_storage_error(f"rename to {target.name}", source):
            Path(source).replace(target)

    def sync_directory(self, path: PurePath) -> None:
        sync_directory(path)


LOCAL_FILES: Final[FileSystem] = _LocalFiles()


@contextmanager
def _as_storage_error(action: str, path: PurePath) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot {action} {path}: {error.strerror or error}") from error


def replace_file(files: FileSystem, path: PurePath, data: bytes, *, sync: bool = True) -> None:
    """Put ``data`` in the file's place, by a temporary file and a rename. Raises StorageError.

    With ``sync`` it is durable on return. Without, a power cut may leave the old content, the new, or an empty file:
    for files whose damage is detected and that can be rebuilt.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    file = files.create(temporary)
    try:
        file.write(0, [data])
        if sync:
            file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    if sync:
        files.sync_directory(path.parent)


def put_in_place(source: Path, target: Path) -> None:
    """Give a file or directory that was made under another name its own name, durably: its bytes, then the name.

    Both are in one directory, or at least on one file system. A file may take another's place; a directory only that of
    an empty one. Raises StorageError.
    """
    if source.is_dir():
        sync_tree(source)
    else:
        with _as_storage_error("sync", source):
            _sync(source)
    LOCAL_FILES.rename(source, target)
    sync_directory(target.parent)


@contextmanager
def unfinished_directory(path: Path) -> Iterator[Path]:
    """A new and empty directory at ``path``, for what gets its name by ``put_in_place``; removed where the block fails.

    What a killed process left there goes first. One process at a time: it is locked for as long as the block takes, so
    no other one writes into it, or removes it. Raises DirectoryLockedError, StorageError.
    """
    make_directory(path.parent)
    with _as_storage_error("make the directory", path):
        path.mkdir(mode=OWNER_ONLY_DIRECTORY, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _lock_unfinished(path, descriptor)
        with _as_storage_error("empty", path):
            for each in path.iterdir():
                if each.is_dir() and not each.is_symlink():
                    shutil.rmtree(each)
                else:
                    each.unlink()
            path.chmod(OWNER_ONLY_DIRECTORY)
        try:
            yield path
        except (Exception, KeyboardInterrupt):
            if _is_at(path, descriptor):
                shutil.rmtree(path, ignore_errors=True)
            raise
    finally:
        os.close(descriptor)


def _lock_unfinished(path: Path, descriptor: int) -> None:
    in_use = f"{path} is being written by another process: wait until it has ended, or name another place"
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DirectoryLockedError(in_use) from error
    except OSError as error:
        raise StorageError(f"cannot lock {path}: {error.strerror or error}") from error
    if not _is_at(path, descriptor):  # it got its name, or was removed, before it was locked here
        raise DirectoryLockedError(in_use)


def _is_at(path: Path, descriptor: int) -> bool:
    with suppress(OSError):
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    return False


def remove_directory(path: Path, aside: Path) -> None:
    """Remove a directory as a whole: it durably has the name ``aside`` before the first of its files goes.

    So no crash leaves half a directory under its own name. What a crash leaves under ``aside`` goes with the next call,
    also when there is no directory any more. Raises StorageError.
    """
    shutil.rmtree(aside, ignore_errors=True)
    with _as_storage_error(f"rename to {aside.name}", path), suppress(FileNotFoundError):
        path.rename(aside)
    sync_directory(path.parent)
    shutil.rmtree(aside, ignore_errors=True)


def remove_file(path: Path) -> None:
    """Remove a file durably; nothing happens when it is missing. Raises StorageError."""
    with _as_storage_error("remove", path):
        try:
            path.unlink()
        except FileNotFoundError:
            return
    sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Make a directory and its missing parents, durably. Raises StorageError."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    with _as_storage_error("make the directory", path):
        path.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync_directory(each.parent)


def private_directory(path: Path, *, marker: str | None = None) -> None:
    """Make a directory that only this user can enter, or see that the one that is there is such. Raises StorageError.

    As in PostgreSQL, a directory that belongs to another user is refused. One that others can enter is closed to them
    (mode 0700), with a line in the log. With ``marker``, a name that shows whose directory it is, only one
    that is empty or holds that name is closed: another may be named by mistake (``/tmp``, a home), and is refused.
    """
    if not path.exists():
        make_directory(path.parent)
        with _as_storage_error("make the directory", path):
            path.mkdir(mode=OWNER_ONLY_DIRECTORY, exist_ok=True)
        sync_directory(path.parent)
    with _as_storage_error("look at", path):
        found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise StorageError(f"{path} is not a directory")
    if found.st_uid != os.geteuid():
        raise StorageError(
            f"{path} belongs to user {found.st_uid}, and this process runs as user {os.geteuid()}: "
            "run it as that user, or choose a directory of your own (one inside it will do)"
        )
    mode = stat.S_IMODE(found.st_mode)
    if not mode & OTHERS:
        return
    with _as_storage_error("close to other users", path):
        names = os.listdir(path)  # noqa: PTH208 names are wanted, not paths
        if marker is not None and names and marker not in names:
            raise StorageError(
                f"{path} can be entered by other users (mode {mode:04o}) and holds other things than Mainstem's: "
                f"choose a directory of its own, or say that it is meant with: chmod 700 {path}"
            )
        path.chmod(OWNER_ONLY_DIRECTORY)
    _LOG.warning("%s could be entered by other users (mode %04o): its mode is 0700 now", path, mode)


def sync_directory(path: PurePath) -> None:
    """Make durable which names are in a directory. Raises StorageError."""
    with _as_storage_error("sync the directory", path):
        _sync(path)


def sync_tree(path: Path) -> None:
    """Make durable every file and directory under ``path``, and its own name. Raises StorageError.

    A file that its owner removes meanwhile is left out.
    """
    with _as_storage_error("sync", path):
        for entry in path.rglob("*"):
            with suppress(FileNotFoundError):
                _sync(entry)
        _sync(path)
        _sync(path.parent)


def _sync(path: PurePath) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class DirectoryLock:
    """A lock file that one process holds. The kernel releases it when the process ends, in whatever way."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: PurePath, in_use: str, *, wait_s: float = 0.0) -> DirectoryLock:
        """Lock the file at ``path``, made if need be; wait for another holder at most ``wait_s``.

        Raises DirectoryLockedError with the text ``in_use``, in which ``{holder}`` becomes the process id that the
        holder wrote into the file; StorageError when the file cannot be made or locked.
        """
        with _as_storage_error("lock", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY_FILE)
            try:
                _lock(descriptor, wait_s)
            except BlockingIOError as error:
                holder = os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode(errors="replace").strip() or "unknown"
                os.close(descriptor)
                raise DirectoryLockedError(in_use.replace("{holder}", holder)) from error
            except OSError:
                os.close(descriptor)
                raise
        with suppress(OSError):  # a full disk: the lock is held, its holder's process id is only for the error's text
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Let another process take it."""
        os.close(self._descriptor)


def _lock(descriptor: int, wait_s: float) -> None:
    """Raises BlockingIOError when another process still holds the lock after ``wait_s``."""
    until_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until_s:
                raise
            time.sleep(_LOCK_TRY_S)
