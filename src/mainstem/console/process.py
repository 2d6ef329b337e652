"""The gateway process with the console in front: ``python -m mainstem.console.process`` and the gateway's own options.

The console is loaded by the first request for one of its pages, so the process is ready as early as without it.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # while modules load, as in `gateway.server.process`

import sys
from collections.abc import Sequence

from mainstem.console.console_mount import mount_console
from mainstem.gateway.server import process


def main(argv: Sequence[str] | None = None) -> int:
    """Run until a signal, or until standard input ends; the exit code."""
    return process.main(argv, mount_console)


if __name__ == "__main__":
    sys.exit(main())
