"""Where a test's database lies: in memory where there is room for it.

Tests kill processes, not the machine, so a sync to the disk would only take time. And ext4 looks for a free inode among
all that were given up in the last five seconds: where tests make and drop databases of 300 files each, that took 87 s
of processor time in a run of all tests.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")
_BYTES_MIN: Final = 6 << 30


def directory_in_memory() -> Path | None:
    """The directory of a file system in memory with 6 GiB free; None where there is none."""
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _BYTES_MIN:
        return _MEMORY
    return None
