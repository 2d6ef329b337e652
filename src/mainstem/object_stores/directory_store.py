"""Objects as files of a directory: on another disk, or on a file system of the network.

An object appears under its name when all of it is durable. Conditional writes hold a lock file of the directory, so
they hold between all processes whose file systems agree on locks. The version of an object is the digest of its bytes.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mainstem.durable_files import (
    LOCAL_FILES,
    TEMPORARY,
    DirectoryLock,
    make_directory,
    private_directory,
    replace_file,
)
from mainstem.errors import StorageError
from mainstem.object_stores.store import Listed, ObjectMissingError, StoreConflictError, StoredObject, StoreError

_LOCK: Final = ".lock"
_LOCK_WAIT_S: Final = 10.0


class DirectoryStore:
    """See ``store.ObjectStore``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"file://{path}"
        self._one_write = threading.Lock()

    def get(self, name: str) -> StoredObject:
        data = self._read(name)
        return StoredObject(data, _version(data))

    def get_range(self, name: str, start: int, length: int) -> bytes:
        with _as_store_error(self._path / name), (self._path / name).open("rb") as file:
            file.seek(start)
            return file.read(length)

    def _read(self, name: str) -> bytes:
        with _as_store_error(self._path / name):
            return (self._path / name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        path = self._path / name
        if not path.parent.is_dir():
            self._make_directories(path.parent)
        replace_file(LOCAL_FILES, path, data)

    def _make_directories(self, parent: Path) -> None:
        private_directory(self._path)
        make_directory(parent)

    def create(self, name: str, data: bytes) -> str:
        return self._write_if(name, data, None)

    def replace(self, name: str, data: bytes, version: str) -> str:
        return self._write_if(name, data, version)

    def _write_if(self, name: str, data: bytes, version: str | None) -> str:
        if not self._path.is_dir():
            self._make_directories(self._path)
        in_use = f"{self._path} is locked by another process, {{holder}}"
        with self._one_write:
            lock = DirectoryLock.take(self._path / _LOCK, in_use, wait_s=_LOCK_WAIT_S)
            try:
                found = self._read(name) if (self._path / name).exists() else None
                if (None if found is None else _version(found)) != version:
                    raise StoreConflictError(f"{self.url}/{name} was written by another process")
                self.put(name, data)
            finally:
                lock.release()
        return _version(data)

    def list(self, prefix: str) -> Iterator[Listed]:
        root = self._path / prefix
        with _as_store_error(root):
            for directory, _, names in os.walk(root):
                for each in sorted(names):
                    path = Path(directory, each)
                    if each != _LOCK and not each.endswith(TEMPORARY):
                        yield Listed(path.relative_to(self._path).as_posix(), path.stat().st_size)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            with _as_store_error(self._path / name):
                (self._path / name).unlink(missing_ok=True)


def _version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextmanager
def _as_store_error(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectMissingError(f"{path} does not exist") from error
    except StorageError as error:
        raise StoreError(str(error)) from error
    except OSError as error:
        raise StoreError(f"cannot use {path}: {error.strerror or error}") from error
