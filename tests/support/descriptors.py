"""Descriptors of the test process: waiting for one, whatever its number, and freeing those that nothing uses.

``select.select`` refuses a descriptor from 1,024 on. A worker of pytest has that many when it runs thousands of tests
and the collector, which looks at a large process rarely, has not yet found the clients that tests have left open.
"""

from __future__ import annotations

import gc
import os
import select
from typing import Any, Final

import pytest

_MANY: Final = 400


def is_readable(file: Any, within_s: float) -> bool:
    """Whether a descriptor, or an object that has one, can be read or has ended within that time."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Collect garbage where many descriptors are open."""
    if len(os.listdir("/proc/self/fd")) > _MANY:  # noqa: PTH208 numbers are counted
        gc.collect()
