"""How many files and connections a process may open, and how they share the limit.

A socket is a file to the kernel: connections that took all descriptors would keep the log from opening a segment. So
the log's segments have a part of their own, some are kept free for files that are open for a moment, and connections
get the rest. Touches the process's own limit; safe from any thread.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

SEGMENT_FILES_MAX: Final = 512
_KEPT_BACK: Final = 64
_UNLIMITED: Final = 1 << 20


def raise_open_files_limit() -> int:
    """As many as the machine allows, and how many that is: the usual soft limit of 1,024 is for ``select``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # a system that does not let it be raised so far: as it was
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return open_files_limit()


def open_files_limit() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else _UNLIMITED


def segment_files_limit() -> int:
    """The most segment files that the log keeps open: a quarter of the limit at most."""
    return max(1, min(SEGMENT_FILES_MAX, open_files_limit() // 4))


def connections_limit() -> int:
    """The most connections that leave the log its files: half of the limit where that is low."""
    limit = open_files_limit()
    return max(1, limit // 2, limit - 2 * segment_files_limit() - _KEPT_BACK) if limit > 2 * _KEPT_BACK else limit // 2
