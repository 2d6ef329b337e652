"""One run at a time on an App's checkpoints: a lock that the kernel lets go of when its process ends, in any way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mainstem.durable_files import DirectoryLock, make_directory
from mainstem.errors import StorageError

LOCK_FILE: Final = "__lock"
"""In the checkpoints' directory; no pipeline has a name that begins so."""


@contextmanager
def locked(checkpoints: Path) -> Iterator[None]:
    """Hold the directory, which is made if need be. Raises DirectoryLockedError, StorageError."""
    try:
        make_directory(checkpoints)
        lock = DirectoryLock.take(
            checkpoints / LOCK_FILE,
            f"the pipelines over {checkpoints} run already, in process {{holder}}: let it end, or stop it",
        )
    except StorageError as error:
        raise StorageError(f"the checkpoints' directory {checkpoints} cannot be used: {error}") from error
    try:
        yield
    finally:
        lock.release()
