"""One run at a time on an App's checkpoints: a lock that the kernel lets go of when its process ends, in any way."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mainstem.errors import DirectoryLockedError, StorageError

LOCK_FILE: Final = "__lock"
"""In the checkpoints' directory; no pipeline has a name that begins so."""


@contextmanager
def locked(checkpoints: Path) -> Iterator[None]:
    """Hold the directory, which is made if need be. Raises DirectoryLockedError, StorageError."""
    try:
        checkpoints.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(checkpoints / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(f"the checkpoints' directory {checkpoints} cannot be used: {error.strerror}") from error
    try:
        _take(descriptor, checkpoints)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, checkpoints: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        raise DirectoryLockedError(
            f"the pipelines over {checkpoints} run already, in process {holder}: let it end, or stop it"
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
