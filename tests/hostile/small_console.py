"""The gateway with a console of very few pages: ``python -m tests.hostile.small_console``."""

from __future__ import annotations

import sys

from mainstem.console import door, process

if __name__ == "__main__":
    door.PAGES_MAX, door.UNSEEN_S = 4, 600.0  # type: ignore[misc]
    sys.exit(process.main())
