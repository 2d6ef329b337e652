"""The console in a gateway that waits for its log for a short time: ``python -m tests.console.hasty_gateway``."""

from __future__ import annotations

import sys

from mainstem.console import process as console
from mainstem.gateway.server import process

if __name__ == "__main__":
    process._LOG_TIMEOUT_S = 3.0
    sys.exit(console.main())
