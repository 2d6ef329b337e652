"""The directory for the files of test databases: in memory, if there is enough.

Tests kill processes, not the machine, so syncs to a disk only cost time. ext4 also skips inodes that were freed in the
last five seconds, one by one, when it creates a file. Tests create and drop databases of 300 files each: this search
took 87 s of processor time in a run of all tests.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")
_BYTES_MIN: Final = 6 << 30


def directory_in_memory() -> Path | None:
    """``/dev/shm`` if it has 6 GiB free, else None: use the default temporary directory."""
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _BYTES_MIN:
        return _MEMORY
    return None
