"""How many files and connections a process may have open. Touches the process's own limit; safe from any thread."""

from __future__ import annotations

import resource
from contextlib import suppress


def raise_open_files_limit() -> int:
    """As many as the machine allows, and how many that is: the usual soft limit of 1,024 is for ``select``."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # a system that does not let it be raised so far: as it was
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 20
