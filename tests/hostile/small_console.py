"""The gateway with a console of very few pages: ``python -m tests.hostile.small_console``."""

from __future__ import annotations

import sys

from mainstem.console import console_mount, process

if __name__ == "__main__":
    console_mount.PAGES_MAX, console_mount.UNSEEN_S = 4, 600.0  # type: ignore[misc]
    sys.exit(process.main())
