"""How this package's processes end when they cannot start: one line, and an exit code that tells the kind of error.

The codes are those of the commands: 1 the request is wrong, 3 not now, 4 this machine.
"""

from __future__ import annotations

import sys

from mainstem.errors import MachineError, MainstemError, UnavailableError


def told(error: MainstemError) -> int:
    """Print the line that the supervisor reads; the exit code."""
    print(f"error: {error}", file=sys.stderr, flush=True)  # noqa: T201  # the process's own voice
    return 3 if isinstance(error, UnavailableError) else 4 if isinstance(error, MachineError) else 1
